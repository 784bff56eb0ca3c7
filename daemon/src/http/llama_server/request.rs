//! llama-server's fields in OpenAI's form, and back in the errors that name them.
//!
//! - What only llama-server's further samplers know (`mirostat`, `dry_multiplier`, …) is ignored, and the settings
//!   in the answer say that it is off.

use serde_json::{Map, Value, json};

use crate::chat::Chat;
use crate::error::ApiError;
use crate::http::translation::{self, behind, copied};
use crate::wire::fields::{Fields, whole, wrong_type};

/// Further fields that mean the same here as for OpenAI's routes.
const PASSED_ON: [&str; 21] = [
    "conversation",
    "frequency_penalty",
    "min_p",
    "model",
    "n",
    "post_sampling_probs",
    "presence_penalty",
    "repeat_last_n",
    "repeat_penalty",
    "repetition_penalty",
    "return_progress",
    "stop",
    "store",
    "stream",
    "t_max_predict_ms",
    "temperature",
    "timings_per_token",
    "top_k",
    "top_p",
    "xtc_probability",
    "xtc_threshold",
];

/// The strongest bias: a token is never, or always, chosen.
const MAX_BIAS: f64 = 100.0;

/// What the form of the answer depends on.
#[derive(Clone, Debug, Default)]
pub struct AnswerFields {
    /// How many of the likeliest tokens each token reports; 0: none.
    pub n_probs: usize,
    /// Probabilities instead of their logarithms.
    pub as_probabilities: bool,
    pub returns_tokens: bool,
    /// Paths of the fields that the answer has; empty: all.
    pub response_fields: Vec<String>,
    pub timings_per_token: bool,
    /// The slot that the request names.
    pub id_slot: Option<i64>,
}

/// The body of a completion that means the same. `prompt`: in OpenAI's form.
///
/// # Errors
/// Names the field that Hob cannot read or follow.
pub async fn translated(
    chat: &Chat,
    fields: &Fields<'_>,
    prompt: Value,
) -> Result<(Value, AnswerFields), ApiError> {
    let mut body = copied(fields, &PASSED_ON);
    body.insert("prompt".into(), prompt);
    let tokens = fields.integer("n_predict", -2..=i64::from(i32::MAX))?;
    let tokens = tokens.or(fields.integer("max_tokens", -1..=i64::from(i32::MAX))?);
    body.insert("max_tokens".into(), tokens.unwrap_or(-1).max(-1).into());
    // -1 asks for another one each time, which is the default.
    if let Some(seed) = fields.get("seed").filter(|seed| whole(seed) != Some(-1)) {
        body.insert("seed".into(), seed.clone());
    }
    if let Some(biases) = fields.get("logit_bias") {
        body.insert("logit_bias".into(), logit_bias(chat, biases).await?);
    }
    if fields.boolean("cache_prompt")? == Some(false)
        && let Value::Object(hob) = body.entry("hob").or_insert_with(|| json!({}))
    {
        hob.entry("cold").or_insert_with(|| true.into());
    }
    let answer_fields = answer_fields(fields)?;
    if answer_fields.n_probs > 0 {
        body.insert("logprobs".into(), answer_fields.n_probs.into());
    }
    Ok((body.into(), answer_fields))
}

fn answer_fields(fields: &Fields<'_>) -> Result<AnswerFields, ApiError> {
    let n_probs = fields.integer("n_probs", 0..=20)?.unwrap_or(0) as usize;
    let mut response_fields = Vec::new();
    for (n, field) in fields.list("response_fields")?.into_iter().flatten().enumerate() {
        let path = format!("response_fields[{n}]");
        let field = field.as_str().ok_or_else(|| wrong_type(&path, "a string", field))?;
        response_fields.push(field.to_owned());
    }
    Ok(AnswerFields {
        n_probs,
        as_probabilities: fields.boolean("post_sampling_probs")?.unwrap_or(false),
        returns_tokens: fields.boolean("return_tokens")?.unwrap_or(false),
        response_fields,
        timings_per_token: fields.boolean("timings_per_token")?.unwrap_or(false),
        id_slot: fields.integer("id_slot", -1..=i64::from(i32::MAX))?.filter(|&id| id >= 0),
    })
}

/// Biases by token. llama-server takes an object or a list of pairs, tokens or texts, numbers or `false`.
async fn logit_bias(chat: &Chat, biases: &Value) -> Result<Value, ApiError> {
    let pairs: Vec<(Value, &Value, String)> = match biases {
        Value::Object(map) => {
            let path = |name: &str| format!("logit_bias.{}", name.escape_debug());
            map.iter().map(|(name, bias)| (name.as_str().into(), bias, path(name))).collect()
        }
        Value::Array(list) => list.iter().enumerate().map(pair).collect::<Result<_, _>>()?,
        other => return Err(wrong_type("logit_bias", "an object or an array of pairs", other)),
    };
    let mut by_token = Map::new();
    for (token, bias, path) in pairs {
        let bias = match bias {
            Value::Bool(false) => -MAX_BIAS,
            bias => bias.as_f64().ok_or_else(|| wrong_type(&path, "a number or false", bias))?,
        };
        let bias = json!(bias.clamp(-MAX_BIAS, MAX_BIAS));
        match &token {
            // A key of an object is a token where it is a number.
            Value::String(number) if number.parse::<i32>().is_ok() => {
                by_token.insert(number.clone(), bias);
            }
            Value::String(text) => {
                let tokens = chat.tokenize(text.clone(), false, true, &path).await?;
                by_token.extend(tokens.into_iter().map(|it| (it.0.to_string(), bias.clone())));
            }
            token => {
                let id = whole(token);
                let id = id.ok_or_else(|| wrong_type(&path, "a token or a text", token))?;
                by_token.insert(id.to_string(), bias);
            }
        }
    }
    Ok(by_token.into())
}

fn pair((n, entry): (usize, &Value)) -> Result<(Value, &Value, String), ApiError> {
    let path = format!("logit_bias[{n}]");
    match entry.as_array().map(Vec::as_slice) {
        Some([token, bias]) => Ok((token.clone(), bias, path)),
        _ => Err(wrong_type(&path, "a token or a text, and its bias", entry)),
    }
}

/// The error in llama-server's words and with its names of the fields.
pub fn renamed(error: ApiError) -> ApiError {
    const NAMES: [(&str, &str); 2] = [("max_tokens", "n_predict"), ("logprobs", "n_probs")];
    let mut error = translation::renamed(error, |param| {
        let mut names = NAMES.iter();
        names.find_map(|(from, to)| Some(format!("{to}{}", behind(param, from)?)))
    });
    if let Some(overflow) = error.overflow {
        error.message = format!(
            "request ({} tokens) exceeds the available context size ({} tokens). {}",
            overflow.prompt_tokens, overflow.context_tokens, error.message
        );
    }
    error
}
