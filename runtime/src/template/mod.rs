//! Chat templates: render messages as the text that a model was trained on.
//!
//! Reading order: [`ChatTemplate`] (compile once, render often), `messages` (the form of messages
//! that templates expect), `malformed` (calls that broke off), `reasoning` (where a template reads it), `gemma`
//! (what templates of Gemma 4 need), `python`, `repr` and `json` (the Jinja that they expect), `date`, `capped`.
//!
//! - The template is the model's own; it is rendered as Hugging Face's library renders it.
//! - A template is a program from an untrusted file: its steps and its output are bounded, and it
//!   can read only its input and the date. Not bounded is the memory of text that a template
//!   doubles again and again without writing it.
//! - Equal input gives equal text, except where a template asks for the date.

mod capped;
mod date;
mod gemma;
mod json;
mod malformed;
mod messages;
mod python;
mod reasoning;
mod repr;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use hob_slots::{Timestamp, hex_text};
use minijinja::value::Value as Jinja;
use minijinja::{AutoEscape, Environment, ErrorKind};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use capped::Capped;
use malformed::Malformed;
use messages::{Arguments, Expected};
use repr::python_value;

/// Instructions of one rendering: thousands for each message of a long conversation.
const FUEL: u64 = 10_000_000;
/// Maximum length of a rendered prompt: several times what a context of a million tokens holds.
const MAX_PROMPT_BYTES: usize = 16 << 20;
/// Maximum length of a template. Real ones stay below 30 kB.
pub const MAX_SOURCE_BYTES: usize = 1 << 20;
/// Texts of parts that a template gets, to see what it does with them.
const PROBES: [&str; 2] = ["first part", "second part"];
/// The template's name in error texts.
const NAME: &str = "chat template";

/// A compiled chat template.
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
    bos: String,
    eos: String,
    expected: Expected,
}

#[derive(Clone, Copy, Debug)]
pub struct RenderInput<'a> {
    /// In OpenAI's form.
    pub messages: &'a [Value],
    /// In OpenAI's form.
    pub tools: Option<&'a [Value]>,
    /// Whether the text ends with the beginning of an answer.
    pub add_generation_prompt: bool,
    /// Further variables, such as `enable_thinking`. They do not override the fields above.
    pub extra: &'a Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("the chat template cannot be read: {0}")]
    Syntax(String),
    /// The template called `raise_exception`.
    #[error("{0}")]
    Refused(String),
    #[error("the chat template did not end after {FUEL} steps")]
    Endless,
    #[error("the chat template wrote more than {MAX_PROMPT_BYTES} bytes")]
    TooLong,
    #[error("the chat template failed: {0}")]
    Failed(String),
}

