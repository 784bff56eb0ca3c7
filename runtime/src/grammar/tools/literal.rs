//! Calls in Python's notation, and in Gemma's.

use serde_json::{Map, Value, json};

use hob_dialect::{Kind, Schema, referred};

use super::{Parameter, ToolSignature, allows_others, inner_json, listed_texts, parameters};
use crate::grammar::lark::{Item, Items, Lark, quoted};

/// Schemas inside one another; what is deeper takes any value.
const MAX_DEPTH: usize = 8;

/// Rules of one grammar: definitions that name each other could be written out for ever.
const MAX_RULES: usize = 4_000;

/// Around a text.
const QUOTE: &str = "<|\"|>";

/// A name that the schema leaves open, in Python's notation.
const KEY: &str = "/[A-Za-z_][A-Za-z0-9_]{0,63}/";

/// A key that the schema leaves open, in Gemma's notation, which has no quotes around keys: `Content-Type`, say.
const GEMMA_KEY: &str = r#"/[^\x{0}-\x{20}:"'(){}<,\[\]][^\x{0}-\x{1F}:"'(){}<,]{0,63}/"#;

/// The types of JSON.
const MAX_TYPES: usize = 7;

/// What a schema may say besides the types of a value, for Python's notation to follow it.
const FOLLOWED: [&str; 10] = [
    "type",
    "title",
    "description",
    "default",
    "examples",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "anyOf",
];

/// `name(key=value, …)`
pub(super) fn python_call(lark: &mut Lark<'_>, tool: &ToolSignature, schema: &Value) -> String {
    let item = |lark: &mut Lark<'_>, parameter: &Parameter<'_>| {
        let value = python_value(lark, schema, parameter.schema, 0);
        format!("{} {value}", quoted(&format!("{}=", parameter.key)))
    };
    let other = allows_others(schema).then(|| {
        let value = python_value(lark, schema, &json!({}), MAX_DEPTH);
        format!("{KEY} \"=\" {value}")
    });
    let members = members(lark, &parameters(schema), other, ", ", item);
    format!("{} {members} \")\"", quoted(&format!("{}(", tool.name)))
}

/// JSON, which the models write too, or a value whose booleans and null are Python's. Of a schema that says more
/// than [`FOLLOWED`], it is JSON.
fn python_value(lark: &mut Lark<'_>, root: &Value, schema: &Value, depth: usize) -> String {
    let json = inner_json(lark, root, schema);
    let mut forms = vec![lark.rule(&json)];
    let schema = referred(root, schema);
    let says_more =
        |schema: &Map<String, Value>| schema.keys().any(|key| !FOLLOWED.contains(&key.as_str()));
    if schema.as_object().is_some_and(says_more) {
        return forms.remove(0);
    }
    let is_deep = depth > MAX_DEPTH || lark.len() > MAX_RULES;
    for one in schema["anyOf"].as_array().into_iter().flatten().filter(|_| !is_deep) {
        forms.push(python_value(lark, root, one, depth + 1));
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ if schema.get("anyOf").is_some() => Vec::new(),
        _ => vec!["boolean", "null", "array", "object"],
    };
    for name in types {
        match name {
            "boolean" => forms.extend(["True", "False"].map(quoted)),
            "null" => forms.push(quoted("None")),
            "array" if !is_deep => {
                let deeper = depth + deeper_by(&schema["items"]);
                let item = python_value(lark, root, &schema["items"], deeper);
                forms.push(lark.rule(&format!("\"[\" ({item} (\", \" {item})*)? \"]\"")));
            }
            "object" if !is_deep => {
                let members = python_members(lark, root, schema, depth);
                forms.push(lark.rule(&format!("\"{{\" {members} \"}}\"")));
            }
            _ => {}
        }
    }
    lark.any_of(&forms)
}

/// `"key": value, …`
fn python_members(lark: &mut Lark<'_>, root: &Value, schema: &Value, depth: usize) -> String {
    let item = |lark: &mut Lark<'_>, parameter: &Parameter<'_>| {
        let value = python_value(lark, root, parameter.schema, depth + 1);
        let key = Value::from(parameter.key).to_string();
        format!("{} {value}", quoted(&format!("{key}: ")))
    };
    let other = allows_others(schema).then(|| {
        let others = &schema["additionalProperties"];
        let value = python_value(lark, root, others, depth + deeper_by(others));
        let key = inner_json(lark, root, &json!({"type": "string"}));
        format!("{} \": \" {value}", lark.rule(&key))
    });
    members(lark, &parameters(schema), other, ", ", item)
}

/// Two levels of any value within any value are enough.
fn deeper_by(schema: &Value) -> usize {
    if schema.is_object() { 1 } else { MAX_DEPTH / 2 }
}

/// `call:name{key:value, …}`
pub(super) fn gemma_call(lark: &mut Lark<'_>, tool: &ToolSignature, schema: &Value) -> String {
    let members = gemma_members(lark, schema, schema, 0);
    format!("{} {members} \"}}\"", quoted(&format!("call:{}{{", tool.name)))
}

