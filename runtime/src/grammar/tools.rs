//! The tool calls of each dialect, as a grammar.
//!
//! - A mark is its control token where the vocabulary has one, and plain text elsewhere.
//! - Arguments are declared parameters only, unless the schema allows others.

use std::fmt::Write;

use serde_json::{Value, json};

use hob_dialect::{Dialect, HERMES_CLOSE, HERMES_OPEN, MISTRAL_ARGUMENTS, MISTRAL_CALLS};

use super::error::GrammarError;
use super::schema::json_rule;

/// Calls in one answer: a small model could go on forever.
const MAX_CALLS: usize = 16;

/// A function that may be called.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSignature {
    pub name: String,
    /// A JSON schema; `None` allows any object.
    pub parameters: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    One,
    /// One or more, where the dialect can write several.
    Several,
}

/// Calls in one dialect. Never without tools.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ToolCalls {
    form: CallForm,
    tools: Vec<ToolSignature>,
    calls: Calls,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum CallForm {
    Hermes,
    Llama3,
    Mistral,
}

impl ToolCalls {
    pub fn new(
        dialect: Dialect,
        tools: &[ToolSignature],
        calls: Calls,
    ) -> Result<Self, GrammarError> {
        let form = match dialect {
            Dialect::Hermes => CallForm::Hermes,
            Dialect::Llama3 => CallForm::Llama3,
            Dialect::Mistral => CallForm::Mistral,
            Dialect::Plain => return Err(GrammarError::NoToolForm),
        };
        if tools.is_empty() {
            return Err(GrammarError::NoTools);
        }
        Ok(Self { form, tools: tools.to_vec(), calls })
    }

    pub fn to_lark(&self, control: &dyn Fn(&str) -> Option<u32>) -> String {
        let mark =
            |text: &str| control(text).map_or_else(|| quoted(text), |id| format!("<[{id}]>"));
        // Newer Mistral models have a control token between name and arguments.
        let name_in_front = self.form == CallForm::Mistral && control(MISTRAL_ARGUMENTS).is_some();
        let more = |another: &str| match self.calls {
            Calls::One => String::new(),
            Calls::Several => format!(" ({another}){{0,{}}}", MAX_CALLS - 1),
        };
        let mut lark = match self.form {
            CallForm::Hermes => {
                let (open, close) = (mark(HERMES_OPEN), mark(HERMES_CLOSE));
                let more = more(r#""\n" marked"#);
                format!("start: marked{more}\nmarked: {open} \"\\n\" call \"\\n\" {close}\n")
            }
            CallForm::Llama3 => "start: call\n".to_owned(),
            CallForm::Mistral if name_in_front => {
                format!("start: marked{}\nmarked: {} call\n", more("marked"), mark(MISTRAL_CALLS))
            }
            CallForm::Mistral => {
                let (open, more) = (mark(MISTRAL_CALLS), more(r#"", " call"#));
                format!("start: {open} \" \"? \"[\" call{more} \"]\"\n")
            }
        };

        let numbers: Vec<String> = (0..self.tools.len()).map(|n| format!("call{n}")).collect();
        let mut add = |line: String| writeln!(lark, "{line}").expect("a String takes every write");
        add(format!("call: {}", numbers.join(" | ")));
        for (n, tool) in self.tools.iter().enumerate() {
            let arguments = json_rule(&arguments_schema(tool));
            add(format!("arguments{n}: {arguments}"));
            add(if name_in_front {
                let (name, mark) = (quoted(&tool.name), mark(MISTRAL_ARGUMENTS));
                format!("call{n}: {name} {mark} arguments{n}")
            } else {
                format!("call{n}: {} arguments{n} \"}}\"", quoted(&self.head(tool)))
            });
        }
        lark
    }

    /// A call's JSON up to its arguments.
    fn head(&self, tool: &ToolSignature) -> String {
        let member = match self.form {
            CallForm::Llama3 => "parameters",
            CallForm::Hermes | CallForm::Mistral => "arguments",
        };
        format!(r#"{{"name": {}, "{member}": "#, Value::from(tool.name.as_str()))
    }
}

fn arguments_schema(tool: &ToolSignature) -> Value {
    let mut schema = match &tool.parameters {
        Some(Value::Object(schema)) => Value::Object(schema.clone()),
        _ => json!({}),
    };
    let has = |key: &str| schema.get(key).is_some();
    let combined = ["$ref", "allOf", "anyOf", "oneOf", "additionalProperties", "patternProperties"];
    if has("properties") && !combined.into_iter().any(has) {
        schema["additionalProperties"] = Value::Bool(false);
    }
    if schema.get("type").is_none() && schema.get("$ref").is_none() {
        schema["type"] = json!("object");
    }
    schema
}

/// A string as Lark writes it, which is as JSON writes it.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
