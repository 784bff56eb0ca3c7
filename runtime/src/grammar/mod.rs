//! Constrains an answer to JSON, JSON of a schema, a tool call, or a grammar; or only the calls in it.
//!
//! Reading order: [`Grammar`] (a description, no model needed), `schema` with `closing` and `pattern` (what of
//! a schema is followed), `regular` (Lark grammars as patterns of a schema), `gbnf` (llama.cpp's notation),
//! `cursor` (reads both), `tools` (how calls are written), [`GrammarFactory`] (knows a vocabulary, compiles),
//! [`Constraint`] (one answer's state), `watch` (which constrains calls alone).
//!
//! - A description is cheap; [`GrammarFactory::start`] compiles it and reports why it cannot.
//! - White space between JSON tokens is bounded, so an answer always makes progress.
//! - Compiling and masking have budgets; beyond them there is an error, never a long wait.

mod closing;
mod constraint;
mod cursor;
mod error;
mod factory;
mod gbnf;
mod lark;
mod pattern;
mod regular;
mod schema;
mod tools;
mod watch;
#[cfg(test)]
mod work;

use serde_json::{Value, json};

use hob_dialect::forms::{self, Call};
use hob_dialect::{Dialect, Parser};

pub use constraint::Constraint;
pub use error::GrammarError;
pub use factory::GrammarFactory;
use lark::Lark;
pub use pattern::whole_pattern;
pub use regular::lark_pattern;
pub use schema::Strictness;
use schema::{is_same, json_rule, with_strictness};
pub use tools::{Calls, ToolSignature};

/// A description of the answer.
#[derive(Clone, Debug)]
pub struct Grammar {
    form: Form,
    /// The prompt has opened the think mark, which this closes: the form begins behind it.
    after_reasoning: Option<&'static str>,
    /// The answer is free until this has read that a call begins, and behind it.
    watch: Option<Parser>,
}

#[derive(Clone, Debug)]
enum Form {
    Schema(Value),
    Lark(String),
    Tools(tools::ToolCalls),
    /// Calls, or the other form.
    CallsOr(tools::ToolCalls, Box<Form>),
    /// A message for the user with a text of the other form.
    Message(&'static forms::Form, Box<Form>),
}

impl PartialEq for Form {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Schema(one), Self::Schema(other)) => is_same(one, other),
            (Self::Lark(one), Self::Lark(other)) => one == other,
            (Self::Tools(one), Self::Tools(other)) => one == other,
            (Self::CallsOr(one, form), Self::CallsOr(other, other_form)) => {
                one == other && form == other_form
            }
            (Self::Message(one, form), Self::Message(other, other_form)) => {
                std::ptr::eq(*one, *other) && form == other_form
            }
            _ => false,
        }
    }
}

impl Grammar {
    /// Any JSON object.
    pub fn json_object() -> Self {
        Self::of(Form::Schema(json!({ "type": "object" })))
    }

    /// JSON of a schema, whose objects have the keys that it declares.
    pub fn json_schema(schema: &Value, strictness: Strictness) -> Result<Self, GrammarError> {
        let unsupported = |text: &str| Err(GrammarError::Unsupported(text.to_owned()));
        match schema {
            Value::Object(_) => {
                let schema = with_strictness(closing::closed(schema), strictness);
                Ok(Self::of(Form::Schema(schema)))
            }
            Value::Bool(true) => Ok(Self::of(Form::Schema(json!({})))),
            Value::Bool(false) => unsupported("no JSON matches the schema `false`"),
            _ => unsupported("a JSON schema must be an object or a boolean"),
        }
    }

    /// The language of a Lark grammar, in llguidance's notation.
    pub fn lark(source: impl Into<String>) -> Self {
        Self::of(Form::Lark(source.into()))
    }

    /// The language of a grammar in GBNF, llama.cpp's notation.
    pub fn gbnf(source: &str) -> Result<Self, GrammarError> {
        gbnf::to_lark(source).map(Self::lark)
    }

    /// The texts that a regular expression matches as a whole.
    pub fn regex(expression: &str) -> Result<Self, GrammarError> {
        let inner = expression.strip_prefix('^').unwrap_or(expression);
        let is_escaped = |before: &str| {
            let marks = before.bytes().rev().take_while(|byte| *byte == b'\\');
            marks.count() % 2 == 1
        };
        let inner = match inner.strip_suffix('$') {
            Some(before) if !is_escaped(before) => before,
            _ => inner,
        };
        match inner {
            "" => Err(GrammarError::Unsupported("the expression is empty".to_owned())),
            inner => Ok(Self::lark(format!("start: /{}/", llguidance::regex_to_lark(inner, "")))),
        }
    }

