//! The haystacks: conversations in which the user or a tool tells something early, and the user asks for it late.
//!
//! - No keys, weights or pins: nothing tells the engine what will be asked for.
//! - Whatever is asked for was told early, in the first three fifths with the bundled model: a cache of half a session
//!   that drops the oldest text has lost most of it, so that recovery is what is measured.
//! - The assistant's part is scripted, so that all engines compute the same text.

use hob_slots::Layer;

use super::language::{ATTRIBUTES, CITIES, Draw, FILES, KEYS, PARAPHRASES};

pub struct Message {
    pub layer: Layer,
    pub text: String,
}

/// A question about something that was told.
pub struct Probe {
    pub question: String,
    /// How the answer begins. It says no more than the question.
    pub begins: String,
    pub value: String,
    /// The message that told it. The value occurs once in it.
    pub told_in: usize,
}

pub struct Session {
    pub messages: Vec<Message>,
    pub probes: Vec<Probe>,
}

/// How a session tells facts, and how its probes begin the answers: in the way in which the model answers most.
#[derive(Clone, Copy)]
pub enum Form {
    /// Answers begin as the bundled model was trained.
    Answer,
    /// Answers begin in the words of the user, which a model without that training continues.
    Quote,
}

impl Form {
    fn fact(self, attribute: &str) -> String {
        match self {
            Self::Answer => format!("Your {attribute} is"),
            Self::Quote => format!("You said: \"Remember that my {attribute} is"),
        }
    }

    /// Texts of a session, of which each of the first ones follows a fact. SmolLM2 answers 0.83 of five facts among
    /// six texts of 1,500 tokens, a seventh of which has room for what comes back, and 0.79 among eight.
    fn texts(self) -> usize {
        match self {
            Self::Answer => 8,
            Self::Quote => 6,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Kind {
    /// One secret at one depth of a text that is read in parts, in front of other texts.
    Needle,
    /// Five facts about the user, told between the first ones of the texts.
    Facts,
    /// A fact told at turn 1, asked for at turn 14.
    Turn14,
    /// A value of one of ten files.
    Files,
    /// A value that a tool returned.
    Tools,
    /// A fact that is asked for in other words.
    Paraphrase,
}

impl Kind {
    /// The kinds whose answer shares words with the question.
    pub const ALL: [Self; 5] = [Self::Needle, Self::Facts, Self::Turn14, Self::Files, Self::Tools];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Needle => "needle",
            Self::Facts => "five facts",
            Self::Turn14 => "turn 1 at turn 14",
            Self::Files => "ten files",
            Self::Tools => "tool results",
            Self::Paraphrase => "other words",
        }
    }

    /// How many sessions it has, by how much is measured.
    pub fn sessions(self, is_quick: bool) -> usize {
        match (self, is_quick) {
            (Self::Needle, false) => 25, // Five needles at five depths.
            (Self::Needle, true) => 5,
            (Self::Facts, false) => 15,
            (Self::Facts, true) => 1,
            (_, false) => 10,
            (_, true) => 2,
        }
    }

    /// A session of about `tokens` tokens.
    pub fn session(self, seed: usize, tokens: usize, form: Form) -> Session {
        let mut draw = Draw::new(seed as u64 + 100 * self as u64);
        let mut session = Session { messages: Vec::new(), probes: Vec::new() };
        let city = draw.of(&CITIES);
        let persona = format!("You are a careful home assistant. The user is in {city}.");
        session.say(Layer::Identity, persona);
        let sentences = tokens / SENTENCE_TOKENS;
        match self {
            Self::Needle => session.needle(&mut draw, seed, sentences),
            Self::Facts => session.facts(&mut draw, form, [5, form.texts()], sentences),
            Self::Turn14 => session.facts(&mut draw, form, [1, 12], sentences),
            Self::Files => session.files(&mut draw, sentences),
            Self::Tools => session.tools(&mut draw, sentences),
            Self::Paraphrase => session.paraphrase(&mut draw, seed, sentences),
        }
        session
    }
}

/// A sentence of prose has about this many tokens, with its part of a message's frame.
const SENTENCE_TOKENS: usize = 12;

/// Sentences of one message of a text.
const PART: usize = 12;

/// Sentences in front of a fact.
const BEFORE: usize = 8;

/// Files, and results of a tool, in a session. What is asked for is one of the first ones.
const MANY: usize = 10;
const EARLY: usize = 5;

impl Session {
    fn say(&mut self, layer: Layer, text: String) {
        self.messages.push(Message { layer, text });
    }

    fn read(&mut self, sentences: &[String]) {
        self.say(Layer::User, format!("Read this. {}", sentences.join(" ")));
        self.say(Layer::Assistant, "I read it.".to_owned());
    }

