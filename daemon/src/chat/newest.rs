//! Goes on with the newest part of a conversation that no longer fits into the context.
//!
//! - Pure but for rendering. What is left out stays in the transcript.
//! - The instructions stay, all documents, and the exchanges with a pinned message; of the other messages the newest
//!   that leave room for the answer. The part begins with a message of the user, as chat templates expect, and has the
//!   last one at least. Pinned exchanges stand in front of it.
//! - The room is a quarter of the context, or what the request asks for up to a half: a smaller one
//!   would fill again within a few messages, and each cut computes the part again.

use std::collections::BTreeSet;

use super::branch_prompt::BranchPrompt;
use crate::conversations::transcript::{Branch, Window};
use crate::error::ApiError;
use crate::prompt::Rendered;
use crate::wire::message::{Message, Role};

/// A prompt that may leave out older messages.
pub struct Newest {
    pub rendered: Rendered,
    /// What it has of its branch, where older messages are left out.
    pub window: Option<Window>,
}

impl BranchPrompt<'_> {
    /// Renders as many of the newest messages as fit into `context_tokens` with room for the answer.
    ///
    /// # Errors
    /// When the template refuses the messages.
    pub fn newest_part(&self, context_tokens: usize) -> Result<Newest, ApiError> {
        let max_tokens = self.request.request.shape.max_tokens;
        self.newest_part_within(context_tokens - room(max_tokens, context_tokens))
    }

    /// [`Self::newest_part`] with a prompt of at most `budget` tokens, if there is one.
    ///
    /// # Errors
    /// When the template refuses the messages.
    pub fn newest_part_within(&self, budget: usize) -> Result<Newest, ApiError> {
        let branch = self.branch;
        let whole = self.render(&branch.window)?;
        let starts = starts(branch);
        if whole.tokens.len() <= budget || starts.is_empty() {
            return Ok(Newest { rendered: whole, window: None });
        }
        // A later start never makes the prompt longer.
        let (mut low, mut high) = (0, starts.len() - 1);
        while low < high {
            let middle = (low + high) / 2;
            if self.render(&window_from(branch, starts[middle]))?.tokens.len() <= budget {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let window = window_from(branch, starts[low]);
        Ok(Newest { rendered: self.render(&window)?, window: Some(window) })
    }
}

/// Where a part may begin: at each message of the user but the first of the prompt, by their places in the branch.
fn starts(branch: &Branch) -> Vec<usize> {
    let entries = branch.entries(&branch.window);
    let users = entries.iter().filter(|entry| entry.message.role == Role::User).skip(1);
    let in_place = users.filter(|entry| entry.place == entry.owner).filter_map(|entry| entry.place);
    in_place.filter(|&place| place > branch.window.start).collect()
}

/// What a prompt has whose part begins at `start`. In front of it stands what is pinned, unless it comes back behind it.
fn window_from(branch: &Branch, start: usize) -> Window {
    let mut brought = branch.window.brought.clone();
    let behind: BTreeSet<usize> =
        brought.range(start + 1..).flat_map(|(_, it)| it).copied().collect();
    let pinned = pinned_before(&branch.messages, start);
    brought.insert(start, pinned.into_iter().filter(|place| !behind.contains(place)).collect());
    Window { start, brought }
}

/// The messages before `start` whose exchange has a pinned one. An exchange is a question with all that follows it.
fn pinned_before(messages: &[Message], start: usize) -> Vec<usize> {
    let is_user = |place: usize| messages[place].role == Role::User;
    let mut exchanges: Vec<Vec<usize>> = Vec::new();
    for place in 0..start {
        let begins = is_user(place) && !place.checked_sub(1).is_some_and(is_user);
        match exchanges.last_mut() {
            Some(exchange) if !begins => exchange.push(place),
            _ => exchanges.push(vec![place]),
        }
    }
    let is_pinned = |place: &usize| messages[*place].label().pin == Some(true);
    exchanges.retain(|exchange| exchange.iter().any(is_pinned));
    exchanges.concat()
}

fn room(max_tokens: Option<usize>, context_tokens: usize) -> usize {
    max_tokens.unwrap_or(0).clamp(context_tokens / 4, context_tokens / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::label::Label;

    #[test]
    fn the_room_is_a_quarter_to_a_half_of_the_context() {
        assert_eq!(room(None, 1000), 250);
        assert_eq!(room(Some(10), 1000), 250);
        assert_eq!(room(Some(400), 1000), 400);
        assert_eq!(room(Some(4000), 1000), 500);
    }

    #[test]
    fn a_part_begins_with_a_later_message_of_the_user() {
        use Role::{Assistant, Tool, User};
        let roles = [User, Assistant, User, Assistant, Tool, Assistant, User];
        assert_eq!(starts(&branch(&roles)), [2, 6]);
        assert_eq!(starts(&branch(&roles[..2])), [0_usize; 0]);
    }

    #[test]
    fn pinned_exchanges_stay_whole_in_front_of_the_part() {
        use Role::{Assistant, User};
        let mut branch = branch(&[User, Assistant, User, User, Assistant, User, Assistant, User]);
        let pin = Label { pin: Some(true), ..Label::default() };
        branch.messages[4].set_label(&pin);
        let window = window_from(&branch, 5);
        assert_eq!(window.in_front(5), [2, 3, 4]);
        assert_eq!((window.start, window.left_out()), (5, 2));
        branch.window = window;
        assert_eq!(starts(&branch), [7]);
        assert_eq!(window_from(&branch, 7).in_front(7), [2, 3, 4]);
    }

    fn branch(roles: &[Role]) -> Branch {
        let messages = roles.iter().map(|role| Message::plain(*role, "x")).collect();
        Branch { messages, ..Branch::default() }
    }
}