    /// One of these texts.
    pub fn choice(texts: &[String]) -> Result<Self, GrammarError> {
        let texts: Vec<String> = texts.iter().map(|text| lark::quoted(text)).collect();
        match texts.as_slice() {
            [] => Err(GrammarError::Unsupported("there is no text to choose".to_owned())),
            texts => Ok(Self::lark(format!("start: {}", texts.join(" | ")))),
        }
    }

    /// Any text that does not begin with this character.
    pub fn not_beginning_with(first: char) -> Self {
        let first = u32::from(first);
        Self::lark(format!("start: /([ \\n]{{0,2}}[^ \\n\\x{{{first:X}}}](?s:.*))?/"))
    }

    /// Only calls of these tools, as models of this dialect write them.
    pub fn tool_call(
        dialect: Dialect,
        tools: &[ToolSignature],
        calls: Calls,
    ) -> Result<Self, GrammarError> {
        tools::ToolCalls::new(dialect, tools, calls).map(|calls| Self::of(Form::Tools(calls)))
    }

    /// Any text; where it begins a call, a call of one of these tools. `parser`: of the answer, with
    /// the text that precedes it. `calls`: behind [`Calls::One`] the answer ends.
    pub fn when_called(
        dialect: Dialect,
        tools: &[ToolSignature],
        calls: Calls,
        parser: Parser,
    ) -> Result<Self, GrammarError> {
        let calls = if calls == Calls::One { Calls::BegunLast } else { Calls::Begun };
        let calls = tools::ToolCalls::new(dialect, tools, calls)?;
        Ok(Self { watch: Some(parser), ..Self::of(Form::Tools(calls)) })
    }

    /// The calls of this grammar, or what `other` allows.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match self.form {
            Form::Tools(calls) => Self::of(Form::CallsOr(calls, Box::new(other.form))),
            form => Self { form, ..self },
        }
    }

    /// The same as the text of a message for the user, where answers of this dialect are messages with headers.
    /// Reasoning may precede it.
    #[must_use]
    pub fn of_message(self, dialect: Dialect) -> Self {
        let form = dialect.form();
        match form.call {
            Call::Channel(_) => Self { form: Form::Message(form, Box::new(self.form)), ..self },
            _ => self,
        }
    }

    /// The same, after free text up to the mark that closes reasoning: for prompts that have opened it.
    #[must_use]
    pub fn after_reasoning(self, dialect: Dialect) -> Self {
        Self { after_reasoning: Some(dialect.form().reasoning.1), ..self }
    }

    fn of(form: Form) -> Self {
        Self { form, after_reasoning: None, watch: None }
    }

    /// Whether both compile to the same.
    fn is_like(&self, other: &Self) -> bool {
        self.form == other.form && self.after_reasoning == other.after_reasoning
    }

    /// Whether the grammar may be left out where it cannot be followed.
    pub fn is_optional(&self) -> bool {
        self.watch.is_some()
    }

    /// What may not be left out of an optional grammar: that calls of its strict tools follow their schemas. Calls of the
    /// others have any object as arguments. `None`: no tool is strict.
    pub fn with_strict_schemas_alone(&self) -> Option<Self> {
        let Form::Tools(calls) = &self.form else { return None };
        let calls = calls.with_strict_schemas_alone()?;
        Some(Self { form: Form::Tools(calls), ..self.clone() })
    }

    /// Whether the answer ends behind a call that it begins by itself.
    fn ends_behind_call(&self) -> bool {
        matches!(&self.form, Form::Tools(calls) if calls.is_last())
    }

    /// In llguidance's notation. `control` finds a control token by its written form.
    fn to_lark(&self, control: &dyn Fn(&str) -> Option<u32>) -> String {
        let body = self.form.to_lark(control);
        let Some(close) = self.after_reasoning else { return body };
        let mut lark = Lark::new(control);
        let reasoning = lark.until(close);
        let start = format!("{reasoning} /\\n{{0,2}}/ body\nbody: %lark {{\n{body}\n}}");
        lark.finish(&start)
    }
}

impl Form {
    fn to_lark(&self, control: &dyn Fn(&str) -> Option<u32>) -> String {
        match self {
            Self::Schema(schema) => format!("start: {}\n", json_rule(schema)),
            Self::Lark(source) => source.clone(),
            Self::Tools(calls) => calls.to_lark(control),
            Self::CallsOr(calls, other) => format!(
                "start: calls | other\ncalls: %lark {{\n{}\n}}\nother: %lark {{\n{}\n}}\n",
                calls.to_lark(control),
                other.to_lark(control),
            ),
            Self::Message(form, text) => tools::message(form, &text.to_rule(control), control),
        }
    }

    /// The body of a rule.
    fn to_rule(&self, control: &dyn Fn(&str) -> Option<u32>) -> String {
        match self {
            Self::Schema(schema) => json_rule(schema),
            form => format!("%lark {{\n{}\n}}", form.to_lark(control)),
        }
    }
}

#[cfg(test)]
mod tests;