    fn needle(&mut self, draw: &mut Draw, seed: usize, sentences: usize) {
        let city = CITIES[seed / 5 * 3 % CITIES.len()];
        let value = draw.digits(5);
        let mut text = draw.prose(sentences);
        let told = sentences * 3 / 5;
        let at = told * (1 + 2 * (seed % 5)) / 10; // Depths 0.1, 0.3, 0.5, 0.7 and 0.9 of what is in front.
        text.insert(at, format!("The secret code of {city} is {value}."));
        self.probes.push(Probe {
            question: format!("What is the secret code of {city}?"),
            begins: format!("The secret code of {city} is"),
            value,
            told_in: self.messages.len() + 2 * (at / PART),
        });
        for part in text.chunks(PART) {
            self.read(part);
        }
    }

    /// `count` facts, one in front of each of the first ones of `texts` texts.
    fn facts(&mut self, draw: &mut Draw, form: Form, [count, texts]: [usize; 2], sentences: usize) {
        let attributes = draw.sample(&ATTRIBUTES, count);
        let prose = sentences.saturating_sub(count * BEFORE) / texts;
        for text in 0..texts {
            if let Some(attribute) = attributes.get(text) {
                let value = draw.digits(5);
                self.probes.push(Probe {
                    question: format!("What is my {attribute}?"),
                    begins: form.fact(attribute),
                    value: value.clone(),
                    told_in: self.messages.len(),
                });
                // Behind other text: the first block of a conversation always stays.
                let before = draw.prose(BEFORE).join(" ");
                let fact = format!("{before} Remember that my {attribute} is {value}.");
                self.say(Layer::User, fact);
                self.say(Layer::Assistant, "I will remember it.".to_owned());
            }
            let prose = draw.prose(prose.max(1));
            self.read(&prose);
        }
    }

    fn paraphrase(&mut self, draw: &mut Draw, seed: usize, sentences: usize) {
        let [told, question] = PARAPHRASES[seed % PARAPHRASES.len()];
        let value = draw.digits(5);
        self.probes.push(Probe {
            question: question.to_owned(),
            begins: "It is".to_owned(),
            value: value.clone(),
            told_in: self.messages.len(),
        });
        let before = draw.prose(BEFORE).join(" ");
        self.say(Layer::User, format!("{before} {told} {value}."));
        self.say(Layer::Assistant, "I see.".to_owned());
        for text in draw.prose(sentences.saturating_sub(BEFORE)).chunks(PART) {
            self.read(text);
        }
    }

    fn files(&mut self, draw: &mut Draw, sentences: usize) {
        let asked = draw.below(EARLY);
        for (number, file) in draw.sample(&FILES, MANY).into_iter().enumerate() {
            let keys = draw.sample(&KEYS, 5);
            let lines: Vec<String> =
                keys.iter().map(|key| format!("{key} = {}", draw.digits(5))).collect();
            if number == asked {
                let at = draw.below(lines.len());
                let value = lines[at].rsplit(' ').next().expect("a line ends with its value");
                self.probes.push(Probe {
                    question: format!("What is {} in {file}?", keys[at]),
                    begins: format!("In {file}, {} is", keys[at]),
                    value: value.to_owned(),
                    told_in: self.messages.len(),
                });
            }
            self.say(Layer::User, format!("[file:{file}]\n{}\n[end]", lines.join("\n")));
            self.say(Layer::Assistant, format!("I read {file}."));
            let prose = draw.prose((sentences / MANY).saturating_sub(7).max(1));
            self.read(&prose);
        }
    }

    fn tools(&mut self, draw: &mut Draw, sentences: usize) {
        let asked = draw.below(EARLY);
        for (number, city) in draw.sample(&CITIES, MANY).into_iter().enumerate() {
            let value = draw.digits(5);
            let call = serde_json::json!({"name": "find_ticket", "arguments": {"city": city}});
            self.say(Layer::User, format!("Find the ticket number for {city}."));
            self.say(Layer::Assistant, format!("<tool_call>\n{call}\n</tool_call>"));
            if number == asked {
                self.probes.push(Probe {
                    question: format!("What is the ticket number for {city}?"),
                    begins: format!("The ticket number for {city} is"),
                    value: value.clone(),
                    told_in: self.messages.len(),
                });
            }
            let notes = draw.prose((sentences / MANY).saturating_sub(6).max(1)).join(" ");
            let result = serde_json::json!({"city": city, "notes": notes, "ticket number": value});
            self.say(Layer::Tool, format!("<tool_response>\n{result}\n</tool_response>"));
            self.say(Layer::Assistant, "I found it.".to_owned());
        }
    }
}
