//! Goes on with the newest part of a conversation that no longer fits into the context.
//!
//! - Pure but for rendering. What is left out stays in the transcript.
//! - The instructions stay, and so do all documents; of the other messages the newest that leave room
//!   for the answer. The part begins with a message of the user, as chat templates expect, and has the last one at least.
//! - The room is a quarter of the context, or what the request asks for up to a half: a smaller one
//!   would fill again within a few messages, and each cut computes the part again.

use hob_slots::Token;

use super::request::ResolvedRequest;
use crate::conversations::transcript::instructions;
use crate::error::ApiError;
use crate::prompt::{DocumentTexts, Extent, Rendered, Renderer};
use crate::wire::message::{Message, Role};

/// A prompt that may leave out older messages.
pub struct Newest {
    pub rendered: Rendered,
    /// The first message behind the instructions, where older ones are left out.
    pub start: Option<usize>,
}

/// What a prompt is rendered from.
pub struct Parts<'a> {
    pub renderer: &'a Renderer,
    pub request: &'a ResolvedRequest,
    pub messages: &'a [Message],
    /// Those that the messages name.
    pub documents: &'a DocumentTexts,
    /// Timelines whose tokens the prompt keeps where its text is theirs.
    pub known: &'a [Vec<Token>],
}

impl Parts<'_> {
    /// Renders as many of the newest messages as fit into `context_tokens` with room for the answer.
    ///
    /// # Errors
    /// When the template refuses the messages.
    pub fn render(&self, context_tokens: usize) -> Result<Newest, ApiError> {
        let max_tokens = self.request.request.shape.max_tokens;
        self.render_within(context_tokens - room(max_tokens, context_tokens))
    }

    /// The same with a prompt of at most `budget` tokens, if there is one.
    ///
    /// # Errors
    /// When the template refuses the messages.
    pub fn render_within(&self, budget: usize) -> Result<Newest, ApiError> {
        let messages = self.messages;
        let whole = self.prompt(messages)?;
        let starts = starts(messages);
        if whole.tokens.len() <= budget || starts.is_empty() {
            return Ok(Newest { rendered: whole, start: None });
        }
        let instructions = &messages[..instructions(messages)];
        let from = |start: usize| {
            let mut newest = [instructions, &messages[start..]].concat();
            let left_out = &messages[instructions.len()..start];
            newest[instructions.len()].take_documents_of(left_out);
            self.prompt(&newest)
        };
        // A later start never makes the prompt longer.
        let (mut low, mut high) = (0, starts.len() - 1);
        while low < high {
            let middle = (low + high) / 2;
            if from(starts[middle])?.tokens.len() <= budget {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(Newest { rendered: from(starts[low])?, start: Some(starts[low]) })
    }

    fn prompt(&self, messages: &[Message]) -> Result<Rendered, ApiError> {
        let parts = self.request.prompt_parts(messages, self.documents);
        self.renderer.prompt(&parts, &Extent::Whole, self.known)
    }
}

/// Where a part may begin: at each message of the user but the first.
fn starts(messages: &[Message]) -> Vec<usize> {
    let users = messages.iter().enumerate().filter(|(_, message)| message.role == Role::User);
    users.map(|(at, _)| at).skip(1).collect()
}

fn room(max_tokens: Option<usize>, context_tokens: usize) -> usize {
    max_tokens.unwrap_or(0).clamp(context_tokens / 4, context_tokens / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_is_a_quarter_to_a_half_of_the_context() {
        assert_eq!(room(None, 1000), 250);
        assert_eq!(room(Some(10), 1000), 250);
        assert_eq!(room(Some(400), 1000), 400);
        assert_eq!(room(Some(4000), 1000), 500);
    }

    #[test]
    fn a_part_begins_with_a_later_message_of_the_user() {
        use Role::{Assistant, System, Tool, User};
        let roles = [System, User, Assistant, User, Assistant, Tool, Assistant, User];
        let messages = roles.map(|role| Message::plain(role, "x"));
        assert_eq!(starts(&messages), [3, 7]);
        assert_eq!(starts(&messages[..3]), [0_usize; 0]);
    }
}
