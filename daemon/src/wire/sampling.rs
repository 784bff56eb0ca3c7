//! The parameters that chat and completion requests share.

use hob_runtime::sample::Sampling;
use hob_slots::Token;

use super::fields::{Fields, unsupported, wrong_type};
use crate::error::ApiError;

/// Each choice needs its own sequence of llama.cpp.
const MAX_CHOICES: i64 = 16;
const MAX_STOPS: usize = 16;
const MAX_STOP_BYTES: usize = 1024;

#[derive(Clone, Debug)]
pub struct Shape {
    pub sampling: Sampling,
    /// `None`: until the model ends the answer or the context is full.
    pub max_tokens: Option<usize>,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    pub choices: usize,
    /// Generate past end-of-generation tokens.
    pub ignore_eos: bool,
    pub stream: bool,
    /// End the stream with a chunk that has the usage.
    pub include_usage: bool,
}

impl Shape {
    /// Whether to prefill the prompt and generate nothing.
    pub fn is_prewarm(&self) -> bool {
        self.max_tokens == Some(0)
    }

    /// `vocabulary`: the number of tokens, the limit of those in `logit_bias`.
    pub fn parse(fields: &Fields<'_>, vocabulary: usize) -> Result<Self, ApiError> {
        fields.string("model")?;
        Ok(Self {
            sampling: sampling(fields, vocabulary)?,
            max_tokens: max_tokens(fields)?,
            stop: stop(fields)?,
            choices: fields.integer("n", 1..=MAX_CHOICES)?.unwrap_or(1) as usize,
            ignore_eos: fields.boolean("ignore_eos")?.unwrap_or(false),
            stream: fields.boolean("stream")?.unwrap_or(false),
            include_usage: include_usage(fields)?,
        })
    }
}

fn sampling(fields: &Fields<'_>, vocabulary: usize) -> Result<Sampling, ApiError> {
    let default = Sampling::default();
    let number =
        |name, within, default| fields.number(name, within).map(|given| given.unwrap_or(default));
    Ok(Sampling {
        temperature: number("temperature", 0.0..=2.0, default.temperature)?,
        top_p: number("top_p", 0.0..=1.0, default.top_p)?,
        // Other servers write -1 for "all".
        top_k: fields.integer("top_k", -1..=1_000_000)?.unwrap_or(0).max(0) as usize,
        min_p: number("min_p", 0.0..=1.0, default.min_p)?,
        seed: fields.integer("seed", i64::MIN..=i64::MAX)?.map(i64::cast_unsigned),
        frequency_penalty: number("frequency_penalty", -2.0..=2.0, default.frequency_penalty)?,
        presence_penalty: number("presence_penalty", -2.0..=2.0, default.presence_penalty)?,
        repeat_penalty: number("repeat_penalty", 0.1..=10.0, default.repeat_penalty)?,
        logit_bias: logit_bias(fields, vocabulary)?,
    })
}

fn logit_bias(fields: &Fields<'_>, vocabulary: usize) -> Result<Vec<(Token, f32)>, ApiError> {
    let Some(biases) = fields.map("logit_bias")? else { return Ok(Vec::new()) };
    let mut read = Vec::with_capacity(biases.len());
    for (token, bias) in biases {
        let path = format!("logit_bias.{}", token.escape_debug());
        let id = token
            .parse::<i32>()
            .ok()
            .filter(|&id| usize::try_from(id).is_ok_and(|id| id < vocabulary));
        let Some(id) = id else {
            let message = format!("`{path}` is not a token of this vocabulary of {vocabulary}");
            return Err(ApiError::field(path, message));
        };
        let number = bias.as_f64().ok_or_else(|| wrong_type(&path, "a number", bias))?;
        if !(-100.0..=100.0).contains(&number) {
            let message = format!("`{path}` must be between -100 and 100, not {number}");
            return Err(ApiError::field(path, message));
        }
        read.push((Token(id), number as f32));
    }
    Ok(read)
}

