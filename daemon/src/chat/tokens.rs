//! Messages to text, text to tokens, and back, without the engine.

use hob_runtime::adapters::Adapters;
use hob_runtime::turn::Retention;
use hob_slots::Token;
use serde_json::Value;

use super::identity::{Identity, Session};
use super::submit::Job;
use super::{Chat, forward};
use crate::blocking::compute;
use crate::error::ApiError;

impl Chat {
    /// The text of the prompt that a chat with this body would have. Nothing is stored.
    /// `session`: what the headers name.
    ///
    /// # Errors
    /// When the request is invalid, or the template refuses the messages.
    pub async fn prompt_text(&self, body: &Value, session: &Session) -> Result<String, ApiError> {
        let job = self.unsent(body, session).await?;
        let chat = self.clone();
        compute(move || chat.prompt_text_of(&job)).await
    }

    /// The number of tokens of the prompt that a chat with this body would have. Nothing is stored.
    /// `session`: what the headers name.
    ///
    /// # Errors
    /// When the request is invalid, or the template refuses the messages.
    pub async fn count_tokens(&self, body: &Value, session: &Session) -> Result<usize, ApiError> {
        let job = self.unsent(body, session).await?;
        let chat = self.clone();
        compute(move || chat.prompt_length(&job)).await
    }

    /// A chat that is rendered only.
    async fn unsent(&self, body: &Value, session: &Session) -> Result<Job, ApiError> {
        let mut resolved = self.resolve(body)?;
        let identity = Identity::of(body, session)?;
        self.name_documents(&mut resolved.request, &identity).await?;
        let extent = resolved.extent();
        let start = self.begin_turn(&resolved, &identity, &extent).await?;
        // The length that an answer may have decides what is left out before it.
        let model = self.shared.options.model_sampling.fields();
        resolved.fill(start.sampling.as_ref(), model);
        let conversation = identity.pinned().cloned();
        let (adapters, keep) = (Adapters::default(), Retention::default());
        Ok(Job { resolved, start, extent, conversation, adapters, keep, ticket: None })
    }

    /// `add_special`: adds the model's begin and end tokens. `parse_special`: the written form of a
    /// control token becomes that token. `param`: the field that has the text.
    ///
    /// # Errors
    /// When the vocabulary is that of an engine at another address.
    pub async fn tokenize(
        &self,
        text: String,
        add_special: bool,
        parse_special: bool,
        param: &str,
    ) -> Result<Vec<Token>, ApiError> {
        if self.upstream().is_some() {
            return Err(forward::local(param, "the vocabulary is there"));
        }
        let model = self.engine().model().clone();
        Ok(compute(move || model.tokenize(&text, add_special, parse_special)).await)
    }

    /// Bytes that are not UTF-8 become U+FFFD.
    pub async fn detokenize(&self, tokens: Vec<Token>) -> String {
        let model = self.engine().model().clone();
        compute(move || {
            let bytes = model.vocabulary().bytes(&tokens);
            String::from_utf8_lossy(&bytes).into_owned()
        })
        .await
    }
}
