//! A conversation as its client knows it: what must have survived, and what only may have.

use hob_slots::ConversationId;
use hob_testkit::client::Event;
use serde_json::{Value, json};

use crate::chance::Chance;

/// More than any whole answer has.
pub const MOST_TOKENS: usize = 48;

const ATTRIBUTES: [&str; 6] =
    ["locker code", "badge number", "favorite number", "door code", "bus number", "lucky number"];
const SMALL_TALK: [&str; 5] = [
    "What is the capital of Peru?",
    "What is 3 plus 4?",
    "What is the opposite of hot?",
    "Tell me a joke.",
    "How are you?",
];

/// Past this, the small model's context is better left alone.
const LONG: usize = 900;

/// One conversation.
pub struct Talk {
    number: usize,
    renewed: usize,
    /// What both sides know to be said, as OpenAI's messages.
    pub history: Vec<Value>,
    /// What was said last, while nobody knows how much of it survived.
    pub pending: Option<Pending>,
    /// The last answer is whole, so that its timeline is the beginning of what follows.
    pub whole: bool,
    /// Tokens after the last whole turn of this process.
    pub timeline: usize,
    /// Tokens that were seen on disk, and that begin whatever follows.
    pub saved: usize,
    /// All of the timeline was on disk when the process died.
    pub quiet: bool,
    told: Vec<&'static str>,
}

/// A turn that was not looked for yet.
pub struct Pending {
    pub asked: String,
    /// The first event was seen: the question must be there.
    pub acknowledged: bool,
    /// What was heard of the answer.
    pub heard: String,
    /// The end of the answer was seen: all of it must be there.
    pub complete: bool,
}

impl Talk {
    pub fn new(number: usize) -> Self {
        Self {
            number,
            renewed: 0,
            history: Vec::new(),
            pending: None,
            whole: true,
            timeline: 0,
            saved: 0,
            quiet: false,
            told: Vec::new(),
        }
    }

    pub fn name(&self) -> String {
        format!("talk-{}-{}", self.number, self.renewed)
    }

    pub fn id(&self) -> ConversationId {
        ConversationId::new(&self.name()).unwrap()
    }

    /// Begins a new one where this one has become long.
    pub fn renew(&mut self) {
        if self.history.len() * 15 > LONG {
            *self = Self { renewed: self.renewed + 1, ..Self::new(self.number) };
        }
    }

    /// What to say next: a fact, a question about one, or small talk. Never twice the same in a row.
    pub fn next_words(&mut self, chance: &mut Chance) -> String {
        loop {
            let words = match chance.within(0..5) {
                0 | 1 => {
                    let attribute = chance.one_of(&ATTRIBUTES);
                    self.told.push(attribute);
                    format!("My {attribute} is {}.", chance.within(10..99_999))
                }
                2 | 3 if !self.told.is_empty() => {
                    format!("What is my {}?", chance.one_of(&self.told))
                }
                _ => chance.one_of(&SMALL_TALK).to_owned(),
            };
            let asked = |message: &&Value| message["role"] == "user";
            if self.history.iter().rfind(asked).is_none_or(|last| last["content"] != words) {
                return words;
            }
        }
    }

    /// The request that says `words`: with the whole history, or with what is new alone.
    pub fn request(&self, words: &str, append: bool) -> Value {
        let new = json!({"role": "user", "content": words});
        let messages = match append {
            true => vec![new],
            false => [self.history.as_slice(), &[new]].concat(),
        };
        json!({"conversation": self.name(), "messages": messages, "hob": {"append": append},
            "temperature": 0, "max_tokens": MOST_TOKENS, "logprobs": true,
            "stream": true, "stream_options": {"include_usage": true}})
    }

    /// Compares what was kept with what must have been, and takes it over.
    pub fn meet(&mut self, kept: Option<&Value>) {
        let name = self.name();
        let kept = kept.map_or(Vec::new(), |kept| kept["messages"].as_array().unwrap().clone());
        let known = self.history.len();
        assert!(kept.len() >= known, "{name}: {} of {known} messages are left", kept.len());
        for (kept, said) in kept.iter().zip(&self.history) {
            assert_eq!(
                (&kept["role"], &kept["content"]),
                (&said["role"], &said["content"]),
                "{name}"
            );
        }
        let rest = &kept[known..];
        match (self.pending.take(), rest) {
            (None, []) => {}
            (Some(pending), []) => assert!(!pending.acknowledged, "{name}: a question is lost"),
            (Some(pending), [question, answer]) => pending.meet(&name, question, answer),
            (_, rest) => panic!("{name}: nobody said {} of these messages", rest.len()),
        }
        self.whole = kept.last().is_none_or(|last| last["status"] == "complete");
        let plain =
            |message: &Value| json!({"role": message["role"], "content": message["content"]});
        self.history.extend(rest.iter().map(plain));
    }
}

impl Pending {
    /// The turn that asked for something and heard these events.
    pub fn of(asked: String, events: &[Event]) -> Self {
        let choices = events.iter().filter_map(|event| match event {
            Event::Data(chunk) => chunk["choices"].get(0),
            Event::Done => None,
        });
        let text = |choice: &Value| choice["delta"]["content"].as_str().map(str::to_owned);
        Self {
            asked,
            acknowledged: !events.is_empty(),
            heard: choices.clone().filter_map(text).collect(),
            complete: choices.clone().any(|choice| choice["finish_reason"].is_string()),
        }
    }

    fn meet(&self, name: &str, question: &Value, answer: &Value) {
        assert_eq!((&question["role"], &question["content"]), (&json!("user"), &json!(self.asked)));
        assert_eq!(question["status"], "complete", "{name}");
        assert_eq!(answer["role"], "assistant", "{name}");
        let kept = answer["content"].as_str().unwrap();
        if self.complete {
            assert_eq!(
                (kept, &answer["status"]),
                (self.heard.as_str(), &json!("complete")),
                "{name}"
            );
        } else {
            let (heard, agrees) = (&self.heard, kept.starts_with(&self.heard));
            assert!(agrees || heard.starts_with(kept), "{name}: {kept:?} kept of {heard:?}");
            assert_ne!(answer["status"], "streaming", "{name}");
        }
    }
}
