//! What a question asks for of the messages that its prompt leaves out. Pure: [`hob_slots::recall`] ranks.
//!
//! - An exchange comes back that has more words of the question than each one that is there: what was said later
//!   holds, and is not contradicted by what was said before.
//! - Whole exchanges come back; of one that is too long, its question, what answers, and its end.

use std::collections::{BTreeMap, BTreeSet};

use hob_slots::reanchor::fit;
use hob_slots::recall::{Index, Passage, Query, Residence, choose, shared_words};

use super::{Kind, Sizes, groups, kind};
use crate::conversations::transcript::{Branch, Window};
use crate::wire::message::{Message, Role};

/// Characters of a passage: about a block's tokens.
const PASSAGE_CHARS: usize = 256;

/// The places of the messages that come back, in order: at most `tokens`.
pub fn recall(
    branch: &Branch,
    window: &Window,
    question: usize,
    sizes: Sizes<'_>,
    tokens: usize,
) -> Vec<usize> {
    let messages = &branch.messages;
    let brought = window.all_brought();
    let is_absent = |place: usize| place < window.start && !brought.contains(&place);
    let exchanges = Exchanges::of(messages);
    let passages = Passages::of(&messages[..question], &exchanges);
    let text: Vec<&str> = messages[question..].iter().map(Message::text).collect();
    let text = text.join("\n");
    let shared = SharedWords::of(&text, messages, &passages, &exchanges, &is_absent);
    let mut seen = BTreeSet::new();
    let candidates = passages.asked_for(&text, &is_absent).into_iter().filter_map(|hit| {
        let exchange = exchanges.of_message(hit);
        let begins = messages[exchange[0]].role == Role::User;
        (begins
            && shared.tells_more(exchanges.number(hit))
            && exchange.iter().all(|&place| is_absent(place))
            && seen.insert(exchange[0]))
        .then(|| exchanges.within(hit, sizes, tokens))
    });
    let sized = candidates.map(|places| {
        let size: usize = places.iter().copied().map(sizes).sum();
        (places, size)
    });
    let mut places: Vec<usize> = fit(sized, tokens).into_iter().flatten().collect();
    places.sort_unstable();
    places
}

/// Whether a message is a question, which tells nothing, whatever its words.
fn asks(message: &Message) -> bool {
    message.role == Role::User && message.text().trim_end().ends_with('?')
}

/// The messages in front of the question, in pieces.
struct Passages {
    index: Index,
    /// The message of each passage.
    place_of: Vec<usize>,
}

impl Passages {
    fn of(messages: &[Message], exchanges: &Exchanges) -> Self {
        let (mut index, mut place_of, mut end) = (Index::default(), Vec::new(), 0);
        for (place, message) in messages.iter().enumerate() {
            let calls =
                message.calls_made().map(|call| format!("{} {}", call.name, call.arguments));
            let text: Vec<String> =
                std::iter::once(message.text().to_owned()).chain(calls).collect();
            let chars: Vec<char> = text.join("\n").trim().chars().collect();
            end += 1; // Messages are no neighbours.
            for piece in chars.chunks(PASSAGE_CHARS) {
                let range = end..end + piece.len();
                end = range.end;
                index.add(Passage {
                    block: place_of.len(),
                    range,
                    text: piece.iter().collect(),
                    key: message.label().key,
                    group: 1 + exchanges.number(place) as u64,
                });
                place_of.push(place);
            }
        }
        Self { index, place_of }
    }

    /// The absent messages that a question asks for, the best hit first.
    fn asked_for(&self, question: &str, is_absent: &dyn Fn(usize) -> bool) -> Vec<usize> {
        let residence = |passage: usize| {
            if is_absent(self.place_of[passage]) { Residence::Absent } else { Residence::MayLeave }
        };
        let chosen = choose(&self.index, &Query::new(question), &residence, 0);
        chosen.back.iter().map(|choice| self.place_of[choice.block]).collect()
    }
}

/// The words of the question that messages have, numbered, by their exchange.
#[derive(Default)]
struct SharedWords {
    absent: BTreeMap<usize, BTreeSet<usize>>,
    present: BTreeMap<usize, BTreeSet<usize>>,
}