fn gemma_members(lark: &mut Lark<'_>, root: &Value, schema: &Value, depth: usize) -> String {
    let item = |lark: &mut Lark<'_>, parameter: &Parameter<'_>| {
        let value = gemma_value(lark, root, parameter.schema, depth + 1);
        format!("{} {value}", quoted(&format!("{}:", parameter.key)))
    };
    let other = allows_others(schema).then(|| {
        let value = gemma_value(lark, root, &schema["additionalProperties"], depth + 1);
        let value = lark.rule(&value);
        format!("{GEMMA_KEY} \":\" {value}")
    });
    members(lark, &parameters(schema), other, ",", item)
}

fn gemma_value(lark: &mut Lark<'_>, root: &Value, schema: &Value, depth: usize) -> String {
    let schema = referred(root, schema);
    let within = Schema::within(root, schema);
    if let Some(texts) = listed_texts(within) {
        let quote = lark.text(QUOTE);
        let written = |text: Option<&str>| match text {
            Some(text) => format!("{quote} {} {quote}", quoted(text)),
            None => quoted("null"),
        };
        let texts: Vec<String> = texts.into_iter().map(written).collect();
        return lark.any_of(&texts);
    }
    if Kind::of(within) == Kind::Text {
        return gemma_text(lark);
    }
    if let Some(name) = schema["type"].as_str() {
        return gemma_typed(lark, root, schema, name, depth);
    }
    if depth > MAX_DEPTH || lark.len() > MAX_RULES {
        return gemma_any(lark);
    }
    let mut forms = Vec::new();
    if let Some(names) = schema["type"].as_array() {
        for name in names.iter().filter_map(Value::as_str).take(MAX_TYPES) {
            let bare = json!({"type": name});
            let schema = if ["array", "object"].contains(&name) { schema } else { &bare };
            forms.push(gemma_typed(lark, root, schema, name, depth + 1));
        }
    } else {
        // Each once: alternatives of alternatives are many.
        let others = within.choices().into_iter().map(Schema::value);
        for one in others.filter(|one| !std::ptr::eq(*one, schema)) {
            forms.push(gemma_value(lark, root, one, depth + 1));
        }
    }
    if forms.is_empty() { gemma_any(lark) } else { lark.any_of(&forms) }
}

/// A value of this type, of those that the schema has.
fn gemma_typed(
    lark: &mut Lark<'_>,
    root: &Value,
    schema: &Value,
    name: &str,
    depth: usize,
) -> String {
    let is_deep = depth > MAX_DEPTH || lark.len() > MAX_RULES;
    match name {
        "string" => gemma_text(lark),
        "integer" | "number" | "boolean" | "null" => {
            let json = inner_json(lark, root, schema);
            lark.rule(&json)
        }
        "array" if !is_deep => {
            let item = gemma_value(lark, root, &schema["items"], depth + 1);
            let item = lark.rule(&item);
            lark.rule(&format!("\"[\" ({item} (\",\" {item})*)? \"]\""))
        }
        "object" if !is_deep => {
            let members = gemma_members(lark, root, schema, depth);
            lark.rule(&format!("\"{{\" {members} \"}}\""))
        }
        _ => gemma_any(lark),
    }
}

fn gemma_text(lark: &mut Lark<'_>) -> String {
    format!("{} {}", lark.text(QUOTE), lark.until(QUOTE))
}

/// Any value, of any depth.
fn gemma_any(lark: &mut Lark<'_>) -> String {
    lark.recursive_rule("any value of Gemma", |lark, any| {
        let text = gemma_text(lark);
        let scalar = json!({"type": ["number", "boolean", "null"]});
        let scalar = inner_json(lark, &Value::Null, &scalar);
        let scalar = lark.rule(&scalar);
        let member = lark.rule(&format!("{GEMMA_KEY} \":\" {any}"));
        format!(
            "{text} | {scalar} | \"[\" ({any} (\",\" {any})*)? \"]\" \
             | \"{{\" ({member} (\",\" {member})*)? \"}}\""
        )
    })
}

/// Members in any order with marks between them; those that are not required may be missing.
fn members(
    lark: &mut Lark<'_>,
    parameters: &[Parameter<'_>],
    other: Option<String>,
    between: &str,
    item: impl Fn(&mut Lark<'_>, &Parameter<'_>) -> String,
) -> String {
    let between = quoted(between);
    let rest = other.map(|other| {
        let other = lark.rule(&other);
        let next = format!("({between} {other}){{0,16}}");
        Items { first: format!("({other} {next})?"), next }
    });
    let items = parameters.iter().map(|parameter| {
        let body = item(lark, parameter);
        Item { rule: lark.rule(&body), is_required: parameter.is_required }
    });
    let items = items.collect();
    lark.in_any_order(items, &between, rest.unwrap_or_default()).first
}
