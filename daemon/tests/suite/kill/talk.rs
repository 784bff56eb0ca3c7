//! A conversation as its client knows it: the messages and KV that must survive a kill.

use hob_slots::ConversationId;
use hob_testkit::client::Event;
use serde_json::{Value, json};

use crate::common::chance::Chance;

/// Longer than any complete answer.
pub const MAX_TOKENS: usize = 48;

const ATTRIBUTES: [&str; 6] =
    ["locker code", "badge number", "favorite number", "door code", "bus number", "lucky number"];
const SMALL_TALK: [&str; 5] = [
    "What is the capital of Peru?",
    "What is 3 plus 4?",
    "What is the opposite of hot?",
    "Tell me a joke.",
    "How are you?",
];

/// Estimated tokens. A longer conversation would not fit the small model's context.
const MAX_HISTORY_TOKENS: usize = 900;

pub struct Talk {
    number: usize,
    renewed: usize,
    /// The messages that client and hobd both know.
    pub history: Vec<Value>,
    /// The last turn, until [`Self::meet`] checks how much of it hobd stored.
    pub pending: Option<Pending>,
    /// The last answer is complete: its timeline is a prefix of the next prompt.
    pub complete: bool,
    /// Tokens after the last complete turn in this process.
    pub timeline: usize,
    /// Tokens that were on disk: a prefix of the next prompt.
    pub saved: usize,
    /// All of the timeline was on disk when the process died.
    pub quiet: bool,
    facts: Vec<&'static str>,
}

/// An unchecked turn.
pub struct Pending {
    pub question: String,
    /// The first event arrived: the question must be stored.
    pub acknowledged: bool,
    /// The received part of the answer.
    pub received: String,
    /// The end of the answer arrived: all of it must be stored.
    pub complete: bool,
}

impl Talk {
    pub fn new(number: usize) -> Self {
        Self {
            number,
            renewed: 0,
            history: Vec::new(),
            pending: None,
            complete: true,
            timeline: 0,
            saved: 0,
            quiet: false,
            facts: Vec::new(),
        }
    }

    pub fn name(&self) -> String {
        format!("talk-{}-{}", self.number, self.renewed)
    }

    pub fn id(&self) -> ConversationId {
        ConversationId::new(&self.name()).unwrap()
    }

    /// Starts a new conversation when this one is long.
    pub fn renew(&mut self) {
        if self.history.len() * 15 > MAX_HISTORY_TOKENS {
            *self = Self { renewed: self.renewed + 1, ..Self::new(self.number) };
        }
    }

    /// The next message: a fact, a question about one, or small talk; never the same twice in a
    /// row.
    pub fn next_words(&mut self, chance: &mut Chance) -> String {
        loop {
            let words = match chance.within(0..5) {
                0 | 1 => {
                    let attribute = chance.one_of(&ATTRIBUTES);
                    self.facts.push(attribute);
                    format!("My {attribute} is {}.", chance.within(10..99_999))
                }
                2 | 3 if !self.facts.is_empty() => {
                    format!("What is my {}?", chance.one_of(&self.facts))
                }
                _ => chance.one_of(&SMALL_TALK).to_owned(),
            };
            let is_question = |message: &&Value| message["role"] == "user";
            if self.history.iter().rfind(is_question).is_none_or(|last| last["content"] != words) {
                return words;
            }
        }
    }

    /// The request for `words`: with the whole history, or with the new message alone.
    pub fn request(&self, words: &str, append: bool) -> Value {
        let new = json!({"role": "user", "content": words});
        let messages = if append { vec![new] } else { [self.history.as_slice(), &[new]].concat() };
        json!({"conversation": self.name(), "messages": messages, "hob": {"append": append},
            "temperature": 0, "max_tokens": MAX_TOKENS, "logprobs": true,
            "stream": true, "stream_options": {"include_usage": true}})
    }

    /// Checks the stored conversation and adopts its messages.
    pub fn meet(&mut self, stored: Option<&Value>) {
        let name = self.name();
        let stored =
            stored.map_or(Vec::new(), |stored| stored["messages"].as_array().unwrap().clone());
        let known = self.history.len();
        assert!(stored.len() >= known, "{name}: hobd stored {} of {known} messages", stored.len());
        for (stored, said) in stored.iter().zip(&self.history) {
            assert_eq!(
                (&stored["role"], &stored["content"]),
                (&said["role"], &said["content"]),
                "{name}"
            );
        }
        let rest = &stored[known..];
        match (self.pending.take(), rest) {
            (None, []) => {}
            (Some(pending), []) => {
                assert!(!pending.acknowledged, "{name}: hobd lost an acknowledged question")
            }
            (Some(pending), [question, answer]) => pending.meet(&name, question, answer),
            (_, rest) => panic!("{name}: {} unknown messages", rest.len()),
        }
        self.complete = stored.last().is_none_or(|last| last["status"] == "complete");
        let plain =
            |message: &Value| json!({"role": message["role"], "content": message["content"]});
        self.history.extend(rest.iter().map(plain));
    }
}

impl Pending {
    /// The turn of a question and its received events.
    pub fn of(question: String, events: &[Event]) -> Self {
        let choices = events.iter().filter_map(|event| match event {
            Event::Data(chunk) => chunk["choices"].get(0),
            Event::Done => None,
        });
        let text = |choice: &Value| choice["delta"]["content"].as_str().map(str::to_owned);
        Self {
            question,
            acknowledged: !events.is_empty(),
            received: choices.clone().filter_map(text).collect(),
            complete: choices.clone().any(|choice| choice["finish_reason"].is_string()),
        }
    }

    fn meet(&self, name: &str, question: &Value, answer: &Value) {
        assert_eq!(
            (&question["role"], &question["content"]),
            (&json!("user"), &json!(self.question))
        );
        assert_eq!(question["status"], "complete", "{name}");
        assert_eq!(answer["role"], "assistant", "{name}");
        let stored = answer["content"].as_str().unwrap();
        if self.complete {
            assert_eq!(
                (stored, &answer["status"]),
                (self.received.as_str(), &json!("complete")),
                "{name}"
            );
        } else {
            let (received, agrees) = (&self.received, stored.starts_with(&self.received));
            assert!(
                agrees || received.starts_with(stored),
                "{name}: stored {stored:?} of received {received:?}"
            );
            assert_ne!(answer["status"], "streaming", "{name}");
        }
    }
}
