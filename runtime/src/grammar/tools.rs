//! The tool calls of the dialects that write them as JSON objects, as a grammar.
//!
//! - A mark is its control token where the vocabulary has one, and plain text elsewhere.
//! - Arguments are declared parameters only, unless the schema allows others.

use std::fmt::Write;

use serde_json::{Value, json};

use hob_dialect::Dialect;
use hob_dialect::forms::{Call, Form, Json};

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
#[derive(Clone, Debug)]
pub(super) struct ToolCalls {
    form: &'static Form,
    call: &'static Json,
    tools: Vec<ToolSignature>,
    calls: Calls,
}

impl PartialEq for ToolCalls {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.form, other.form)
            && (&self.tools, self.calls) == (&other.tools, other.calls)
    }
}

impl ToolCalls {
    pub fn new(
        dialect: Dialect,
        tools: &[ToolSignature],
        calls: Calls,
    ) -> Result<Self, GrammarError> {
        let form = dialect.form();
        let call = match &form.call {
            Call::Json(call) if !form.open.is_empty() => call,
            _ => return Err(GrammarError::NoToolForm),
        };
        if tools.is_empty() {
            return Err(GrammarError::NoTools);
        }
        Ok(Self { form, call, tools: tools.to_vec(), calls })
    }

    pub fn to_lark(&self, control: &dyn Fn(&str) -> Option<u32>) -> String {
        let mark =
            |text: &str| control(text).map_or_else(|| quoted(text), |id| format!("<[{id}]>"));
        let (open, close) = (mark(self.form.open), self.form.behind.first().map(|text| mark(text)));
        // Newer Mistral models have a control token between name and arguments.
        let arguments_mark = self.call.named.as_ref().map(|named| named.name_ends[0]);
        let arguments_mark = arguments_mark.filter(|text| control(text).is_some()).map(mark);
        let more = |another: &str| match self.calls {
            Calls::One => String::new(),
            Calls::Several => format!(" ({another}){{0,{}}}", MAX_CALLS - 1),
        };
        let mut lark = if self.call.is_bare {
            "start: call\n".to_owned()
        } else if arguments_mark.is_some() {
            format!("start: marked{}\nmarked: {open} call\n", more("marked"))
        } else if self.call.is_list {
            let (more, close) = (more(r#"", " call"#), close.unwrap_or_default());
            format!("start: {open} \" \"? \"[\" call{more} \"]\" {close}\n")
        } else if let Some(close) = close {
            let more = more(r#""\n" marked"#);
            format!("start: marked{more}\nmarked: {open} \"\\n\" call \"\\n\" {close}\n")
        } else {
            format!("start: marked{}\nmarked: {open} call\n", more("marked"))
        };

        let numbers: Vec<String> = (0..self.tools.len()).map(|n| format!("call{n}")).collect();
        let mut add = |line: String| writeln!(lark, "{line}").expect("a String takes every write");
        add(format!("call: {}", numbers.join(" | ")));
        for (n, tool) in self.tools.iter().enumerate() {
            let arguments = json_rule(&arguments_schema(tool));
            add(format!("arguments{n}: {arguments}"));
            add(if let Some(mark) = &arguments_mark {
                let name = quoted(&tool.name);
                format!("call{n}: {name} {mark} arguments{n}")
            } else {
                format!("call{n}: {} arguments{n} \"}}\"", quoted(&self.head(tool)))
            });
        }
        lark
    }

    /// A call's JSON up to its arguments.
    fn head(&self, tool: &ToolSignature) -> String {
        let ((name, arguments), tool) = (self.call.members, Value::from(tool.name.as_str()));
        match self.call.is_keyed {
            true => format!("{{{tool}: "),
            false => format!(r#"{{"{name}": {tool}, "{arguments}": "#),
        }
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
