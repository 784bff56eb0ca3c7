//! Embeddings, for models that compute them.

use hob_runtime::Vocabulary;
use hob_slots::Token;

use super::Chat;
use crate::blocking::compute;
use crate::error::ApiError;
use crate::prompt::template::embedding_tokens;
use crate::wire::completion::Prompt;
use crate::wire::embedding::Embeddings;

impl Chat {
    /// `asked`: the name of the model, of which an engine at another address may have several.
    ///
    /// # Errors
    /// When the model computes no embeddings, or the engine's queue is full.
    pub async fn embed(
        &self,
        asked: Option<&str>,
        inputs: &[Prompt],
    ) -> Result<Embeddings, ApiError> {
        self.embed_up_to(usize::MAX, asked, inputs).await
    }

    /// [`Self::embed`], but of an input that is longer than the context only the beginning counts.
    ///
    /// # Errors
    /// As [`Self::embed`].
    pub async fn embed_beginnings(
        &self,
        asked: Option<&str>,
        inputs: &[Prompt],
    ) -> Result<Embeddings, ApiError> {
        self.embed_up_to(self.engine().conversation_tokens(), asked, inputs).await
    }

    /// An engine at another address gets the whole inputs.
    async fn embed_up_to(
        &self,
        most: usize,
        asked: Option<&str>,
        inputs: &[Prompt],
    ) -> Result<Embeddings, ApiError> {
        if let Some(upstream) = self.upstream() {
            let _active_turn = self.shared.options.events.turn(None);
            return Ok(upstream.embed(asked, inputs.iter().map(Prompt::to_json).collect()).await?);
        }
        let (model, inputs) = (self.engine().model().clone(), inputs.to_vec());
        let tokenized = compute(move || {
            let tokenize = |input: &Prompt| {
                beginning(embedding_tokens(model.as_ref(), input), most, model.vocabulary())
            };
            inputs.iter().map(tokenize).collect::<Vec<_>>()
        });
        let _active_turn = self.shared.options.events.turn(None);
        let mut embeddings = Embeddings::default();
        for input in tokenized.await {
            embeddings.tokens += input.len();
            embeddings.vectors.push(self.engine().embed(input).await?);
        }
        Ok(embeddings)
    }
}

/// The first tokens, up to `most`. A mark at the end stays there, as models like BERT were trained.
fn beginning(mut tokens: Vec<Token>, most: usize, vocabulary: &Vocabulary) -> Vec<Token> {
    if tokens.len() <= most {
        return tokens;
    }
    let mark = tokens.last().copied().filter(|&token| vocabulary.is_control(token));
    tokens.truncate(most.saturating_sub(usize::from(mark.is_some())));
    tokens.extend(mark);
    tokens
}

#[cfg(test)]
mod tests {
    use hob_runtime::backend::Model;
    use hob_runtime::backend::fake::FakeModel;

    use super::*;

    #[test]
    fn a_mark_stands_behind_the_beginning_of_a_text() {
        let model = FakeModel::new();
        let tokens = |text: &str| model.tokenize(text, false, true);
        for (text, expected) in
            [("abcd<|im_end|>", "ab<|im_end|>"), ("abcd", "abc"), ("ab<|im_end|>", "ab<|im_end|>")]
        {
            assert_eq!(beginning(tokens(text), 3, model.vocabulary()), tokens(expected), "{text}");
        }
    }
}
