//! Embeddings, for models that compute them.

use super::Chat;
use crate::blocking::compute;
use crate::error::ApiError;
use crate::prompt::template::embedding_tokens;
use crate::wire::completion::Prompt;

impl Chat {
    /// One vector an input, and the number of tokens of all inputs.
    ///
    /// # Errors
    /// When the model computes no embeddings, or the engine's queue is full.
    pub async fn embed(&self, inputs: &[Prompt]) -> Result<(Vec<Vec<f32>>, usize), ApiError> {
        if let Some(upstream) = self.upstream() {
            let _active_turn = self.shared.options.events.turn(None);
            return Ok(upstream.embed(inputs.iter().map(Prompt::to_json).collect()).await?);
        }
        let (model, inputs) = (self.engine().model().clone(), inputs.to_vec());
        let tokenized = compute(move || {
            let tokenize = |input: &Prompt| embedding_tokens(model.as_ref(), input);
            inputs.iter().map(tokenize).collect::<Vec<_>>()
        });
        let _active_turn = self.shared.options.events.turn(None);
        let mut vectors = Vec::new();
        let mut tokens = 0;
        for input in tokenized.await {
            tokens += input.len();
            vectors.push(self.engine().embed(input).await?);
        }
        Ok((vectors, tokens))
    }
}
