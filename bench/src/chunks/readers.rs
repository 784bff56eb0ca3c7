//! What readers have read, and what they ask.
//!
//! - Texts and files in the language of the bundled model, each with a value that only it tells.
//! - The last document is one that the conversation has not read.

use std::sync::Arc;

use hob_runtime::Model;
use hob_slots::Token;

use super::{Options, Part};
use crate::recall::language::{ATTRIBUTES, CITIES, Draw, FILES, KEYS, PEOPLE};

/// What is read in one prompt.
#[derive(Clone, Copy)]
pub(super) struct Texts {
    pub documents: usize,
    /// Length of the shortest document.
    sentences: usize,
    /// Length of the longest document.
    longest: usize,
    pub tells: Tells,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tells {
    /// Each document a value of its own.
    Each,
    /// Each second document another value of what the one before told: the answer takes both.
    Corrections,
    /// Each second document a value of what the one before told only the place of: the answer takes both.
    Hops,
}

pub(super) const TEXTS: [Texts; 6] = [
    Texts::equal(4, 7, Tells::Each),
    Texts::equal(8, 12, Tells::Each),
    Texts::equal(4, 7, Tells::Corrections),
    // Longer than what the default repair takes for short.
    Texts::equal(4, 45, Tells::Each),
    Texts::equal(4, 7, Tells::Hops),
    // Of 256 to 1,024 tokens.
    Texts { documents: 8, sentences: 44, longest: 100, tells: Tells::Each },
];

/// How many of these are measured unless others are asked for. The bundled model was trained on prompts of 2,000
/// tokens, and the last texts are prompts of some 5,000.
pub(super) const USUAL: usize = 5;

/// What the assistant says to each document.
const READ: &str = "<|im_start|>assistant\nI read it.<|im_end|>\n";

/// What is said before a text that an agent reads.
const CALL: &str = "<|im_start|>user\nHello.<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n";

impl Texts {
    const fn equal(documents: usize, sentences: usize, tells: Tells) -> Self {
        Self { documents, sentences, longest: sentences, tells }
    }

    /// Length of the document with this number.
    fn sentences_of(self, number: usize) -> usize {
        self.sentences + (self.longest - self.sentences) * number / self.documents
    }
}

impl Tells {
    pub fn title(self) -> &'static str {
        match self {
            Self::Each => "",
            Self::Corrections => " that correct each other",
            Self::Hops => " of which a question takes two",
        }
    }
}

/// A conversation that reads documents and asks about them.
pub(super) struct Reader {
    model: Arc<dyn Model>,
    /// In front of the documents.
    instructions: Vec<Token>,
    /// The documents of the conversation, and one that it does not have.
    pub documents: Vec<Document>,
}

/// A text that is asked about.
pub(super) struct Document {
    tokens: Vec<Token>,
    pub question: Question,
    /// Values of what is asked for, told by this document or another one.
    pub values: Vec<String>,
}

pub(super) struct Question {
    text: String,
    /// How the answer begins: in the words of the text, which a model without the bundled one's training
    /// continues. It says no more than the question.
    begins: String,
}

impl Question {
    /// One that no text answers.
    pub fn hello() -> Self {
        Self { text: "Hello.".to_owned(), begins: String::new() }
    }
}

impl Reader {
    pub fn new(model: &Arc<dyn Model>, draw: &mut Draw, texts: Texts, options: &Options) -> Self {
        let mut documents = match texts.tells {
            Tells::Each => telling_each(model, draw, texts),
            Tells::Corrections => corrections(model, draw, texts.documents + 1, texts.sentences),
            Tells::Hops => hops(model, draw, texts.documents + 1, texts.sentences),
        };
        if !options.begun {
            documents.iter_mut().for_each(|document| document.question.begins.clear());
        }
        let instructions = match options.instructions {
            0 => Vec::new(),
            sentences => {
                let text = draw.prose(sentences).join(" ");
                let text = format!("<|im_start|>system\nYou are careful. {text}<|im_end|>\n");
                model.tokenize(&text, false, true)
            }
        };
        Self { model: model.clone(), instructions, documents }
    }

    pub fn prompt(&self, order: &[Part], Question { text, begins }: &Question) -> Vec<Token> {
        let (new, known) = self.documents.split_last().expect("one is new");
        let call = self.model.tokenize(CALL, false, true);
        let part = |part: &Part| match part {
            Part::Known(number) => known[*number].tokens.clone(),
            Part::New(_) => new.tokens.clone(),
            Part::Call => call.clone(),
        };
        let question =
            format!("<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n{begins}");
        let mut tokens = self.instructions.clone();
        tokens.extend(order.iter().flat_map(part));
        tokens.extend(self.model.tokenize(&question, false, true));
        tokens
    }
}