impl SharedWords {
    fn of(
        question: &str,
        messages: &[Message],
        passages: &Passages,
        exchanges: &Exchanges,
        is_absent: &dyn Fn(usize) -> bool,
    ) -> Self {
        let mut shared = Self::default();
        for (passage, words) in shared_words(&passages.index, question) {
            let place = passages.place_of[passage];
            let exchange = exchanges.number(place);
            if is_absent(place) {
                shared.absent.entry(exchange).or_default().extend(words);
            } else if !asks(&messages[place]) {
                shared.present.entry(exchange).or_default().extend(words);
            }
        }
        shared
    }

    /// Whether no exchange that is there has all words that the absent one has.
    fn tells_more(&self, exchange: usize) -> bool {
        let none = BTreeSet::new();
        let words = self.absent.get(&exchange).unwrap_or(&none);
        !self.present.values().any(|known| words.is_subset(known))
    }
}

/// The messages by their exchanges.
struct Exchanges {
    groups: Vec<Vec<usize>>,
    /// The messages of each, in order.
    members: Vec<Vec<usize>>,
    number: Vec<usize>,
}

impl Exchanges {
    fn of(messages: &[Message]) -> Self {
        let groups = groups(messages);
        let (mut members, mut number): (Vec<Vec<usize>>, _) = (Vec::new(), Vec::new());
        for group in &groups {
            if members.is_empty() || kind(messages, group[0]) == Kind::Question {
                members.push(Vec::new());
            }
            let at = members.len() - 1;
            members[at].extend(group);
            number.extend(group.iter().map(|_| at));
        }
        Self { groups, members, number }
    }

    fn number(&self, place: usize) -> usize {
        self.number[place]
    }

    fn of_message(&self, place: usize) -> &[usize] {
        &self.members[self.number[place]]
    }

    /// The exchange of a message; if it has more tokens, its question, the message with what belongs to that,
    /// and its last answer.
    fn within(&self, hit: usize, sizes: Sizes<'_>, tokens: usize) -> Vec<usize> {
        let whole = self.of_message(hit);
        if whole.iter().copied().map(sizes).sum::<usize>() <= tokens {
            return whole.to_vec();
        }
        let group_of = |place: usize| self.groups.iter().find(|group| group.contains(&place));
        let ends = [whole[0], hit, whole[whole.len() - 1]];
        let places: BTreeSet<usize> =
            ends.into_iter().filter_map(group_of).flatten().copied().collect();
        places.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fact, and talk about other things; the last message is the question.
    fn branch(question: &str) -> Branch {
        let mut messages = vec![
            Message::plain(Role::User, "My locker code is 48213."),
            Message::plain(Role::Assistant, "I will remember that your locker code is 48213."),
        ];
        for n in 0..6 {
            messages.push(Message::plain(Role::User, &format!("Tell me of river number {n}.")));
            messages.push(Message::plain(Role::Assistant, "It flows to the sea."));
        }
        messages.push(Message::plain(Role::User, question));
        Branch { messages, ..Branch::default() }
    }

    fn recalled_for(question: &str, start: usize, tokens: usize) -> Vec<usize> {
        let branch = branch(question);
        let window = Window { start, ..Window::default() };
        recall(&branch, &window, branch.messages.len() - 1, &|_| 10, tokens)
    }

    #[test]
    fn the_exchange_that_a_question_asks_for_comes_back_whole() {
        assert_eq!(recalled_for("What is my locker code?", 8, 100), [0, 1]);
    }

    #[test]
    fn nothing_comes_back_of_what_is_there_or_is_not_asked_for() {
        assert_eq!(recalled_for("What is my locker code?", 0, 100), [0; 0]);
        assert_eq!(recalled_for("Thank you so much!", 8, 100), [0; 0]);
    }

    #[test]
    fn what_was_said_again_is_not_contradicted_by_what_was_said_before() {
        let mut branch = branch("What is my locker code?");
        branch.messages[10] = Message::plain(Role::User, "My locker code is 777 now.");
        let window = Window { start: 8, ..Window::default() };
        assert_eq!(recall(&branch, &window, 14, &|_| 10, 100), [0; 0]);
        // A question tells nothing.
        branch.messages[10] = Message::plain(Role::User, "Did I tell you my locker code?");
        assert_eq!(recall(&branch, &window, 14, &|_| 10, 100), [0, 1]);
    }

    #[test]
    fn no_more_comes_back_than_there_is_room_for() {
        assert_eq!(recalled_for("What is my locker code?", 8, 19), [0; 0]);
    }
}
