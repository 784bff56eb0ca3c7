//! The messages of a branch, and which of them its prompts have.
//!
//! - Pure: the same branch and the same [`Window`] always give the same messages.
//! - A prompt has the instructions, then the messages from the window's start on. In front of a message may stand
//!   older ones that the window brings back. In front of its start they are in order; in front of a later one,
//!   each that the user wrote says that it is older. One that several would bring back stands in front of the first of
//!   them alone: an import may have it in front of each message, and copies of a large one would have no bound.
//! - The documents of all messages stay: those of messages that are left out stand in front of the start.

use std::collections::{BTreeMap, BTreeSet};

use crate::wire::message::{Message, Role};

/// In front of a message that comes back behind later ones, for the model.
const EARLIER: &str = "Earlier in this conversation:";

/// All messages behind the instructions, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Branch {
    /// The instructions, as its prompts have them.
    pub front: Vec<Message>,
    pub messages: Vec<Message>,
    /// What its prompts have now.
    pub window: Window,
}

/// Which messages of a branch a prompt has, by their places in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    pub start: usize,
    /// Older messages in front of these.
    pub brought: BTreeMap<usize, Vec<usize>>,
}

/// A message of a prompt.
#[derive(Clone, Debug)]
pub struct Entry {
    /// `None`: instructions.
    pub place: Option<usize>,
    /// The message in front of which it stands, or itself.
    pub owner: Option<usize>,
    pub message: Message,
}

impl Window {
    /// Older messages that stand in front of a message.
    pub fn in_front(&self, place: usize) -> &[usize] {
        self.brought.get(&place).map_or(&[], Vec::as_slice)
    }

    /// The older messages that it brings back.
    pub fn all_brought(&self) -> BTreeSet<usize> {
        let in_it = self.brought.range(self.start..);
        in_it.flat_map(|(_, places)| places).copied().filter(|&it| it < self.start).collect()
    }

    /// Messages that its prompts do not have.
    pub fn left_out(&self) -> usize {
        self.start - self.all_brought().len()
    }
}

impl Branch {
    /// The messages of a prompt with this window.
    pub fn entries(&self, window: &Window) -> Vec<Entry> {
        let front = self.front.iter();
        let mut entries: Vec<Entry> = front
            .map(|message| Entry { place: None, owner: None, message: message.clone() })
            .collect();
        let mut brought = BTreeSet::new();
        for (place, message) in self.messages.iter().enumerate().skip(window.start) {
            for &older in window.in_front(place) {
                if older < window.start && brought.insert(older) {
                    let message = self.again(older, place == window.start);
                    entries.push(Entry { place: Some(older), owner: Some(place), message });
                }
            }
            let mut message = message.clone();
            if place == window.start {
                message.take_documents_of(&self.messages[..place]);
            }
            entries.push(Entry { place: Some(place), owner: Some(place), message });
        }
        entries
    }

    pub fn prompt(&self, window: &Window) -> Vec<Message> {
        self.entries(window).into_iter().map(|entry| entry.message).collect()
    }

    /// A message that comes back.
    fn again(&self, place: usize, is_in_order: bool) -> Message {
        let message = &self.messages[place];
        match message.role {
            Role::User if !is_in_order => {
                message.without_documents(&format!("{EARLIER}\n\n{}", message.text()))
            }
            _ => {
                let mut message = message.clone();
                message.set_documents(&[]);
                message
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::document::DocumentId;

    fn branch() -> Branch {
        let message = |n: usize| {
            let role = if n.is_multiple_of(2) { Role::User } else { Role::Assistant };
            Message::plain(role, &n.to_string())
        };
        Branch {
            front: vec![Message::plain(Role::System, "s")],
            messages: (0..8).map(message).collect(),
            window: Window::default(),
        }
    }

    fn texts(window: &Window) -> Vec<String> {
        branch().prompt(window).iter().map(|message| message.text().to_owned()).collect()
    }

    #[test]
    fn a_whole_branch_is_its_instructions_and_its_messages() {
        assert_eq!(texts(&Window::default()), ["s", "0", "1", "2", "3", "4", "5", "6", "7"]);
    }

    #[test]
    fn older_messages_stand_in_front_of_others_and_say_so_where_they_are_out_of_order() {
        let brought = BTreeMap::from([(4, vec![0, 1]), (6, vec![2, 3])]);
        let window = Window { start: 4, brought };
        let earlier = "Earlier in this conversation:\n\n2";
        assert_eq!(texts(&window), ["s", "0", "1", "4", "5", earlier, "3", "6", "7"]);
        assert_eq!((window.left_out(), window.all_brought()), (0, BTreeSet::from([0, 1, 2, 3])));
        let owners = branch().entries(&window).iter().map(|entry| entry.owner).collect::<Vec<_>>();
        let expected = [4, 4, 4, 5, 6, 6, 6, 7].map(Some);
        assert_eq!(owners[1..], expected);
    }

    #[test]
    fn a_document_of_several_messages_stands_in_front_of_the_start_once() {
        let about = |text: &str| {
            let documents = [DocumentId::of_text("a").to_string()];
            let json = json!({"role": "user", "content": text, "hob": {"documents": documents}});
            Message::parse(&json, "messages[0]").unwrap()
        };
        let branch = Branch { messages: ["0", "1", "2"].map(about).to_vec(), ..Branch::default() };
        let prompt = branch.prompt(&Window { start: 2, ..Window::default() });
        assert_eq!(prompt[0].documents().len(), 1);
    }

    #[test]
    fn a_message_comes_back_once() {
        let brought = BTreeMap::from([(4, vec![0]), (5, vec![0, 1]), (7, vec![0, 1])]);
        let window = Window { start: 4, brought };
        assert_eq!(texts(&window), ["s", "0", "4", "1", "5", "6", "7"]);
    }

    #[test]
    fn what_a_later_start_leaves_out_is_not_brought_by_messages_before_it() {
        let brought = BTreeMap::from([(4, vec![0, 1])]);
        let window = Window { start: 6, brought };
        assert_eq!((texts(&window).join(" "), window.left_out()), ("s 6 7".to_owned(), 6));
    }
}
