//! Ids of responses and of their items.
//!
//! - The id of what is stored names a conversation and a row in it: `resp_42_locker`. Of a call also its
//!   number in the answer: `fc_42.1_locker`, and of a further text behind other items: `msg_42.1_locker`.
//! - Ids of what is not stored are random.

use hob_slots::ConversationId;

use crate::chat::answer::Answer;
use crate::chat::identity::conversation_id;
use crate::chat::names;

/// A message of a stored conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub conversation: ConversationId,
    pub row: i64,
}

/// Names a response and its items.
#[derive(Clone, Debug)]
pub enum Ids {
    Stored(Place),
    /// A random text.
    Passing(String),
}

impl Ids {
    /// The ids of an answer whose question is on disk.
    pub fn of(answer: &Answer) -> Self {
        Place::of(answer).map_or_else(Self::passing, Self::Stored)
    }

    fn passing() -> Self {
        Self::Passing(names::unique())
    }

    pub fn response(&self) -> String {
        self.named("resp")
    }

    pub fn message(&self) -> String {
        self.named("msg")
    }

    pub fn reasoning(&self) -> String {
        self.named("rs")
    }

    /// A message of an answer that has several; the first one has the number 0.
    pub fn message_at(&self, number: usize) -> String {
        if number == 0 { self.message() } else { self.numbered("msg", number) }
    }

    /// The id of a reasoning item.
    pub fn reasoning_at(&self, number: usize) -> String {
        if number == 0 { self.reasoning() } else { self.numbered("rs", number) }
    }

    /// The result of a tool.
    pub fn result(&self) -> String {
        self.named("fco")
    }

    pub fn call(&self, number: usize) -> String {
        self.numbered("fc", number)
    }

    fn numbered(&self, kind: &str, number: usize) -> String {
        match self {
            Self::Stored(Place { conversation, row }) => {
                format!("{kind}_{row}.{number}_{}", escaped(conversation.as_str()))
            }
            Self::Passing(text) => format!("{kind}_{text}{number}"),
        }
    }

    fn named(&self, kind: &str) -> String {
        match self {
            Self::Stored(Place { conversation, row }) => {
                format!("{kind}_{row}_{}", escaped(conversation.as_str()))
            }
            Self::Passing(text) => format!("{kind}_{text}"),
        }
    }
}

impl Place {
    fn of(answer: &Answer) -> Option<Self> {
        let address = answer.address()?;
        let name = address["conversation"].as_str()?;
        let conversation = conversation_id(name, "conversation").ok()?;
        Some(Self { conversation, row: address["message"].as_i64()? })
    }

    /// Reads the id of a stored response or item.
    pub fn parse(id: &str) -> Option<Self> {
        let mut parts = id.splitn(3, '_');
        let (_kind, row, name) = (parts.next()?, parts.next()?, parts.next()?);
        let row = row.split('.').next()?.parse().ok().filter(|&row| row > 0)?;
        let conversation = conversation_id(&unescaped(name)?, "id").ok()?;
        Some(Self { conversation, row })
    }

    /// Whether the id is that of a further text of an answer, whose stored item has all of it.
    pub fn is_further_text(id: &str) -> bool {
        let mut parts = id.splitn(3, '_');
        matches!(parts.next(), Some("msg" | "rs"))
            && parts.next().is_some_and(|row| row.contains('.'))
    }
}

/// A name as it may stand in the path of an address.
fn escaped(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                escaped.push(char::from(byte));
            }
            other => escaped.push_str(&format!("~{other:02x}")),
        }
    }
    escaped
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'~' {
            bytes.push(byte);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_its_conversation_and_row_whatever_the_conversation_is_called() {
        for name in ["locker", "conv_0a1b", "a/b c~d", "grüße", "x.y-z"] {
            let place = Place { conversation: ConversationId::new(name).unwrap(), row: 42 };
            let ids = Ids::Stored(place.clone());
            for id in
                [ids.response(), ids.message(), ids.reasoning(), ids.call(3), ids.message_at(1)]
            {
                assert_eq!(Place::parse(&id), Some(place.clone()), "{id}");
                let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
                assert!(id.chars().all(is_plain), "{id}");
            }
        }
        assert_eq!(
            Ids::Stored(Place { conversation: ConversationId::new("locker").unwrap(), row: 7 })
                .response(),
            "resp_7_locker"
        );
    }

    #[test]
    fn other_ids_name_nothing() {
        let passing = Ids::passing();
        for id in [passing.response(), passing.call(0), "resp_x_a".into(), "resp_0_a".into()] {
            assert_eq!(Place::parse(&id), None, "{id}");
        }
        for id in ["", "resp", "resp_1", "resp_1_", "resp_1_a~f", "resp_1_~ff", "resp_-1_a"] {
            assert_eq!(Place::parse(id), None, "{id}");
        }
    }
}
