//! The form that a request demands of its answer, under the names of OpenAI, llama-server, vLLM
//! and SGLang.
//!
//! - A request has one form at most. A second one is refused, and so is one that Hob does not have; none is
//!   dropped.

use hob_runtime::grammar::Strictness;
use serde_json::Value;

use super::fields::{Fields, unsupported, wrong_type};
use crate::error::ApiError;

/// What an answer must be, and the field that demands it.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerForm {
    pub form: Form,
    /// The path of the field, for errors.
    pub field: String,
    /// The path of an option that changes which texts the form allows, and which only the engine that invented it
    /// follows.
    pub foreign: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// Any JSON object.
    JsonObject,
    /// JSON that matches the schema.
    Schema(Value, Strictness),
    /// A text of this grammar, in llama.cpp's notation.
    Gbnf(String),
    /// A text that this regular expression matches as a whole.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
}

/// Reads one field: `None` where it demands nothing.
type Read = fn(&Value, &str) -> Result<Option<AnswerForm>, ApiError>;

const FIELDS: [(&str, Read); 11] = [
    ("response_format", response_format),
    ("json_schema", schema),
    ("grammar", grammar),
    ("guided_json", schema),
    ("guided_regex", regex),
    ("guided_choice", choice),
    ("guided_grammar", grammar),
    ("regex", regex),
    ("ebnf", grammar),
    ("structured_outputs", structured_outputs),
    ("structural_tag", structural_tag),
];

/// The names of these fields.
pub const NAMES: [&str; FIELDS.len()] = {
    let mut names = [""; FIELDS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = FIELDS[at].0;
        at += 1;
    }
    names
};

/// The keys of vLLM's `structured_outputs`.
const STRUCTURED: [(&str, Read); 5] = [
    ("json", schema),
    ("regex", regex),
    ("choice", choice),
    ("grammar", grammar),
    ("json_object", json_object),
];

/// What chooses among vLLM's own ways to follow a form. Objects are closed anyway.
const WITHOUT_MEANING: [&str; 2] = ["disable_fallback", "disable_additional_properties"];

/// The options of others that change a form: beside these fields, and within `structured_outputs`.
pub const FOREIGN: [&str; 2] = ["grammar_lazy", "guided_whitespace_pattern"];
const FOREIGN_STRUCTURED: [&str; 2] = ["disable_any_whitespace", "whitespace_pattern"];

/// The form that a body demands; `None`: any text.
pub fn answer_form(fields: &Fields<'_>) -> Result<Option<AnswerForm>, ApiError> {
    let mut form = only_one(fields, &FIELDS)?;
    if let Some(form) = &mut form {
        form.foreign = foreign(fields)?;
    }
    Ok(form)
}

/// The first option of others, which counts wherever the form itself is demanded.
fn foreign(fields: &Fields<'_>) -> Result<Option<String>, ApiError> {
    let first = |fields: &Fields<'_>, names: &[&str]| {
        let is_asked = |name: &&&str| fields.get(name).is_some_and(|value| *value != false);
        names.iter().find(is_asked).map(|name| fields.path(name))
    };
    let path = fields.path("structured_outputs");
    let structured = fields.get("structured_outputs").map(|value| Fields::of(value, &path));
    let within = |structured: Fields<'_>| first(&structured, &FOREIGN_STRUCTURED);
    Ok(first(fields, &FOREIGN).or(structured.transpose()?.and_then(within)))
}

fn only_one(fields: &Fields<'_>, read: &[(&str, Read)]) -> Result<Option<AnswerForm>, ApiError> {
    let mut found: Option<AnswerForm> = None;
    for (name, read) in read {
        let Some(value) = fields.get(name) else { continue };
        let path = fields.path(name);
        let Some(form) = read(value, &path)? else { continue };
        if let Some(first) = found {
            let message = format!("`{path}` and `{}` both demand a form: send one", first.field);
            return Err(ApiError::field(path, message));
        }
        found = Some(form);
    }
    Ok(found)
}

fn demanded(form: Form, path: &str) -> Result<Option<AnswerForm>, ApiError> {
    Ok(Some(AnswerForm { form, field: path.to_owned(), foreign: None }))
}

