//! The parameters that chat and completion requests share.

use std::collections::BTreeSet;
use std::time::Duration;

use hob_runtime::sample::Sampling;
use hob_slots::Token;
use serde_json::{Map, Value};

use super::fields::{Fields, unsupported, whole, wrong_type};
use super::lora::{WantedAdapter, lora};
use super::tokens::{allowed_token_ids, bad_words, min_tokens, stop_token_ids};
use crate::error::ApiError;

/// Each choice needs its own sequence of llama.cpp.
const MAX_CHOICES: i64 = 16;
/// Each token of an answer is compared with all of them.
const MAX_STOPS: usize = 512;
const MAX_STOP_BYTES: usize = 1024;
/// Maximum length of all texts together.
const MAX_STOPS_BYTES: usize = 16 * 1024;

/// Longer than any context: what -1 stands for in `max_tokens` and `repeat_last_n`.
const NO_LIMIT: usize = i32::MAX as usize;

/// Sampling parameters of one source. `None`: the next source decides. The sources in order: the
/// request, its conversation, its profile, the client's defaults, the model's file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplingFields {
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    pub top_k: Option<usize>,
    pub min_p: Option<f32>,
    pub seed: Option<u64>,
    pub frequency_penalty: Option<f32>,
    pub presence_penalty: Option<f32>,
    pub repeat_penalty: Option<f32>,
    pub xtc_probability: Option<f32>,
    pub xtc_threshold: Option<f32>,
    pub repeat_last_n: Option<usize>,
    pub max_tokens: Option<usize>,
}

const SAMPLING_FIELDS: [&str; 12] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "repeat_penalty",
    "xtc_probability",
    "xtc_threshold",
    "repeat_last_n",
    "max_tokens",
];

impl SamplingFields {
    pub fn parse(fields: &Fields<'_>) -> Result<Self, ApiError> {
        let number = |name, within| fields.number(name, within);
        Ok(Self {
            temperature: number("temperature", 0.0..=2.0)?,
            top_p: number("top_p", 0.0..=1.0)?,
            // Other servers write -1 for "all".
            top_k: fields.integer("top_k", -1..=1_000_000)?.map(|top_k| top_k.max(0) as usize),
            min_p: number("min_p", 0.0..=1.0)?,
            seed: seed(fields)?,
            frequency_penalty: number("frequency_penalty", -2.0..=2.0)?,
            presence_penalty: number("presence_penalty", -2.0..=2.0)?,
            repeat_penalty: repeat_penalty(fields)?,
            xtc_probability: number("xtc_probability", 0.0..=1.0)?,
            xtc_threshold: number("xtc_threshold", 0.0..=1.0)?,
            repeat_last_n: repeat_last_n(fields)?,
            max_tokens: max_tokens(fields)?,
        })
    }

    /// Reads an object that has nothing else. `max_tokens` is 1 at least.
    ///
    /// # Errors
    /// Names the wrong field below `path`.
    pub fn parse_all(value: &Value, path: &str) -> Result<Self, ApiError> {
        let fields = Fields::of(value, path)?;
        let unknown = fields.object().keys().find(|name| !SAMPLING_FIELDS.contains(&name.as_str()));
        if let Some(unknown) = unknown {
            let message = format!("`{path}` knows only `{}`", SAMPLING_FIELDS.join("`, `"));
            return Err(unsupported(fields.path(&unknown.escape_debug().to_string()), message));
        }
        fields.integer("max_tokens", 1..=i64::from(i32::MAX))?;
        Self::parse(&fields)
    }

    /// The object `sampling` of a body, checked and without nulls. An empty one unsets all parameters.
    ///
    /// # Errors
    /// As [`Self::parse_all`].
    pub fn object(fields: &Fields<'_>) -> Result<Option<Value>, ApiError> {
        let Some(set) = fields.map("sampling")? else { return Ok(None) };
        let set: Map<_, _> =
            set.clone().into_iter().filter(|(_, value)| !value.is_null()).collect();
        let set = Value::Object(set);
        Self::parse_all(&set, "sampling")?;
        Ok(Some(set))
    }

