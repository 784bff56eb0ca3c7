//! Constrains an answer to JSON, JSON of a schema, a tool call, or a grammar; or only the calls in it.
//!
//! Reading order: [`Grammar`] (a description, no model needed), `tools` (how calls are written),
//! [`GrammarFactory`] (knows a vocabulary, compiles), [`Constraint`] (one answer's state), `watch` (which
//! constrains calls alone).
//!
//! - A description is cheap; [`GrammarFactory::start`] compiles it and reports why it cannot.
//! - White space between JSON tokens is bounded, so an answer always makes progress.
//! - Compiling and masking have budgets; beyond them there is an error, never a long wait.

mod constraint;
mod error;
mod factory;
mod lark;
mod schema;
mod tools;
mod watch;

use serde_json::{Value, json};

use hob_dialect::{Dialect, Parser};

pub use constraint::Constraint;
pub use error::GrammarError;
pub use factory::GrammarFactory;
use lark::Lark;
use schema::json_rule;
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

#[derive(Clone, Debug, PartialEq)]
enum Form {
    Schema(Value),
    Lark(String),
    Tools(tools::ToolCalls),
}

impl Grammar {
    /// Any JSON object.
    pub fn json_object() -> Self {
        Self::of(Form::Schema(json!({ "type": "object" })))
    }

    /// JSON of a schema.
    pub fn json_schema(schema: &Value) -> Result<Self, GrammarError> {
        let unsupported = |text: &str| Err(GrammarError::Unsupported(text.to_owned()));
        match schema {
            Value::Object(_) => Ok(Self::of(Form::Schema(schema.clone()))),
            Value::Bool(true) => Ok(Self::of(Form::Schema(json!({})))),
            Value::Bool(false) => unsupported("no JSON matches the schema `false`"),
            _ => unsupported("a JSON schema must be an object or a boolean"),
        }
    }

    /// The language of a Lark grammar, in llguidance's notation.
    pub fn lark(source: impl Into<String>) -> Self {
        Self::of(Form::Lark(source.into()))
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
    /// the text that precedes it.
    pub fn when_called(
        dialect: Dialect,
        tools: &[ToolSignature],
        parser: Parser,
    ) -> Result<Self, GrammarError> {
        let calls = tools::ToolCalls::new(dialect, tools, Calls::Begun)?;
        Ok(Self { watch: Some(parser), ..Self::of(Form::Tools(calls)) })
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

    /// Whether it may be left out where it cannot be followed.
    pub fn is_optional(&self) -> bool {
        self.watch.is_some()
    }

    /// In llguidance's notation. `control` finds a control token by its written form.
    fn to_lark(&self, control: &dyn Fn(&str) -> Option<u32>) -> String {
        let body = match &self.form {
            Form::Schema(schema) => format!("start: {}\n", json_rule(schema)),
            Form::Lark(source) => source.clone(),
            Form::Tools(calls) => calls.to_lark(control),
        };
        let Some(close) = self.after_reasoning else { return body };
        let mut lark = Lark::new(control);
        let reasoning = lark.until(close);
        let start = format!("{reasoning} /\\n{{0,2}}/ body\nbody: %lark {{\n{body}\n}}");
        lark.finish(&start)
    }
}

#[cfg(test)]
mod tests;