fn response_format(value: &Value, path: &str) -> Result<Option<AnswerForm>, ApiError> {
    let format = Fields::of(value, path)?;
    let own_schema = || format.path("schema");
    match format.required_string("type")? {
        "text" => Ok(None),
        "json_object" => match format.get("schema") {
            Some(value) => schema(value, &own_schema()),
            None => demanded(Form::JsonObject, path),
        },
        "json_schema" => {
            let described = match format.get("json_schema") {
                // As older versions of llama-server take it.
                None if format.get("schema").is_some() => {
                    return schema(&value["schema"], &own_schema());
                }
                _ => format.required("json_schema")?,
            };
            let described_path = format.path("json_schema");
            let described = Fields::of(described, &described_path)?;
            described.string("name")?;
            let is_strict = described.boolean("strict")?.unwrap_or(false);
            let strictness = if is_strict { Strictness::Strict } else { Strictness::Lenient };
            let value = described.required("schema")?;
            schema_of(value, &described.path("schema"), strictness)
        }
        other => Err(ApiError::field(
            format.path("type"),
            format!(
                "`{}` must be text, json_object or json_schema, not `{}`",
                format.path("type"),
                other.escape_debug()
            ),
        )),
    }
}

/// vLLM takes it as a text, too.
fn schema(value: &Value, path: &str) -> Result<Option<AnswerForm>, ApiError> {
    match value {
        Value::String(text) => {
            let parsed = serde_json::from_str(text);
            let parsed = parsed.map_err(|_| wrong_type(path, "a JSON schema", value))?;
            schema_of(&parsed, path, Strictness::Lenient)
        }
        value => schema_of(value, path, Strictness::Lenient),
    }
}

fn schema_of(
    value: &Value,
    path: &str,
    strictness: Strictness,
) -> Result<Option<AnswerForm>, ApiError> {
    match value {
        Value::Object(_) | Value::Bool(_) => {
            demanded(Form::Schema(value.clone(), strictness), path)
        }
        other => Err(wrong_type(path, "a JSON schema", other)),
    }
}

fn json_object(value: &Value, path: &str) -> Result<Option<AnswerForm>, ApiError> {
    match value.as_bool() {
        Some(true) => demanded(Form::JsonObject, path),
        Some(false) => Ok(None),
        None => Err(wrong_type(path, "a boolean", value)),
    }
}

fn grammar(value: &Value, path: &str) -> Result<Option<AnswerForm>, ApiError> {
    match text(value, path)? {
        "" => Ok(None),
        source if source.contains("::=") => demanded(Form::Gbnf(source.to_owned()), path),
        _ => {
            let message =
                format!("`{path}` must be a grammar in GBNF: it has no rule (`root ::= …`)");
            Err(unsupported(path, message))
        }
    }
}

fn regex(value: &Value, path: &str) -> Result<Option<AnswerForm>, ApiError> {
    match text(value, path)? {
        "" => Ok(None),
        expression => demanded(Form::Regex(expression.to_owned()), path),
    }
}

fn choice(value: &Value, path: &str) -> Result<Option<AnswerForm>, ApiError> {
    let list = value.as_array().ok_or_else(|| wrong_type(path, "an array of texts", value))?;
    let texts = list.iter().enumerate().map(|(n, entry)| {
        let text = entry.as_str().map(str::to_owned);
        text.ok_or_else(|| wrong_type(&format!("{path}[{n}]"), "a string", entry))
    });
    demanded(Form::Choice(texts.collect::<Result<_, _>>()?), path)
}

fn structured_outputs(value: &Value, path: &str) -> Result<Option<AnswerForm>, ApiError> {
    let fields = Fields::of(value, path)?;
    let is_known = |name: &str| {
        WITHOUT_MEANING.contains(&name)
            || FOREIGN_STRUCTURED.contains(&name)
            || STRUCTURED.iter().any(|(known, _)| *known == name)
    };
    let unknown = fields.object().keys().find(|name| !is_known(name) && fields.get(name).is_some());
    if let Some(unknown) = unknown {
        let path = fields.path(&unknown.escape_debug().to_string());
        let message = format!("`{path}` is not supported: use json, regex, choice or grammar");
        return Err(unsupported(path, message));
    }
    only_one(&fields, &STRUCTURED)
}

/// vLLM's older name of a form that Hob does not have.
fn structural_tag(_: &Value, path: &str) -> Result<Option<AnswerForm>, ApiError> {
    let message = format!("`{path}` is not supported: use `structured_outputs` or `tools`");
    Err(unsupported(path, message))
}