    /// What is not set here is taken from `other`.
    fn or(&self, other: &Self) -> Self {
        Self {
            temperature: self.temperature.or(other.temperature),
            top_p: self.top_p.or(other.top_p),
            top_k: self.top_k.or(other.top_k),
            min_p: self.min_p.or(other.min_p),
            seed: self.seed.or(other.seed),
            frequency_penalty: self.frequency_penalty.or(other.frequency_penalty),
            presence_penalty: self.presence_penalty.or(other.presence_penalty),
            repeat_penalty: self.repeat_penalty.or(other.repeat_penalty),
            xtc_probability: self.xtc_probability.or(other.xtc_probability),
            xtc_threshold: self.xtc_threshold.or(other.xtc_threshold),
            repeat_last_n: self.repeat_last_n.or(other.repeat_last_n),
            max_tokens: self.max_tokens.or(other.max_tokens),
        }
    }

    /// The fields that are set, as a request has them.
    pub fn to_fields(&self) -> Map<String, Value> {
        // Through its digits: 0.7 stays 0.7.
        let number =
            |number: Option<f32>| Some(Value::from(number?.to_string().parse::<f64>().ok()?));
        let count = |count: Option<usize>| Some(Value::from(count?));
        let limit = |limit: Option<usize>| match limit {
            Some(NO_LIMIT) => Some((-1).into()),
            limit => count(limit),
        };
        let fields = [
            ("temperature", number(self.temperature)),
            ("top_p", number(self.top_p)),
            ("top_k", count(self.top_k)),
            ("min_p", number(self.min_p)),
            ("seed", self.seed.map(|seed| seed.cast_signed().into())),
            ("frequency_penalty", number(self.frequency_penalty)),
            ("presence_penalty", number(self.presence_penalty)),
            ("repeat_penalty", number(self.repeat_penalty)),
            ("xtc_probability", number(self.xtc_probability)),
            ("xtc_threshold", number(self.xtc_threshold)),
            ("repeat_last_n", limit(self.repeat_last_n)),
            ("max_tokens", limit(self.max_tokens)),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }

    fn sampling(&self) -> Sampling {
        let default = Sampling::default();
        Sampling {
            temperature: self.temperature.unwrap_or(default.temperature),
            top_p: self.top_p.unwrap_or(default.top_p),
            top_k: self.top_k.unwrap_or(default.top_k),
            min_p: self.min_p.unwrap_or(default.min_p),
            seed: self.seed.or(default.seed),
            frequency_penalty: self.frequency_penalty.unwrap_or(default.frequency_penalty),
            presence_penalty: self.presence_penalty.unwrap_or(default.presence_penalty),
            repeat_penalty: self.repeat_penalty.unwrap_or(default.repeat_penalty),
            xtc_probability: self.xtc_probability.unwrap_or(default.xtc_probability),
            xtc_threshold: self.xtc_threshold.unwrap_or(default.xtc_threshold),
            repeat_window: self.repeat_last_n.unwrap_or(default.repeat_window),
            ..default
        }
    }
}

#[derive(Clone, Debug)]
pub struct Shape {
    /// What the request sets; behind [`Shape::fill`] what others set, too.
    pub given: SamplingFields,
    pub sampling: Sampling,
    /// `None`: until the model ends the answer or the context is full.
    pub max_tokens: Option<usize>,
    /// No token and no text ends the answer before it has this number of tokens.
    pub min_tokens: usize,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    /// Tokens that end it.
    pub stop_tokens: BTreeSet<Token>,
    /// Behind this, from its first token on, the end of a line ends it.
    pub max_time_to_line: Option<Duration>,
    /// Texts whose tokens the answer may not have.
    pub bad_words: Vec<String>,
    pub choices: usize,
    /// Generate past end-of-generation tokens.
    pub ignore_eos: bool,
    pub stream: bool,
    /// Every chunk says how long the answer has taken so far.
    pub timings_per_token: bool,
    pub lora: Vec<WantedAdapter>,
    /// End the stream with a chunk that has the usage.
    pub include_usage: bool,
}

impl Shape {
    /// Whether to prefill the prompt and generate nothing.
    pub fn is_prewarm(&self) -> bool {
        self.max_tokens == Some(0)
    }

    /// Sets what the request leaves open: each field by the first of `others` that has it.
    pub fn fill(&mut self, others: &[&SamplingFields]) {
        let all = others.iter().fold(self.given.clone(), |all, other| all.or(other));
        let Sampling { logit_bias, allowed, .. } = std::mem::take(&mut self.sampling);
        self.sampling = Sampling { logit_bias, allowed, ..all.sampling() };
        self.max_tokens = all.max_tokens;
        self.given = all;
    }

