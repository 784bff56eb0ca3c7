//! The tool calls of the dialects, as a grammar that is made from their forms.
//!
//! - A mark is its control token where the vocabulary has one, and plain text elsewhere.
//! - Arguments are declared parameters only, unless the schema allows others.
//!
//! Reading order: this file (calls as JSON, and what stands around a call), [`tagged`] (arguments in
//! tags), [`literal`] (other notations), [`begun`] (the rest of a call that a model begins by itself).

mod begun;
mod literal;
mod tagged;

use serde_json::{Value, json};

use hob_dialect::forms::{Call, Channels, Form, Json, Named, Notation};
use hob_dialect::{Dialect, Schema};

use super::closing::closed;
use super::error::GrammarError;
use super::lark::{Control, Lark, SPACE, quoted};
use super::schema::{OPTIONS, Strictness, is_same, json_rule, with_strictness};

/// Calls in one answer: a small model could go on forever.
const MAX_CALLS: usize = 16;

/// A function that may be called.
#[derive(Clone, Debug)]
pub struct ToolSignature {
    pub name: String,
    /// A JSON schema; `None` allows any object.
    pub parameters: Option<Value>,
    pub strictness: Strictness,
}

impl PartialEq for ToolSignature {
    fn eq(&self, other: &Self) -> bool {
        let parameters = match (&self.parameters, &other.parameters) {
            (Some(one), Some(other)) => is_same(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        parameters && (&self.name, self.strictness) == (&other.name, other.strictness)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// What is left of a call that [`Parser::opened_call`](hob_dialect::Parser::opened_call) returns.
    /// Where no mark says that a name follows, the grammar begins with the name that is read and a
    /// line feed.
    Begun,
    /// The same, and the marks behind the call; then the answer ends.
    BegunLast,
    One,
    /// One or more, where the dialect can write several.
    Several,
}

/// Calls in one dialect. Never without tools.
#[derive(Clone, Debug)]
pub(super) struct ToolCalls {
    form: &'static Form,
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
        if !form.writes_calls() {
            return Err(GrammarError::NoToolForm);
        }
        if tools.is_empty() {
            return Err(GrammarError::NoTools);
        }
        Ok(Self { form, tools: tools.to_vec(), calls })
    }

    pub fn to_lark(&self, control: Control<'_>) -> String {
        let mut lark = Lark::new(control);
        let start = match &self.form.call {
            _ if self.is_begun() => self.begun(&mut lark, control),
            Call::Json(call) => self.json(&mut lark, call, control),
            Call::Channel(channels) => self.messages(&mut lark, channels),
            Call::Literal(Notation::Python) => self.python_list(&mut lark),
            _ => self.marked(&mut lark),
        };
        lark.finish(&start)
    }

    /// Tools that are not strict have any object as arguments; `None`: no tool is strict.
    pub fn with_strict_schemas_alone(&self) -> Option<Self> {
        let is_strict = |tool: &ToolSignature| tool.strictness == Strictness::Strict;
        if !self.tools.iter().any(is_strict) {
            return None;
        }
        let mut tools = self.tools.clone();
        tools.iter_mut().filter(|tool| !is_strict(tool)).for_each(|tool| tool.parameters = None);
        Some(Self { form: self.form, tools, calls: self.calls })
    }

    fn is_begun(&self) -> bool {
        matches!(self.calls, Calls::Begun | Calls::BegunLast)
    }

    /// Whether the answer ends behind a call that it begins by itself.
    pub fn is_last(&self) -> bool {
        self.calls == Calls::BegunLast
    }

    /// What may follow the first call, if it is `another`. A call that is begun may be the first of a list.
    fn more(&self, another: &str) -> String {
        match self.calls {
            Calls::One | Calls::BegunLast => String::new(),
            Calls::Begun | Calls::Several => format!(" ({another}){{0,{}}}", MAX_CALLS - 1),
        }
    }

    /// A rule for each tool, and one for all of them.
    fn of_tools(
        &self,
        lark: &mut Lark<'_>,
        of_tool: impl Fn(&mut Lark<'_>, &ToolSignature, &Value) -> String,
    ) -> String {
        let body = |tool: &ToolSignature| of_tool(lark, tool, &arguments_schema(tool));
        let bodies: Vec<String> = self.tools.iter().map(body).collect();
        lark.any_of(&bodies)
    }

    fn json(&self, lark: &mut Lark<'_>, call: &Json, control: Control<'_>) -> String {
        let open = lark.text(self.form.open);
        let close = self.form.behind.first().map(|text| lark.text(text));
        let named = call.named.as_ref().map(|form| {
            let mark = lark.text(form.name_ends[0]);
            let call = self.of_tools(lark, |lark, tool, schema| {
                let arguments = lark.shared_rule(&json_rule(schema));
                format!("{} {mark} {arguments}", quoted(&tool.name))
            });
            let marked = lark.rule(&format!("{open} {call}"));
            (form, format!("{marked}{}", self.more(&marked)))
        });
        if let Some((form, calls)) = &named
            && is_always_named(form, control)
        {
            return calls.clone();
        }
        let one = self.of_tools(lark, |lark, tool, schema| {
            let arguments = lark.shared_rule(&json_rule(schema));
            format!("{} {arguments} \"}}\"", quoted(&head(call, tool)))
        });
        if call.is_bare {
            return one;
        }
        if call.is_list {
            let more = self.more(&format!("\", \" {one}"));
            let list =
                format!("{open} \" \"? \"[\" {one}{more} \"]\" {}", close.unwrap_or_default());
            return match named {
                Some((_, calls)) => lark.any_of(&[list, calls]),
                None => list,
            };
        }
        if let Some(close) = close {
            let marked = lark.rule(&format!("{open} \"\\n\" {one} \"\\n\" {close}"));
            return format!("{marked}{}", self.more(&format!("\"\\n\" {marked}")));
        }
        let marked = lark.rule(&format!("{open} {one}"));
        format!("{marked}{}", self.more(&marked))
    }

    /// Calls with marks around each and around all of them.
    fn marked(&self, lark: &mut Lark<'_>) -> String {
        let call = self.call(lark);
        let around = |lark: &Lark<'_>, (before, behind): (&str, &str), what: String| {
            let before = match before {
                "" => String::new(),
                text => format!("{} {SPACE} ", lark.text(text)),
            };
            match behind {
                "" => format!("{before}{what}"),
                text => format!("{before}{what} {SPACE} {}", lark.text(text)),
            }
        };
        let opened = format!("{} {call}", lark.text(self.form.open));
        let marked = around(lark, self.form.around_call, opened);
        let one = lark.rule(&marked);
        let all = format!("{one}{}", self.more(&format!("{SPACE} {one}")));
        around(lark, self.form.around_calls, all)
    }

    /// What stands behind the mark that opens a call, up to its end.
    fn call(&self, lark: &mut Lark<'_>) -> String {
        match &self.form.call {
            Call::Tagged(form) => {
                self.of_tools(lark, |lark, tool, schema| tagged::call(lark, form, tool, schema))
            }
            Call::Literal(_) => self.of_tools(lark, literal::gemma_call),
            Call::Named(form) => {
                self.of_tools(lark, |lark, tool, schema| named(lark, form, tool, schema))
            }
            Call::Channel(Channels { tagged: Some(form), .. }) => {
                self.of_tools(lark, |lark, tool, schema| tagged::call(lark, form, tool, schema))
            }
            Call::Json(_) | Call::Channel(_) => unreachable!("these have grammars of their own"),
        }
    }

    /// `[name(key=value), …]`
    fn python_list(&self, lark: &mut Lark<'_>) -> String {
        let call = self.of_tools(lark, literal::python_call);
        let more = self.more(&format!("\", \" {call}"));
        let (open, close) = (lark.text(self.form.open), lark.text(self.form.around_calls.1));
        format!("{open} \"[\" {call}{more} \"]\" {close}")
    }

    /// Messages to functions. The model may think before.
    fn messages(&self, lark: &mut Lark<'_>, channels: &Channels) -> String {
        let form = self.form;
        let call = self.of_tools(lark, |lark, tool, schema| {
            let (before, behind) = channels.call;
            let header = [before, &tool.name, behind[0]].concat();
            let header = lark.text(&header);
            let Some(tagged) = &channels.tagged else {
                let arguments = lark.rule(&json_rule(schema));
                return format!("{header} {arguments}");
            };
            let (before, behind) = form.around_call;
            let (before, open) = (lark.text(before), lark.text(form.open));
            let call = tagged::call(lark, tagged, tool, schema);
            format!("{header} {before} {SPACE} {open} {call} {SPACE} {}", lark.text(behind))
        });
        let between = lark.text(channels.between);
        let more = if channels.writes_several {
            self.more(&format!("{between} {call}"))
        } else {
            String::new()
        };
        format!("{}{call}{more}", reasoning(lark, form, channels))
    }
}

/// Reasoning in a message of its own, which may precede another.
fn reasoning(lark: &mut Lark<'_>, form: &Form, channels: &Channels) -> String {
    if channels.reasoning.is_none() {
        return String::new();
    }
    let (open, close) = form.reasoning;
    let next = channels.between.strip_prefix(close).unwrap_or(channels.between);
    let (open, close, next) = (lark.text(open), lark.until(close), lark.text(next));
    format!("({open} {close} {next})? ")
}

/// A message for the user, which reasoning may precede. `text`: the body of a rule.
pub(super) fn message(form: &Form, text: &str, control: Control<'_>) -> String {
    let mut lark = Lark::new(control);
    let reasoning = match &form.call {
        Call::Channel(channels) => reasoning(&mut lark, form, channels),
        _ => String::new(),
    };
    let header = lark.text(form.before_text);
    let text = lark.rule(text);
    lark.finish(&format!("{reasoning}{header} {text}"))
}

/// Newer models of Mistral have a control token between name and arguments, and write no list. Without it, the model
/// may have learned either.
fn is_always_named(form: &Named, control: Control<'_>) -> bool {
    control(form.name_ends[0]).is_some()
}

/// A call's JSON up to its arguments.
fn head(call: &Json, tool: &ToolSignature) -> String {
    let ((name, arguments), tool) = (call.members, Value::from(tool.name.as_str()));
    if call.is_keyed {
        format!("{{{tool}: ")
    } else {
        format!(r#"{{"{name}": {tool}, "{arguments}": "#)
    }
}

fn named(lark: &mut Lark<'_>, form: &Named, tool: &ToolSignature, schema: &Value) -> String {
    let (before, end) = (lark.text(form.before_name), lark.text(form.name_ends[0]));
    let rest = lark.numbered(form.before_arguments);
    let arguments = lark.rule(&json_rule(schema));
    format!("{before} {} {end} {rest} {arguments}", quoted(&tool.name))
}

fn arguments_schema(tool: &ToolSignature) -> Value {
    let mut schema = match &tool.parameters {
        Some(schema @ Value::Object(_)) => with_strictness(closed(schema), tool.strictness),
        _ => json!({}),
    };
    if schema.get("type").is_none() && schema.get("$ref").is_none() {
        schema["type"] = json!("object");
    }
    schema
}

/// A parameter of a tool.
struct Parameter<'a> {
    key: &'a str,
    schema: &'a Value,
    is_required: bool,
}

/// The parameters in the order in which the tool declares them.
fn parameters(schema: &Value) -> Vec<Parameter<'_>> {
    let required = |key: &str| {
        let keys = schema["required"].as_array();
        keys.is_some_and(|keys| keys.iter().any(|name| name == key))
    };
    let properties = schema["properties"].as_object().into_iter().flatten();
    let parameter = |(key, schema)| {
        let key = String::as_str(key);
        Parameter { key, schema, is_required: required(key) }
    };
    properties.map(parameter).collect()
}

/// Whether the schema allows arguments that it does not declare.
fn allows_others(schema: &Value) -> bool {
    let declares = schema.get("properties").is_some();
    schema.get("additionalProperties").map_or(!declares, |others| *others != Value::Bool(false))
}

/// JSON of a schema within `root`, whose definitions it may name.
fn inner_json(lark: &Lark<'_>, root: &Value, schema: &Value) -> String {
    let mut schema = match schema {
        Value::Object(_) if !lark.is_full() => schema.clone(),
        _ => json!({}),
    };
    // A tool may have many parameters beside large definitions.
    let keys = if refers(&schema) { &["$defs", "definitions", OPTIONS][..] } else { &[OPTIONS] };
    for &key in keys {
        if let Some(definitions) = root.get(key)
            && schema.get(key).is_none()
        {
            schema[key] = definitions.clone();
        }
    }
    json_rule(&schema)
}

/// Whether the schema, or one in it, refers to another one.
fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.contains_key("$ref") || members.values().any(refers),
        Value::Array(items) => items.iter().any(refers),
        _ => false,
    }
}

/// The texts that a schema allows, if it or each of its alternatives lists them and nothing else but null, which is
/// `None` here.
fn listed_texts(schema: Schema<'_>) -> Option<Vec<Option<&str>>> {
    let lists = schema.choices().into_iter().map(listed).collect::<Option<Vec<_>>>()?;
    let texts: Vec<_> = lists.into_iter().flatten().map(Value::as_str).collect();
    (!texts.is_empty()).then_some(texts)
}

/// The values that a schema lists, if they are texts and null.
fn listed(choice: Schema<'_>) -> Option<&[Value]> {
    let one = choice.get("const").map(std::slice::from_ref);
    let values = one.or_else(|| choice.get("enum")?.as_array().map(Vec::as_slice))?;
    let is_listed = |value: &Value| value.is_string() || value.is_null();
    values.iter().all(is_listed).then_some(values)
}
