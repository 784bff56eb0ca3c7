//! Calls with each argument in a tag of its own.

use serde_json::{Value, json};

use hob_dialect::forms::{Attribute, Tagged, ValueEnd};
use hob_dialect::{Kind, Schema, referred};

use super::{Parameter, ToolSignature, allows_others, inner_json, listed_texts, parameters};
use crate::grammar::lark::{Item, Items, Lark, SPACE, quoted};

/// Arguments that are not declared.
const MAX_OTHERS: usize = 16;

/// The types of JSON but `string`.
const OTHER_TYPES: [&str; 5] = ["object", "array", "number", "boolean", "null"];

/// The name, the arguments, and the closing tag.
pub(super) fn call(
    lark: &mut Lark<'_>,
    form: &Tagged,
    tool: &ToolSignature,
    schema: &Value,
) -> String {
    let mut call = quoted(&tool.name);
    if !form.name_end.trim().is_empty() {
        call.push_str(&format!(" {}", lark.text(form.name_end)));
    }
    if !form.head_end.is_empty() {
        let head = lark.numbered(&[form.head, form.head_end].concat());
        call.push_str(&format!(" {head}"));
    }
    call.push_str(&arguments(lark, form, schema));
    call
}

/// The arguments and the closing tag.
pub(super) fn arguments(lark: &mut Lark<'_>, form: &Tagged, schema: &Value) -> String {
    let items = parameters(schema).into_iter().map(|parameter| {
        let body = argument(lark, form, schema, &parameter);
        let rule = lark.rule(&format!("{SPACE} {body}"));
        Item { rule, is_required: parameter.is_required }
    });
    let items = items.collect();
    let others = if allows_others(schema) { others(lark, form, schema) } else { String::new() };
    let rest = Items { first: others.clone(), next: others };
    let items = lark.in_any_order(items, "", rest).next;
    format!(" {items} {SPACE} {}", lark.text(form.close))
}

/// Arguments that the tool does not declare.
fn others(lark: &mut Lark<'_>, form: &Tagged, schema: &Value) -> String {
    // A key that is not known cannot be repeated.
    let ValueEnd::Mark(end) = form.value_end else { return String::new() };
    let open = lark.text(form.parameter);
    let value = value(lark, form, schema, &Value::Null, end);
    let key = r"/[A-Za-z0-9_.\-]{1,64}/";
    let body = lark.rule(&format!("{SPACE} {open} {key} {}{value}", key_end(lark, form)));
    format!("{body}{{0,{MAX_OTHERS}}}")
}

fn argument(lark: &mut Lark<'_>, form: &Tagged, root: &Value, parameter: &Parameter<'_>) -> String {
    let Parameter { key, schema, .. } = parameter;
    let schema = referred(root, schema);
    let end = match form.value_end {
        ValueEnd::Mark(end) => end.to_owned(),
        ValueEnd::WithKey(before, behind) => format!("{before}{key}{behind}"),
    };
    let open = lark.text(form.parameter);
    let value = value(lark, form, root, schema, &end);
    format!("{open} {} {}{value}", quoted(key), key_end(lark, form))
}

/// Behind the key, up to the attributes.
fn key_end(lark: &Lark<'_>, form: &Tagged) -> String {
    format!("{} ", lark.text(form.key_end))
}

/// The attributes of the tag, the value, and the mark behind it.
fn value(lark: &mut Lark<'_>, form: &Tagged, root: &Value, schema: &Value, end: &str) -> String {
    let frame = if form.is_framed { "\n" } else { "" };
    let framed_end = [frame, end].concat();
    let within = Schema::within(root, schema);
    let kind = Kind::of(within);
    // Where an attribute says that the value is a text, null is none.
    let null = (form.attribute == Attribute::None).then_some("null");
    let listed = listed_texts(within).map(|texts| {
        texts.into_iter().filter_map(|text| text.or(null)).map(quoted).collect::<Vec<String>>()
    });
    let text = match listed.filter(|texts| !texts.is_empty()) {
        Some(texts) => format!("{} {}", lark.any_of(&texts), lark.text(&framed_end)),
        // Of a framed text the mark ends it behind a line feed alone: code may contain the mark.
        None => lark.until(&framed_end),
    };
    // A list or an object of a form with tags within tags has a grammar of its own: any text.
    let is_inner = form.nests && !is_scalar(schema);
    let json = if is_inner {
        lark.until(end)
    } else if kind == Kind::Text {
        String::new()
    } else {
        // A text among other values is written as one.
        let json = match kind {
            Kind::Any => inner_json(lark, root, &json!({"type": OTHER_TYPES})),
            _ => inner_json(lark, root, schema),
        };
        let json = lark.rule(&json);
        format!("{json} {}", lark.text(&framed_end))
    };
    let attributes = |text: &str| {
        let value = match form.value {
            "" => String::new(),
            mark if form.attribute == Attribute::None => format!("{SPACE} {} ", lark.text(mark)),
            mark => format!("{} ", lark.text(mark)),
        };
        let frame = if frame.is_empty() { String::new() } else { format!("{} ", quoted(frame)) };
        let text = if text.is_empty() { String::new() } else { format!("{} ", quoted(text)) };
        format!("{text}{value}{frame}")
    };
    match (form.attribute, kind) {
        (Attribute::None, Kind::Json) => format!("{}{json}", attributes("")),
        (Attribute::None, _) => format!("{}{text}", attributes("")),
        (Attribute::IsString, Kind::Text) => format!("{}{text}", attributes(r#" string="true""#)),
        (Attribute::IsString, Kind::Json) => format!("{}{json}", attributes(r#" string="false""#)),
        (Attribute::IsString, Kind::Any) => {
            let is_text = format!("{}{text}", attributes(r#" string="true""#));
            let is_json = format!("{}{json}", attributes(r#" string="false""#));
            lark.any_of(&[is_text, is_json])
        }
        (Attribute::Type, Kind::Json) => {
            let name = match schema["type"].as_str() {
                Some("integer") | None => "number",
                Some(name) => name,
            };
            format!("{}{json}", attributes(&format!(" type=\"{name}\"")))
        }
        (Attribute::Type, _) => format!("{}{text}", attributes(r#" type="string""#)),
    }
}

fn is_scalar(schema: &Value) -> bool {
    let names = ["string", "integer", "number", "boolean", "null"];
    schema["type"].as_str().is_some_and(|name| names.contains(&name))
}
