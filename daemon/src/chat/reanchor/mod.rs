//! Goes on past the context that the model was trained with: as a new timeline of the conversation's newest part.
//!
//! - Pure but for rendering. What is left out stays in the transcript; the append saves the choice, so that later
//!   prompts begin with the same tokens.
//! - Before a prompt leaves no room for its answer, [`hob_slots::reanchor`] chooses which messages stay, so that half
//!   of the context is free at first. The room is what the request's `max_tokens` asks for, up to a half; without, a
//!   quarter.
//! - What the question asks for of what is left out comes back in front of it, whole exchanges: a quarter of the
//!   context at most. Everything before the question stays as it is, with its KV.

mod recall;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use hob_runtime::backend::Model;
use hob_slots::reanchor::{Kind, Part, choose};

use super::branch_prompt::BranchPrompt;
use crate::conversations::transcript::{Branch, Window};
use crate::error::ApiError;
use crate::prompt::Rendered;
use crate::wire::message::{Message, Role};

/// Tokens of a message beside its text: the template's marks and its role.
const MARKS: usize = 8;

/// Renderings of a new timeline until it fits, about.
const MAX_ROUNDS: usize = 16;

/// About how many tokens the message at a place has. Each that is asked for is tokenized, once.
type Sizes<'a> = &'a dyn Fn(usize) -> usize;

/// A prompt whose window may be new.
pub struct Anchored {
    pub rendered: Rendered,
    /// What the prompt has of its branch, if that is to be saved.
    pub changed: Option<Window>,
    /// The prompt has not all of its branch.
    pub is_part: bool,
    pub began: Option<Began>,
    /// Older messages in front of its question.
    pub recalled: usize,
}

/// A new timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Began {
    /// Messages of the conversation that it has, without instructions and recalled ones.
    pub kept: usize,
    /// Messages of the conversation that it leaves out.
    pub left: usize,
}

/// Tokens of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    most: usize,
    /// When a timeline begins, without what its question asks for.
    newest: usize,
    recalled: usize,
}

impl Limits {
    /// `continued`: tokens of an answer that goes on behind the prompt.
    pub fn of(context: usize, max_tokens: Option<usize>, continued: usize) -> Self {
        let room = max_tokens.map_or(context / 4, |max| max.clamp(1, context / 2));
        let most = context.saturating_sub(room + continued);
        let recalled = (context / 4).min(most / 2);
        Self { most, newest: (context / 2).min(most - recalled), recalled }
    }
}

impl BranchPrompt<'_> {
    /// The prompt: as it goes on, or as a new timeline.
    ///
    /// # Errors
    /// When the template refuses the messages.
    pub fn anchor(&self, limits: Limits) -> Result<Anchored, ApiError> {
        let now = &self.branch.window;
        let rendered = self.render(now)?;
        let fits = rendered.tokens.len() <= limits.most;
        if fits && now.left_out() == 0 {
            return Ok(self.going_on(rendered, now.clone(), None));
        }
        let known = RefCell::new(HashMap::new());
        let sizes = |place: usize| {
            let size = || size(self.renderer.model().as_ref(), &self.branch.messages[place]);
            *known.borrow_mut().entry(place).or_insert_with(size)
        };
        if fits {
            let window = self.with_recalled(now, &sizes, limits.recalled);
            if window == *now {
                return Ok(self.going_on(rendered, window, None));
            }
            let with_recalled = self.render(&window)?;
            if with_recalled.tokens.len() <= limits.most {
                return Ok(self.going_on(with_recalled, window, None));
            }
        }
        self.begin(rendered.tokens.len(), &sizes, limits)
    }

    /// A new timeline. `whole_tokens`: of the prompt as it is.
    fn begin(
        &self,
        whole_tokens: usize,
        sizes: Sizes<'_>,
        limits: Limits,
    ) -> Result<Anchored, ApiError> {
        let entries = self.branch.entries(&self.branch.window);
        let counted: usize = entries.iter().filter_map(|it| it.place).map(sizes).sum();
        // Of instructions, tools and documents.
        let fixed = whole_tokens.saturating_sub(counted);
        let least = limits.most.div_ceil(MAX_ROUNDS);
        let mut newest = limits.newest.saturating_sub(fixed);
        let mut recalled = limits.recalled;
        loop {
            let plain = self.newest(sizes, newest);
            let window = self.with_recalled(&plain, sizes, recalled);
            let rendered = self.render(&window)?;
            // Sizes are estimates: the template has the last word.
            let surplus = rendered.tokens.len().saturating_sub(limits.most);
            if surplus == 0 || (newest == 0 && recalled == 0) {
                let began = self.began(&window);
                return Ok(self.going_on(rendered, window, began));
            }
            let less = surplus.max(least);
            let of_newest = less.min(newest);
            newest -= of_newest;
            recalled = recalled.saturating_sub(less - of_newest);
        }
    }

    /// `None`: nothing more can be left out.
    fn began(&self, window: &Window) -> Option<Began> {
        let left = window.left_out();
        let recalled = recalled(self.branch, window).len();
        let kept = self.branch.messages.len() - left - recalled;
        (window.start != self.branch.window.start).then_some(Began { kept, left })
    }

    fn going_on(&self, rendered: Rendered, window: Window, began: Option<Began>) -> Anchored {
        Anchored {
            rendered,
            is_part: window.start > 0,
            recalled: recalled(self.branch, &window).len(),
            changed: (window != self.branch.window).then_some(window),
            began,
        }
    }

    /// The newest messages that have this many tokens together, and those that always stay.
    fn newest(&self, sizes: Sizes<'_>, tokens: usize) -> Window {
        let (branch, now) = (self.branch, &self.branch.window);
        let groups = groups(&branch.messages);
        let with_brought = |place: usize| {
            let brought: usize = now.in_front(place).iter().copied().map(sizes).sum();
            sizes(place) + brought
        };
        let part = |group: &Vec<usize>| Part {
            tokens: group.iter().map(|&place| with_brought(place)).sum(),
            kind: kind(&branch.messages, group[0]),
            pinned: group.iter().any(|&place| branch.messages[place].label().pin == Some(true)),
        };
        let parts: Vec<Part> = groups.iter().map(part).collect();
        let chosen = choose(&parts, tokens);
        // The last ones without a gap, and those before it.
        let is_beside = |pair: &[usize]| pair[0] + 1 == pair[1];
        let gap = chosen.windows(2).rposition(|pair| !is_beside(pair)).map_or(0, |at| at + 1);
        let is_behind = |&group: &usize| groups[group][0] >= now.start;
        let gap = gap.max(chosen.iter().position(is_behind).unwrap_or(0));
        let start = chosen.get(gap).map_or(0, |&group| groups[group][0]);
        let mut window = Window { start, brought: now.brought.clone() };
        let before = chosen[..gap].iter().flat_map(|&group| groups[group].iter().copied());
        let in_front: BTreeSet<usize> = now.in_front(start).iter().copied().chain(before).collect();
        if !in_front.is_empty() {
            window.brought.insert(start, in_front.into_iter().collect());
        }
        window
    }

    /// The window with the left-out messages that the question asks for.
    fn with_recalled(&self, window: &Window, sizes: Sizes<'_>, tokens: usize) -> Window {
        let mut window = window.clone();
        let Some(question) = question(&self.branch.messages) else { return window };
        let goes_on = self.request.request.continues;
        // In front of a question that is all there is stands what is pinned.
        let is_all = question <= window.start;
        let has_its_own = !window.in_front(question).is_empty();
        if goes_on || is_all || has_its_own || window.left_out() == 0 {
            return window;
        }
        let recalled = recall::recall(self.branch, &window, question, sizes, tokens);
        if !recalled.is_empty() {
            window.brought.insert(question, recalled);
        }
        window
    }
}

