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
use hob_slots::format::SegmentRef;
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
    /// partial prompt the tokens and their segments are returned, without the text.
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
            Extent::Before(words) => self.certain(parts, words, known),
        }
    }

    fn certain(
        &self,
        parts: &PromptParts<'_>,
        words: &str,
        known: &[Vec<Token>],
    ) -> Result<Rendered, ApiError> {
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
            self.render(&parts, known)
        };
        let [letter, digit] = CONTINUATIONS;
        let (Rendered { mut tokens, segments, .. }, other) = (with(letter)?, with(digit)?);
        tokens.truncate(common_prefix(&tokens, &other.tokens));
        let segments = within(segments, u32::try_from(tokens.len()).unwrap_or(u32::MAX));
        Ok(Rendered { text: String::new(), tokens, segments })
    }
}

/// The segments of the first `len` tokens; the last of them may be cut.
fn within(segments: Vec<SegmentRef>, len: u32) -> Vec<SegmentRef> {
    let mut begin = 0;
    let starts_within = |segment: &SegmentRef| std::mem::replace(&mut begin, segment.end) < len;
    let segments = segments.into_iter().take_while(starts_within);
    segments.map(|segment| SegmentRef { end: segment.end.min(len), ..segment }).collect()
}