impl ChatTemplate {
    /// Compiles a template. `bos` and `eos` are the written forms of these tokens.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<Self, TemplateError> {
        if source.len() > MAX_SOURCE_BYTES {
            let message = format!("it has more than {MAX_SOURCE_BYTES} bytes");
            return Err(TemplateError::Syntax(message));
        }
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_fuel(Some(FUEL));
        python::configure(&mut environment);
        date::add_to(&mut environment, Arc::new(|| SystemTime::now().into()));
        environment
            .add_template_owned(NAME, python::without_training_marks(source))
            .map_err(|error| TemplateError::Syntax(one_line(&error)))?;
        let mut template = Self {
            environment,
            source: source.to_owned(),
            bos: bos.to_owned(),
            eos: eos.to_owned(),
            expected: Expected::by(source),
        };
        template.expected.parts = true;
        template.expected.parts = template.writes_parts();
        Ok(template)
    }

    /// Sets the source of `strftime_now`.
    #[must_use]
    pub fn with_clock(mut self, now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        date::add_to(&mut self.environment, Arc::new(now));
        self
    }

    /// The prompt.
    ///
    /// Most templates expect the arguments of past calls as objects. One that fails is rendered
    /// again with text, then with those mended that are no objects: it may read each argument.
    pub fn render(&self, input: &RenderInput<'_>) -> Result<String, TemplateError> {
        let mut messages = input.messages.to_vec();
        let malformed = Malformed::take_from(&mut messages);
        let marked = RenderInput { messages: &messages, ..*input };
        let rendered = self.render_with(&marked, Arguments::Objects);
        let has_calls = || messages.iter().any(|message| message.get("tool_calls").is_some());
        let rendered = match rendered {
            Err(TemplateError::Failed(_)) if has_calls() => self
                .render_with(&marked, Arguments::Text)
                .or_else(|_| self.render_with(input, Arguments::MendedObjects))
                .or(rendered),
            rendered => rendered,
        };
        let prompt = malformed.put_into(rendered?, MAX_PROMPT_BYTES);
        let prompt = prompt.ok_or(TemplateError::TooLong)?;
        Ok(if input.add_generation_prompt {
            gemma::with_turn(self.expected.dialect, prompt)
        } else {
            prompt
        })
    }

    /// Whether the template reads `tools`.
    pub fn supports_tools(&self) -> bool {
        self.source.contains("tools")
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    /// The first 16 hex digits of the SHA-256 of the source.
    pub fn hash(&self) -> String {
        hex_text(&Sha256::digest(&self.source)[..8])
    }

    /// Whether it writes the texts of parts, rather than nothing, or the parts as JSON.
    fn writes_parts(&self) -> bool {
        let part = |text: &str| json!({"type": "text", "text": text});
        let message = json!({"role": "user", "content": PROBES.map(part)});
        let none = Map::new();
        let input = RenderInput {
            messages: &[message],
            tools: None,
            add_generation_prompt: true,
            extra: &none,
        };
        let prompt = self.render_with(&input, Arguments::Objects).unwrap_or_default();
        let form = |quote: char| format!("{quote}type{quote}: {quote}text{quote}");
        PROBES.iter().all(|text| prompt.contains(text))
            && !['"', '\''].iter().any(|quote| prompt.contains(&form(*quote)))
    }

    fn render_with(
        &self,
        input: &RenderInput<'_>,
        arguments: Arguments,
    ) -> Result<String, TemplateError> {
        let template = self.environment.get_template(NAME).expect("added when it was compiled");
        let mut prompt = Capped::new(MAX_PROMPT_BYTES);
        match template.render_captured_to(self.variables(input, arguments), &mut prompt) {
            Ok(_) => Ok(prompt.into_text()),
            Err(_) if prompt.is_full() => Err(TemplateError::TooLong),
            Err(error) if error.kind() == ErrorKind::OutOfFuel => Err(TemplateError::Endless),
            Err(error) => Err(match python::refusal(&error) {
                Some(message) => TemplateError::Refused(message),
                None => TemplateError::Failed(one_line(&error)),
            }),
        }
    }

    fn variables(&self, input: &RenderInput<'_>, arguments: Arguments) -> Jinja {
        let messages = messages::all_as_templates_expect(input.messages, self.expected, arguments);
        let named = [
            ("messages", python_value(&Value::Array(messages))),
            ("tools", input.tools.map_or(Jinja::from(()), |tools| python_value(&tools.into()))),
            ("documents", Jinja::from(())),
            ("add_generation_prompt", Jinja::from(input.add_generation_prompt)),
            ("bos_token", Jinja::from(self.bos.as_str())),
            ("eos_token", Jinja::from(self.eos.as_str())),
        ];
        let extra = input.extra.iter().map(|(key, value)| (key.as_str(), python_value(value)));
        Jinja::from_iter(extra.chain(named)) // Of equal names, the last one counts.
    }
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatTemplate").field("hash", &self.hash()).finish_non_exhaustive()
    }
}

fn one_line(error: &minijinja::Error) -> String {
    let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    match error.line() {
        Some(line) => format!("line {line}: {detail}"),
        None => detail,
    }
}

#[cfg(test)]
mod tests;