    /// The field that limits which tokens the answer may have.
    pub fn limit_of_tokens(&self) -> Option<&'static str> {
        match (&self.sampling.allowed, self.bad_words.is_empty()) {
            (Some(_), _) => Some("allowed_token_ids"),
            (None, false) => Some("bad_words"),
            (None, true) => None,
        }
    }

    /// The field by which tokens, or their number, end the answer.
    pub fn end_by_tokens(&self) -> Option<&'static str> {
        match (self.min_tokens, self.stop_tokens.is_empty()) {
            (1.., _) => Some("min_tokens"),
            (0, false) => Some("stop_token_ids"),
            (0, true) => None,
        }
    }

    /// `vocabulary`: the number of tokens, the limit of those in `logit_bias`, `allowed_token_ids` and `stop_token_ids`.
    pub fn parse(fields: &Fields<'_>, vocabulary: usize) -> Result<Self, ApiError> {
        fields.string("model")?;
        let given = SamplingFields::parse(fields)?;
        Ok(Self {
            sampling: Sampling {
                logit_bias: logit_bias(fields, vocabulary)?,
                allowed: allowed_token_ids(fields, vocabulary)?,
                ..given.sampling()
            },
            max_tokens: given.max_tokens,
            min_tokens: min_tokens(fields, given.max_tokens)?,
            given,
            stop: stop(fields)?,
            stop_tokens: stop_token_ids(fields, vocabulary)?,
            max_time_to_line: max_time_to_line(fields)?,
            bad_words: bad_words(fields)?,
            choices: fields.integer("n", 1..=MAX_CHOICES)?.unwrap_or(1) as usize,
            ignore_eos: fields.boolean("ignore_eos")?.unwrap_or(false),
            stream: fields.boolean("stream")?.unwrap_or(false),
            timings_per_token: fields.boolean("timings_per_token")?.unwrap_or(false),
            lora: lora(fields)?,
            include_usage: include_usage(fields)?,
        })
    }
}

