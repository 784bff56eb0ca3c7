//! What an answer must look like: JSON, JSON of a schema, a tool call, or a grammar's language.
//!
//! Reading order: [`Grammar`] (a description, no model needed), `tools` (how calls are written),
//! [`GrammarFactory`] (knows a vocabulary, compiles), [`Constraint`] (one answer's state).
//!
//! - A description is small and cheap; [`GrammarFactory::check`] tells whether it can be followed,
//!   in words for the one who sent it.
//! - An answer always moves on: white space between JSON tokens is bounded.
//! - Compiling and masking have budgets; beyond them there is an error, never a long wait.

mod constraint;
mod factory;
mod tools;

use serde_json::{Value, json};

use hob_dialect::Dialect;

pub use constraint::Constraint;
pub use factory::GrammarFactory;
pub use tools::{Calls, ToolSignature};

/// White space that JSON may have in one place: a space, or a new line and its indentation. A model
/// that was never taught JSON would otherwise fill the room that it gets.
const JSON_SPACE: &str = r" |\r?\n[ \t]{0,16}";

/// A description of the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Grammar {
    form: Form,
    /// The prompt has opened the think mark: the form begins after it is closed.
    after_reasoning: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Form {
    Schema(Value),
    Lark(String),
    Regex(String),
    Tools(tools::ToolCalls),
}

/// Why a grammar cannot be used, or an answer could not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// The request asks for something that no grammar can be made of.
    #[error("{0}")]
    Unsupported(String),
    /// The model was taught no form of tool calls that is known here.
    #[error("this model's chat template has no form for tool calls")]
    NoToolForm,
    /// A call was required, but there is nothing to call.
    #[error("a tool call is required, but no tool is offered")]
    NoTools,
    /// The parser gave up in the middle of an answer.
    #[error("the format cannot be followed any further: {0}")]
    Stuck(String),
}

impl Grammar {
    /// Any JSON object.
    pub fn json_object() -> Self {
        Self::of(Form::Schema(json!({ "type": "object" })))
    }

    /// JSON that a schema describes.
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

    /// Text that matches a regular expression from its beginning to its end.
    pub fn regex(pattern: impl Into<String>) -> Self {
        Self::of(Form::Regex(pattern.into()))
    }

    /// Nothing but calls of these tools, as models of this dialect write them.
    pub fn tool_call(
        dialect: Dialect,
        tools: &[ToolSignature],
        calls: Calls,
    ) -> Result<Self, GrammarError> {
        tools::ToolCalls::new(dialect, tools, calls).map(|calls| Self::of(Form::Tools(calls)))
    }

    /// The same, after free text up to `</think>`: for prompts that have opened the think mark.
    #[must_use]
    pub fn after_reasoning(self) -> Self {
        Self { after_reasoning: true, ..self }
    }

    fn of(form: Form) -> Self {
        Self { form, after_reasoning: false }
    }

    /// The grammar in llguidance's notation. `control` finds control tokens by their written form.
    fn to_lark(&self, control: &dyn Fn(&str) -> Option<u32>) -> String {
        let body = match &self.form {
            Form::Schema(schema) => format!("start: {}\n", json_rule(schema)),
            Form::Lark(source) => source.clone(),
            Form::Regex(pattern) => format!("start: /{}/\n", slashed(pattern)),
            Form::Tools(calls) => calls.to_lark(control),
        };
        if !self.after_reasoning {
            return body;
        }
        let reasoning = match control("</think>") {
            Some(id) => format!("reasoning: /(?s:.*)/ <[{id}]>"),
            None => r#"reasoning[suffix="</think>"]: /(?s:.*)/"#.to_owned(),
        };
        format!("start: reasoning /\\n{{0,2}}/ body\n{reasoning}\nbody: %lark {{\n{body}\n}}\n")
    }
}

/// A rule's body that matches JSON of a schema.
fn json_rule(schema: &Value) -> String {
    let mut schema = schema.clone();
    // Replaces what a request may have put there: these options are not the client's to choose.
    schema["x-guidance"] = json!({
        "whitespace_flexible": true,
        "whitespace_pattern": JSON_SPACE,
        "coerce_one_of": true,
    });
    format!("%json {schema}")
}

/// Escapes the slashes of a regular expression that are not escaped.
fn slashed(pattern: &str) -> String {
    let mut slashed = String::with_capacity(pattern.len());
    let mut escaped = false;
    for c in pattern.chars() {
        if c == '/' && !escaped {
            slashed.push('\\');
        }
        escaped = c == '\\' && !escaped;
        slashed.push(c);
    }
    slashed
}

#[cfg(test)]
mod tests;
