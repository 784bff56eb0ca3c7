//! Embeddings, for models that make them.

use super::{Service, compute, prompt};
use crate::error::ApiError;
use crate::wire::completion::Prompt;

impl Service {
    /// One vector an input, and the number of tokens in all of them.
    pub async fn embed(&self, inputs: &[Prompt]) -> Result<(Vec<Vec<f32>>, usize), ApiError> {
        let (service, inputs) = (self.clone(), inputs.to_vec());
        let cut = compute(move || {
            let model = service.engine().model().clone();
            let cut = |input: &Prompt| prompt::embedding_tokens(model.as_ref(), input);
            inputs.iter().map(cut).collect::<Vec<_>>()
        });
        let mut vectors = Vec::new();
        let mut tokens = 0;
        for input in cut.await {
            tokens += input.len();
            vectors.push(self.engine().embed(input).await?);
        }
        Ok((vectors, tokens))
    }
}
