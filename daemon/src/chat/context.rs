//! How much of the context a conversation fills, and how much of its prompt has KV.
//!
//! - The prompt is rendered as the next turn's, without its question.

use hob_slots::common_prefix;
use serde_json::Value;

use super::Chat;
use super::identity::{Identity, Session};
use super::prewarm::without_question;
use crate::blocking::compute;
use crate::error::ApiError;
use crate::prompt::Extent;

/// The prompt of the next turn, without its question.
#[derive(Clone, Debug)]
pub struct NextPrompt {
    pub tokens: usize,
    /// The part of `tokens` with which the last prompt and its answer began.
    pub known_tokens: usize,
    /// The profile in front, and the tokens of its prefix, once known.
    pub prefix: Option<(hob_prewarm::ProfileName, usize)>,
    /// Older messages that it leaves out.
    pub left_out: usize,
    /// The most that a conversation holds.
    pub max_tokens: usize,
    /// Whether it goes on behind that, as a new timeline.
    pub goes_on: bool,
}

impl Chat {
    /// Measures the prompt of the conversation's next turn. `body`: as for a prewarm.
    ///
    /// # Errors
    /// When the request is invalid, or the template refuses the messages.
    pub async fn next_prompt(&self, body: &Value) -> Result<NextPrompt, ApiError> {
        let mut body = without_question(body)?;
        body["max_tokens"] = 0.into();
        let resolved = self.resolve(&body)?;
        let identity = Identity::of(&body, &Session::default())?;
        let extent = Extent::Before(String::new());
        let start = self.begin_turn(&resolved, &identity, &extent).await?;
        let renderer = self.shared.options.renderer.clone();
        let max_tokens = self.engine().conversation_tokens();
        let goes_on = resolved.reanchors();
        compute(move || {
            let continuation = start.continuation;
            let left_out = continuation.as_ref().map_or(0, |continuation| continuation.left_out);
            let history = continuation.map(|continuation| continuation.history);
            let messages = history.as_ref().unwrap_or(&resolved.request.messages);
            let parts = resolved.prompt_parts(messages, &start.documents);
            let tokens = renderer.prompt(&parts, &extent, &start.timelines)?.tokens;
            let last = start.timelines.first().map_or(&[][..], Vec::as_slice);
            let known_tokens = common_prefix(last, &tokens);
            let prefix_tokens = resolved.preamble.as_ref().and_then(|it| it.prefix.tokens());
            let prefix = resolved.profile.zip(prefix_tokens);
            let tokens = tokens.len();
            Ok(NextPrompt { tokens, known_tokens, prefix, left_out, max_tokens, goes_on })
        })
        .await
    }
}