fn text<'v>(value: &'v Value, path: &str) -> Result<&'v str, ApiError> {
    value.as_str().ok_or_else(|| wrong_type(path, "a string", value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: Value) -> Result<Option<AnswerForm>, ApiError> {
        answer_form(&Fields::of_body(&body).unwrap())
    }

    #[test]
    fn each_field_demands_its_form() {
        let schema = json!({"type": "integer"});
        let form = |strictness| Form::Schema(schema.clone(), strictness);
        let (lenient, strict) = (form(Strictness::Lenient), form(Strictness::Strict));
        let gbnf = Form::Gbnf("root ::= \"a\"".to_owned());
        for (body, field, expected) in [
            (
                json!({"response_format": {"type": "json_object"}}),
                "response_format",
                Form::JsonObject,
            ),
            (
                json!({"response_format": {"type": "json_object", "schema": schema}}),
                "response_format.schema",
                lenient.clone(),
            ),
            (
                json!({"response_format": {"type": "json_schema", "schema": schema}}),
                "response_format.schema",
                lenient.clone(),
            ),
            (
                json!({"response_format": {"type": "json_schema",
                    "json_schema": {"name": "n", "strict": true, "schema": schema}}}),
                "response_format.json_schema.schema",
                strict,
            ),
            (json!({"json_schema": schema}), "json_schema", lenient.clone()),
            (json!({"guided_json": schema.to_string()}), "guided_json", lenient.clone()),
            (json!({"grammar": "root ::= \"a\""}), "grammar", gbnf.clone()),
            (json!({"guided_grammar": "root ::= \"a\""}), "guided_grammar", gbnf.clone()),
            (json!({"ebnf": "root ::= \"a\""}), "ebnf", gbnf),
            (json!({"regex": "a+"}), "regex", Form::Regex("a+".to_owned())),
            (json!({"guided_regex": "a+"}), "guided_regex", Form::Regex("a+".to_owned())),
            (
                json!({"guided_choice": ["a"], "response_format": {"type": "text"}, "grammar": ""}),
                "guided_choice",
                Form::Choice(vec!["a".to_owned()]),
            ),
            (
                json!({"structured_outputs": {"json": schema, "disable_fallback": true}}),
                "structured_outputs.json",
                lenient,
            ),
        ] {
            let expected = AnswerForm { form: expected, field: field.to_owned(), foreign: None };
            assert_eq!(read(body.clone()).unwrap(), Some(expected), "{body}");
        }
        for nothing in [
            json!({}),
            json!({"response_format": {"type": "text"}, "grammar": ""}),
            json!({"structured_outputs": {"regex": null}}),
        ] {
            assert_eq!(read(nothing.clone()).unwrap(), None, "{nothing}");
        }
    }

    #[test]
    fn options_of_others_that_change_the_form_are_named() {
        for (mut body, option, path) in [
            (json!({"grammar": "root ::= \"a\""}), "grammar_lazy", "grammar_lazy"),
            (json!({"guided_json": {}}), "guided_whitespace_pattern", "guided_whitespace_pattern"),
            (
                json!({"structured_outputs": {"json": {}}}),
                "disable_any_whitespace",
                "structured_outputs.disable_any_whitespace",
            ),
        ] {
            for (value, expected) in
                [(json!(true), Some(path)), (json!(false), None), (Value::Null, None)]
            {
                let within = body.get_mut("structured_outputs");
                *(match within {
                    Some(structured) => &mut structured[option],
                    None => &mut body[option],
                }) = value;
                let form = read(body.clone()).unwrap().unwrap();
                assert_eq!(form.foreign.as_deref(), expected, "{body}");
            }
        }
        assert_eq!(read(json!({"grammar_lazy": true})).unwrap(), None);
        let beside = json!({"guided_json": {}, "structured_outputs": {"whitespace_pattern": " "}});
        let foreign = read(beside).unwrap().unwrap().foreign;
        assert_eq!(foreign.as_deref(), Some("structured_outputs.whitespace_pattern"));
    }

    #[test]
    fn what_cannot_be_followed_is_refused_by_name() {
        for (body, param) in [
            (json!({"response_format": "json"}), "response_format"),
            (json!({"response_format": {"type": "structural_tag"}}), "response_format.type"),
            (
                json!({"response_format": {"type": "json_object", "schema": 1}}),
                "response_format.schema",
            ),
            (json!({"json_schema": [1]}), "json_schema"),
            (json!({"grammar": "start: \"a\""}), "grammar"),
            (json!({"grammar": 1}), "grammar"),
            (json!({"guided_json": "{"}), "guided_json"),
            (json!({"guided_choice": "a"}), "guided_choice"),
            (json!({"guided_choice": ["a", 1]}), "guided_choice[1]"),
            (
                json!({"structured_outputs": {"structural_tag": "x"}}),
                "structured_outputs.structural_tag",
            ),
            (
                json!({"structured_outputs": {"regex": "a", "choice": ["b"]}}),
                "structured_outputs.choice",
            ),
            (json!({"structural_tag": {"begin": "<a>"}}), "structural_tag"),
            (json!({"json_schema": {}, "guided_regex": "a"}), "guided_regex"),
            (
                json!({"response_format": {"type": "json_object"}, "grammar": "root ::= \"a\""}),
                "grammar",
            ),
        ] {
            let error = read(body.clone()).expect_err(&body.to_string());
            assert_eq!(error.param.as_deref(), Some(param), "{body}");
        }
    }
}
