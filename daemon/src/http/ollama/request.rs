//! Ollama's fields in OpenAI's form, and back in the errors that name them.
//!
//! - Fields of Hob and of OpenAI's API that Ollama has not are passed on as they are.
//! - What chooses how a model is loaded or computed (`num_ctx`, `num_gpu`, …) is ignored.

use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::http::translation::{self, behind, copied, refuse_response_format, set_variables};
use crate::wire::fields::{Fields, unsupported, whole, wrong_type};
use crate::wire::hob::is_detached;
use crate::wire::thinking::switch_thinking;

/// Further fields that mean the same here as for OpenAI's routes.
const PASSED_ON: [&str; 8] = [
    "conversation",
    "model",
    "store",
    "logprobs",
    "top_logprobs",
    "tool_choice",
    "parallel_tool_calls",
    "continue_final_message",
];

/// Fields of `options` that are sampling parameters of OpenAI's form.
const OPTIONS: [&str; 9] = [
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "stop",
    "repeat_penalty",
    "repeat_last_n",
    "presence_penalty",
    "frequency_penalty",
];

/// Paths in OpenAI's form, and Ollama's own. The first that fits counts.
pub type Names = [(&'static str, &'static str)];

const COMMON: [(&str, &str); 13] = [
    ("temperature", "options.temperature"),
    ("top_k", "options.top_k"),
    ("top_p", "options.top_p"),
    ("min_p", "options.min_p"),
    ("stop", "options.stop"),
    ("repeat_penalty", "options.repeat_penalty"),
    ("repeat_last_n", "options.repeat_last_n"),
    ("presence_penalty", "options.presence_penalty"),
    ("frequency_penalty", "options.frequency_penalty"),
    ("seed", "options.seed"),
    ("response_format.json_schema.schema", "format"),
    ("response_format", "format"),
    ("chat_template_kwargs", "think"),
];

/// The fields that chats and completions share. The caller adds the prompt.
///
/// # Errors
/// Names the field that Hob cannot read.
pub fn common(fields: &Fields<'_>) -> Result<Map<String, Value>, ApiError> {
    refuse_response_format(fields, "format")?;
    let mut body = copied(fields, &PASSED_ON);
    fields.string("model")?;
    body.insert("stream".into(), streams(fields)?.into());
    if is_detached(&Value::Object(body.clone()))? {
        let message = "`hob.detached` is not supported here: use POST /v1/chat/completions";
        return Err(unsupported("hob.detached", message));
    }
    if let Some(options) = fields.get("options") {
        sampling(&Fields::of(options, "options")?, &mut body)?;
    }
    if let Some(format) = fields.get("format") {
        body.extend(form(format)?.map(|form| ("response_format".to_owned(), form)));
    }
    think(fields, &mut body)?;
    Ok(body)
}

/// A stream unless the request says otherwise.
pub fn streams(fields: &Fields<'_>) -> Result<bool, ApiError> {
    Ok(fields.boolean("stream")?.unwrap_or(true))
}

/// An error with Ollama's names of the fields: `own`, then the common ones.
pub fn renamed(error: ApiError, own: &Names) -> ApiError {
    translation::renamed(error, |param| {
        let mut names = own.iter().chain(&COMMON);
        names.find_map(|(from, to)| Some(format!("{to}{}", behind(param, from)?)))
    })
}

fn sampling(options: &Fields<'_>, body: &mut Map<String, Value>) -> Result<(), ApiError> {
    for name in OPTIONS {
        if let Some(value) = options.get(name) {
            body.insert(name.into(), value.clone());
        }
    }
    // -1 asks for another one each time, which is the default.
    if let Some(seed) = options.get("seed").filter(|seed| whole(seed) != Some(-1)) {
        body.insert("seed".into(), seed.clone());
    }
    // -1, -2 and 0: until the model ends the answer, or the context is full.
    let tokens = options.integer("num_predict", i64::MIN..=i64::from(i32::MAX))?;
    if let Some(tokens) = tokens {
        body.insert("max_tokens".into(), if tokens > 0 { tokens } else { -1 }.into());
    }
    options.integer("num_ctx", i64::MIN..=i64::MAX)?;
    Ok(())
}