/// Older messages in front of the question.
fn recalled<'w>(branch: &Branch, window: &'w Window) -> &'w [usize] {
    let question = question(&branch.messages).filter(|question| *question > window.start);
    question.map_or(&[], |question| window.in_front(question))
}

/// The first of the user's messages behind the last answer; `None` where tools have answered last.
fn question(messages: &[Message]) -> Option<usize> {
    let run = messages.iter().rev().take_while(|message| message.role == Role::User).count();
    (run > 0).then(|| messages.len() - run)
}

/// The messages that stay or leave together: each alone, a call with its results.
fn groups(messages: &[Message]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (place, message) in messages.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if message.role == Role::Tool => group.push(place),
            _ => groups.push(vec![place]),
        }
    }
    groups
}

/// Messages of the user in a row are one question.
fn kind(messages: &[Message], place: usize) -> Kind {
    let is_user = |place: usize| messages[place].role == Role::User;
    let begins = is_user(place) && !place.checked_sub(1).is_some_and(is_user);
    if begins { Kind::Question } else { Kind::Step }
}

/// About how many tokens a message has.
pub fn size(model: &dyn Model, message: &Message) -> usize {
    let of = |text: &str| model.tokenize(text, false, false).len();
    let calls: usize =
        message.calls_made().map(|call| of(call.name) + of(call.arguments) + MARKS).sum();
    of(message.text()) + of(message.reasoning()) + calls + MARKS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_is_what_the_request_asks_for_up_to_a_half_and_without_a_quarter() {
        let limits = |most, newest, recalled| Limits { most, newest, recalled };
        assert_eq!(Limits::of(1000, None, 0), limits(750, 500, 250));
        assert_eq!(Limits::of(1000, Some(10), 0), limits(990, 500, 250));
        assert_eq!(Limits::of(1000, Some(5000), 0), limits(500, 250, 250));
        assert_eq!(Limits::of(1000, None, 500), limits(250, 125, 125));
        assert_eq!(Limits::of(1000, None, 5000), limits(0, 0, 0));
    }

    #[test]
    fn a_call_stays_with_its_results_and_messages_in_a_row_are_one_question() {
        use Role::{Assistant, Tool, User};
        let roles = [User, Assistant, Tool, Tool, Assistant, User, User];
        let messages = roles.map(|role| Message::plain(role, "x"));
        let groups = groups(&messages);
        assert_eq!(groups, [vec![0], vec![1, 2, 3], vec![4], vec![5], vec![6]]);
        let kinds: Vec<Kind> = groups.iter().map(|group| kind(&messages, group[0])).collect();
        use Kind::{Question, Step};
        assert_eq!(kinds, [Question, Step, Step, Question, Step]);
        assert_eq!(question(&messages), Some(5));
        assert_eq!(question(&messages[..4]), None);
    }
}