/// Texts and files with a value each, in the language of the bundled model.
fn telling_each(model: &Arc<dyn Model>, draw: &mut Draw, texts: Texts) -> Vec<Document> {
    let count = texts.documents + 1;
    let cities = draw.sample(&CITIES, count);
    let files = draw.sample(&FILES, count);
    let names = cities.into_iter().zip(files);
    let document = |(number, (city, file)): (usize, (&str, &str))| {
        let sentences = texts.sentences_of(number);
        let value = draw.digits(5);
        let mut text = draw.prose(sentences);
        let (text, question) = if number % 2 == 0 {
            text.insert(draw.below(sentences), format!("The secret code of {city} is {value}."));
            let question = Question {
                text: format!("What is the secret code of {city}?"),
                begins: format!("The secret code of {city} is"),
            };
            (text.join(" "), question)
        } else {
            let keys = draw.sample(&KEYS, 5);
            let asked = draw.below(keys.len());
            let lines: Vec<String> = keys
                .iter()
                .enumerate()
                .map(|(at, key)| {
                    if at == asked {
                        format!("{key} = {value}")
                    } else {
                        format!("{key} = {}", draw.digits(5))
                    }
                })
                .collect();
            let rest = text[..sentences / 2].join(" ");
            let text = format!("[file:{file}]\n{}\n[end] {rest}", lines.join("\n"));
            let question = Question {
                text: format!("What is {} in {file}?", keys[asked]),
                begins: format!("[file:{file}]\n{} =", keys[asked]),
            };
            (text, question)
        };
        let text = format!("<|im_start|>user\nRead this. {text}<|im_end|>\n{READ}");
        let tokens = model.tokenize(&text, false, true);
        Document { tokens, question, values: vec![value] }
    };
    names.enumerate().map(document).collect()
}

/// What the user says of something, and corrects, each before a text.
fn corrections(
    model: &Arc<dyn Model>,
    draw: &mut Draw,
    count: usize,
    sentences: usize,
) -> Vec<Document> {
    let attributes = draw.sample(&ATTRIBUTES, count.div_ceil(2));
    let values: Vec<String> = (0..2 * attributes.len()).map(|_| draw.digits(5)).collect();
    let document = |number: usize| {
        let (attribute, value) = (attributes[number / 2], &values[number]);
        let said = match number % 2 {
            0 => format!("My {attribute} is {value}."),
            _ => format!("Correction: my {attribute} is {value}."),
        };
        let said = format!(
            "<|im_start|>user\n{said}<|im_end|>\n<|im_start|>assistant\nOkay, your {attribute} is {value}.<|im_end|>\n"
        );
        let text = draw.prose(sentences).join(" ");
        let text = format!("{said}<|im_start|>user\nRead this. {text}<|im_end|>\n{READ}");
        Document {
            tokens: model.tokenize(&text, false, true),
            question: Question {
                text: format!("What is my {attribute}?"),
                begins: format!("Okay, your {attribute} is"),
            },
            values: values[number / 2 * 2..][..2].to_vec(),
        }
    };
    (0..count).map(document).collect()
}

/// Where a person lives, and behind it the code of that city, each in a text.
fn hops(model: &Arc<dyn Model>, draw: &mut Draw, count: usize, sentences: usize) -> Vec<Document> {
    let pairs = count.div_ceil(2);
    let (people, cities) = (draw.sample(&PEOPLE, pairs), draw.sample(&CITIES, pairs));
    let values: Vec<String> = (0..pairs).map(|_| draw.digits(5)).collect();
    let document = |number: usize| {
        let pair = number / 2;
        let (person, city, value) = (people[pair], cities[pair], &values[pair]);
        let mut text = draw.prose(sentences);
        let told = match number % 2 {
            0 => format!("{person} lives in {city}."),
            _ => format!("The secret code of {city} is {value}."),
        };
        text.insert(draw.below(sentences), told);
        let text = format!("<|im_start|>user\nRead this. {}<|im_end|>\n{READ}", text.join(" "));
        Document {
            tokens: model.tokenize(&text, false, true),
            question: Question {
                text: format!("What is the secret code of the city where {person} lives?"),
                begins: format!("{person} lives in"),
            },
            values: vec![value.clone()],
        }
    };
    (0..count).map(document).collect()
}