/// `"json"`, or a schema; an empty text asks for no form.
fn form(format: &Value) -> Result<Option<Value>, ApiError> {
    match format {
        Value::String(word) if word.is_empty() => Ok(None),
        Value::String(word) if word == "json" => Ok(Some(json!({"type": "json_object"}))),
        Value::Object(schema) => Ok(Some(json!({
            "type": "json_schema", "json_schema": {"name": "format", "schema": schema},
        }))),
        Value::String(_) => {
            Err(ApiError::field("format", "`format` must be \"json\" or a JSON schema"))
        }
        other => Err(wrong_type("format", "\"json\" or a JSON schema", other)),
    }
}

fn think(fields: &Fields<'_>, body: &mut Map<String, Value>) -> Result<(), ApiError> {
    const LEVELS: [&str; 3] = ["low", "medium", "high"];
    let Some(think) = fields.get("think") else { return Ok(()) };
    let (thinks, level) = match think {
        Value::Bool(thinks) => (*thinks, None),
        Value::String(level) if LEVELS.contains(&level.as_str()) => (true, Some(level)),
        Value::String(_) => {
            let message = "`think` must be true, false, \"low\", \"medium\" or \"high\"";
            return Err(ApiError::field("think", message));
        }
        other => return Err(wrong_type("think", "a boolean or a level", other)),
    };
    let mut variables = Map::new();
    switch_thinking(&mut variables, thinks);
    if let Some(level) = level {
        variables.insert("reasoning_effort".into(), level.as_str().into());
    }
    set_variables(body, variables);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: Value) -> Result<Value, ApiError> {
        common(&Fields::of_body(&body).unwrap()).map(Value::Object)
    }

    #[test]
    fn options_become_the_fields_of_openais_form() {
        let options = json!({"num_predict": -2, "temperature": 0, "seed": -1, "num_ctx": 8192,
            "num_gpu": 1, "stop": ["a"], "mirostat": 2});
        let read = read(json!({"model": "x", "stream": false, "options": options})).unwrap();
        let expected = json!({"model": "x", "stream": false, "temperature": 0, "stop": ["a"],
            "max_tokens": -1});
        assert_eq!(read, expected);
    }

    #[test]
    fn think_sets_the_variables_of_the_templates() {
        let think = |think: Value| read(json!({"think": think}));
        let low = think(json!("low")).unwrap()["chat_template_kwargs"].clone();
        let expected =
            json!({"enable_thinking": true, "thinking": true, "reasoning_effort": "low"});
        assert_eq!(low, expected);
        let off = think(json!(false)).unwrap()["chat_template_kwargs"].clone();
        assert_eq!(off, json!({"enable_thinking": false, "thinking": false}));
        for wrong in [json!("much"), json!(1)] {
            assert_eq!(think(wrong).unwrap_err().param.as_deref(), Some("think"));
        }
    }

    #[test]
    fn errors_name_ollamas_fields() {
        let named = |param: &str| {
            let error = ApiError::field(param, format!("`{param}` is wrong"));
            renamed(error, &[("messages[0]", "system")])
        };
        for (param, expected) in [
            ("temperature", "options.temperature"),
            ("stop[2]", "options.stop[2]"),
            ("response_format.json_schema.schema", "format"),
            ("messages[0].content", "system.content"),
            ("messages[1].content", "messages[1].content"),
            ("hob.ttl", "hob.ttl"),
        ] {
            let error = named(param);
            assert_eq!(error.param.as_deref(), Some(expected));
            assert_eq!(error.message, format!("`{expected}` is wrong"));
        }
    }

    #[test]
    fn each_wrong_value_is_named() {
        for (body, param) in [
            (json!({"options": 1}), "options"),
            (json!({"options": {"num_predict": "x"}}), "options.num_predict"),
            (json!({"options": {"num_ctx": "x"}}), "options.num_ctx"),
            (json!({"format": "xml"}), "format"),
            (json!({"format": 1}), "format"),
            (json!({"stream": "no"}), "stream"),
            (json!({"model": 1}), "model"),
            (json!({"hob": {"detached": true}}), "hob.detached"),
            (json!({"hob": 1}), "hob"),
        ] {
            let error = read(body.clone()).expect_err(&body.to_string());
            assert_eq!(error.param.as_deref(), Some(param), "{body}");
        }
    }
}