fn logit_bias(fields: &Fields<'_>, vocabulary: usize) -> Result<Vec<(Token, f32)>, ApiError> {
    if fields.get("logit_bias").is_some_and(asks_for_nothing) {
        return Ok(Vec::new());
    }
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

/// `max_completion_tokens` is the newer name, `n_predict` that of llama-server; the smallest counts.
pub(super) fn max_tokens(fields: &Fields<'_>) -> Result<Option<usize>, ApiError> {
    let mut smallest = None;
    for name in ["max_tokens", "max_completion_tokens", "n_predict"] {
        let limit = fields.integer(name, -1..=i64::from(i32::MAX))?;
        let limit = limit.map(|tokens| usize::try_from(tokens).unwrap_or(NO_LIMIT));
        smallest = smallest.into_iter().chain(limit).min();
    }
    Ok(smallest)
}

/// Any 64 bits. -1 is none: clients of llama-server and vLLM send it for an open one.
fn seed(fields: &Fields<'_>) -> Result<Option<u64>, ApiError> {
    let value = fields.get("seed").filter(|seed| whole(seed) != Some(-1));
    let Some(value) = value else { return Ok(None) };
    let bits = value.as_u64().or_else(|| whole(value).map(i64::cast_unsigned));
    bits.map(Some).ok_or_else(|| wrong_type(&fields.path("seed"), "an integer", value))
}

/// Under llama.cpp's name, or vLLM's.
fn repeat_penalty(fields: &Fields<'_>) -> Result<Option<f32>, ApiError> {
    let named = |name| fields.number(name, 0.1..=10.0);
    Ok(named("repeat_penalty")?.or(named("repetition_penalty")?))
}

/// -1: all tokens.
fn repeat_last_n(fields: &Fields<'_>) -> Result<Option<usize>, ApiError> {
    let tokens = fields.integer("repeat_last_n", -1..=i64::from(i32::MAX))?;
    Ok(tokens.map(|tokens| usize::try_from(tokens).unwrap_or(NO_LIMIT)))
}

fn stop(fields: &Fields<'_>) -> Result<Vec<String>, ApiError> {
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
    let mut read: Vec<String> = Vec::with_capacity(texts.len());
    for (n, text) in texts.iter().enumerate() {
        let path = if texts.len() == 1 { "stop".to_owned() } else { format!("stop[{n}]") };
        let text = text.as_str().ok_or_else(|| wrong_type(&path, "a string", text))?;
        if text.len() > MAX_STOP_BYTES {
            let message = format!("`{path}` may have {MAX_STOP_BYTES} bytes");
            return Err(ApiError::field(path, message));
        }
        if !text.is_empty() {
            read.push(text.to_owned());
        }
    }
    let bytes: usize = read.iter().map(String::len).sum();
    if bytes > MAX_STOPS_BYTES {
        let message = format!("`stop` may have {MAX_STOPS_BYTES} bytes in all, not {bytes}");
        return Err(ApiError::field("stop", message));
    }
    Ok(read)
}

/// llama-server's `t_max_predict_ms`, which its editors' plugins send. 0 and less: none.
fn max_time_to_line(fields: &Fields<'_>) -> Result<Option<Duration>, ApiError> {
    let millis = fields.integer("t_max_predict_ms", i64::MIN..=i64::MAX)?;
    let millis = millis.and_then(|millis| u64::try_from(millis).ok());
    Ok(millis.filter(|&millis| millis > 0).map(Duration::from_millis))
}

fn include_usage(fields: &Fields<'_>) -> Result<bool, ApiError> {
    let Some(options) = fields.get("stream_options") else { return Ok(false) };
    let options = Fields::of(options, "stream_options")?;
    Ok(options.boolean("include_usage")?.unwrap_or(false))
}

/// Whether a field can be ignored: clients write these values for their defaults.
fn asks_for_nothing(value: &Value) -> bool {
    match value {
        Value::String(text) => matches!(text.as_str(), "" | "none" | "auto"),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

/// Refuses fields that Hob would have to ignore.
pub fn refuse(fields: &Fields<'_>, names: &[(&'static str, &str)]) -> Result<(), ApiError> {
    for (name, why) in names {
        if fields.get(name).is_some_and(|value| !asks_for_nothing(value)) {
            return Err(unsupported(*name, format!("`{name}` is not supported: {why}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
    fn what_the_request_leaves_open_is_set_by_the_first_that_has_it() {
        let of = |value: Value| SamplingFields::parse_all(&value, "sampling").unwrap();
        let limits = json!({"temperature": 0.5, "logit_bias": {"1": 2}, "allowed_token_ids": [2]});
        let mut shape = parse(limits).unwrap();
        let conversation = of(json!({"temperature": 0.7, "top_p": 0.5, "max_tokens": 9}));
        shape.fill(&[&conversation, &of(json!({"top_p": 0.6, "top_k": 40}))]);
        let Sampling { temperature, top_p, top_k, min_p, .. } = shape.sampling;
        assert_eq!((temperature, top_p, top_k, min_p), (0.5, 0.5, 40, 0.0));
        assert_eq!((shape.max_tokens, shape.sampling.logit_bias.len()), (Some(9), 1));
        assert_eq!(shape.sampling.allowed, Some([Token(2)].into()));
        let set = json!({"temperature": 0.5, "top_p": 0.5, "top_k": 40, "max_tokens": 9});
        assert_eq!(Value::from(shape.given.to_fields()), set);
        let mut prewarm = parse(json!({"max_tokens": 0})).unwrap();
        prewarm.fill(&[&conversation]);
        assert!(prewarm.is_prewarm());
        for wrong in [json!({"top": 1}), json!({"max_tokens": 0}), json!({"seed": "x"}), json!([])]
        {
            assert!(SamplingFields::parse_all(&wrong, "sampling").is_err(), "{wrong}");
        }
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
            (json!({"repeat_last_n": -2}), "repeat_last_n"),
            (json!({"n": 0}), "n"),
            (json!({"n": 1000}), "n"),
            (json!({"max_tokens": -2}), "max_tokens"),
            (json!({"n_predict": 8.5}), "n_predict"),
            (json!({"seed": 1e300}), "seed"),
            (json!({"stop": [1]}), "stop"),
            (json!({"stop": ["a", 1]}), "stop[1]"),
            (json!({"stop": ["a", "b".repeat(1025)]}), "stop[1]"),
            (json!({"stop": vec!["a"; 513]}), "stop"),
            (json!({"stop": vec!["a".repeat(1024); 17]}), "stop"),
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