/// `max_completion_tokens` is the newer name; of both, the smaller counts.
fn max_tokens(fields: &Fields<'_>) -> Result<Option<usize>, ApiError> {
    let bound = 0..=i64::from(i32::MAX);
    let old = fields.integer("max_tokens", bound.clone())?;
    let new = fields.integer("max_completion_tokens", bound)?;
    Ok([old, new].into_iter().flatten().min().map(|tokens| tokens as usize))
}

fn stop(fields: &Fields<'_>) -> Result<Vec<String>, ApiError> {
    use serde_json::Value;
    let texts = match fields.get("stop") {
        None => return Ok(Vec::new()),
        Some(text @ Value::String(_)) => std::slice::from_ref(text),
        Some(Value::Array(texts)) => texts.as_slice(),
        Some(other) => return Err(wrong_type("stop", "a string or an array of strings", other)),
    };
    if texts.len() > MAX_STOPS {
        let message = format!("`stop` may have {MAX_STOPS} texts, not {}", texts.len());
        return Err(ApiError::field("stop", message));
    }
    let mut read = Vec::with_capacity(texts.len());
    for (n, text) in texts.iter().enumerate() {
        let path = if texts.len() == 1 { "stop".to_owned() } else { format!("stop[{n}]") };
        let text = text.as_str().ok_or_else(|| wrong_type(&path, "a string", text))?;
        if text.is_empty() || text.len() > MAX_STOP_BYTES {
            let message = format!("`{path}` must have 1 to {MAX_STOP_BYTES} bytes");
            return Err(ApiError::field(path, message));
        }
        read.push(text.to_owned());
    }
    Ok(read)
}

fn include_usage(fields: &Fields<'_>) -> Result<bool, ApiError> {
    let Some(options) = fields.get("stream_options") else { return Ok(false) };
    let options = Fields::of(options, "stream_options")?;
    Ok(options.boolean("include_usage")?.unwrap_or(false))
}

/// Refuses fields that Hob would have to ignore.
pub fn refuse(fields: &Fields<'_>, names: &[(&'static str, &str)]) -> Result<(), ApiError> {
    for (name, why) in names {
        if fields.get(name).is_some() {
            return Err(unsupported(*name, format!("`{name}` is not supported: {why}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn parse(body: Value) -> Result<Shape, ApiError> {
        Shape::parse(&Fields::of_body(&body).unwrap(), 100)
    }

    #[test]
    fn an_empty_request_has_openais_defaults() {
        let shape = parse(json!({"temperature": null})).unwrap();
        assert_eq!(shape.sampling, Sampling::default());
        assert_eq!((shape.max_tokens, shape.choices, shape.stream), (None, 1, false));
    }

    #[test]
    fn the_smaller_of_both_limits_counts() {
        let shape = parse(json!({"max_tokens": 0, "max_completion_tokens": 9})).unwrap();
        assert_eq!(shape.max_tokens, Some(0));
    }

    #[test]
    fn each_wrong_value_is_named() {
        for (body, param) in [
            (json!({"temperature": 3}), "temperature"),
            (json!({"temperature": "hot"}), "temperature"),
            (json!({"top_p": -0.1}), "top_p"),
            (json!({"top_k": 1.5}), "top_k"),
            (json!({"n": 0}), "n"),
            (json!({"n": 1000}), "n"),
            (json!({"max_tokens": -1}), "max_tokens"),
            (json!({"stop": [1]}), "stop"),
            (json!({"stop": ["a", ""]}), "stop[1]"),
            (json!({"logit_bias": {"100": 1}}), "logit_bias.100"),
            (json!({"logit_bias": {"x": 1}}), "logit_bias.x"),
            (json!({"logit_bias": {"1": 101}}), "logit_bias.1"),
            (json!({"stream": "yes"}), "stream"),
            (json!({"stream_options": {"include_usage": 1}}), "stream_options.include_usage"),
            (json!({"model": 7}), "model"),
        ] {
            let error = parse(body.clone()).expect_err(&body.to_string());
            assert_eq!(error.param.as_deref(), Some(param), "{body}");
        }
    }
}
