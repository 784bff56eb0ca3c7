//! How much of a prompt is rendered: all of it for a turn, or the tokens that are certain while the
//! last message is still incomplete.
//!
//! - Speculative prefill renders through the same function as the turn, so that the turn finds what
//!   was computed.
//! - Certain tokens are the common prefix of two prompts whose last messages continue differently.
//!   This holds for every template and tokenizer: whatever depends on later words differs.

use super::render::{PromptParts, Rendered, Renderer};
use crate::error::ApiError;
use crate::wire::message::{Message, Role};
use hob_slots::{Token, common_prefix};

/// Continuations that no tokenizer merges with each other: a letter and a digit.
const CONTINUATIONS: [&str; 2] = ["w", "7"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The whole prompt, with the start of the answer.
    Whole,
    /// Everything before the rest of a user message that begins with these words.
    Before(String),
}

impl Renderer {
    /// The prompt up to `extent`. `known`: timelines, of which it probably continues one. Of a
    /// partial prompt only the tokens are returned, without text and segments.
    ///
    /// # Errors
    /// When the template refuses the messages.
    pub fn prompt(
        &self,
        parts: &PromptParts<'_>,
        extent: &Extent,
        known: &[Vec<Token>],
    ) -> Result<Rendered, ApiError> {
        match extent {
            Extent::Whole => self.render(parts, known),
            Extent::Before(words) => {
                let tokens = self.certain_tokens(parts, words, known)?;
                Ok(Rendered { text: String::new(), tokens, segments: Vec::new() })
            }
        }
    }

    fn certain_tokens(
        &self,
        parts: &PromptParts<'_>,
        words: &str,
        known: &[Vec<Token>],
    ) -> Result<Vec<Token>, ApiError> {
        let with = |next: &str| {
            let text = if words.is_empty() { next.to_owned() } else { format!("{words} {next}") };
            // The words follow documents that came without any, in their message.
            let messages = match parts.messages.split_last() {
                Some((last, before)) if last.is_documents_alone() => {
                    let mut last_with_words = last.without_documents(&text);
                    last_with_words.set_documents(&last.documents());
                    [before, &[last_with_words]].concat()
                }
                _ => [parts.messages, &[Message::plain(Role::User, &text)]].concat(),
            };
            let parts = PromptParts { messages: &messages, ..*parts };
            self.render(&parts, known).map(|prompt| prompt.tokens)
        };
        let [letter, digit] = CONTINUATIONS;
        let (mut tokens, other) = (with(letter)?, with(digit)?);
        tokens.truncate(common_prefix(&tokens, &other));
        Ok(tokens)
    }
}
