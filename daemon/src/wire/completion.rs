//! `/v1/completions`: the request, checked.

use std::num::NonZeroUsize;

use hob_slots::content::Accepted;
use hob_slots::{Token, TtlClass};
use serde_json::Value;

use super::fields::{Fields, unsupported, wrong_type};
use super::form::{AnswerForm, answer_form};
use super::hob::{
    budget, check_of_completion, cold, draft, in_memory, private, progress, reuse, ttl, unstored,
};
use super::sampling::Shape;
use super::tokens::tokens;
use crate::error::ApiError;

/// OpenAI's default of this endpoint.
pub const DEFAULT_TOKENS: usize = 16;

const MAX_PROMPTS: usize = 64;
const MAX_LOGPROBS: i64 = 20;

#[derive(Clone, Debug)]
pub struct CompletionRequest {
    /// At least one.
    pub prompts: Vec<Prompt>,
    /// The text behind the one that is generated; never empty.
    pub suffix: Option<String>,
    pub shape: Shape,
    /// What the continuation must be; `None`: any text.
    pub form: Option<AnswerForm>,
    /// `Some(n)`: report log-probabilities, and those of the `n` likeliest tokens.
    pub logprobs: Option<usize>,
    /// The log-probabilities are those after penalties, filters and temperature.
    pub logprobs_of_sampling: bool,
    /// Cells that each continuation may have at any time; `None`: those of the cache.
    pub budget: Option<NonZeroUsize>,
    /// Whether KV that was computed at another place may be used.
    pub reuse: Option<Accepted>,
    /// Tokens of the answer may be guessed, where the settings allow it.
    pub draft: bool,
    /// The TTL class of the saved KV.
    pub ttl: Option<TtlClass>,
    /// Whether the KV must stay in memory; `None`: as before.
    pub in_memory: Option<bool>,
    pub private: bool,
    pub unstored: bool,
    /// Reuse no KV for this answer.
    pub cold: bool,
    /// The stream says how far the prompt is.
    pub progress: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// May contain control tokens.
    Text(String),
    Tokens(Vec<Token>),
}

impl Prompt {
    /// As a request has it.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Tokens(tokens) => tokens.iter().map(|token| token.0).collect(),
        }
    }
}

impl CompletionRequest {
    /// `vocabulary`: the number of tokens.
    pub fn parse(body: &Value, vocabulary: usize) -> Result<Self, ApiError> {
        let fields = Fields::of_body(body)?;
        check_of_completion(&fields)?;
        if fields.boolean("echo")?.unwrap_or(false) {
            return Err(unsupported("echo", "`echo` is not supported: the caller has the prompt"));
        }
        let shape = Shape::parse(&fields, vocabulary)?;
        if fields.integer("best_of", 1..=128)?.is_some_and(|best| best as usize != shape.choices) {
            return Err(unsupported("best_of", "`best_of` is not supported beyond `n`"));
        }
        let prompts = prompts(fields.required("prompt")?, "prompt", vocabulary, MAX_PROMPTS)?;
        let logprobs = fields.integer("logprobs", 0..=MAX_LOGPROBS)?.map(|top| top as usize);
        let suffix = fields.string("suffix")?.filter(|text| !text.is_empty()).map(str::to_owned);
        if suffix.is_some() && !prompts.iter().all(|prompt| matches!(prompt, Prompt::Text(_))) {
            return Err(unsupported("suffix", "`suffix` needs a `prompt` of text, not of tokens"));
        }
        let (cold, progress) = (cold(&fields)?, progress(&fields)?);
        Ok(Self {
            prompts,
            suffix,
            shape,
            form: answer_form(&fields)?,
            logprobs,
            logprobs_of_sampling: fields.boolean("post_sampling_probs")?.unwrap_or(false),
            budget: budget(&fields)?,
            reuse: reuse(&fields)?,
            draft: draft(&fields)?.unwrap_or(true),
            ttl: ttl(&fields)?,
            in_memory: in_memory(&fields)?,
            private: private(&fields)?,
            unstored: unstored(&fields)?,
            cold,
            progress,
        })
    }
}

/// A text, some texts, tokens, or some lists of tokens; `max` at most.
pub fn prompts(
    value: &Value,
    path: &str,
    vocabulary: usize,
    max: usize,
) -> Result<Vec<Prompt>, ApiError> {
    match value {
        Value::String(text) => Ok(vec![Prompt::Text(text.clone())]),
        Value::Array(list) if list.is_empty() => {
            Err(ApiError::field(path, format!("`{path}` must not be empty")))
        }
        Value::Array(list) if list.iter().all(Value::is_number) => {
            Ok(vec![Prompt::Tokens(tokens(list, path, vocabulary)?)])
        }
        Value::Array(list) if list.len() > max => {
            let message = format!("`{path}` may have {max} entries, not {}", list.len());
            Err(ApiError::field(path, message))
        }
        Value::Array(list) => {
            let each = list.iter().enumerate();
            each.map(|(n, entry)| prompt(entry, &format!("{path}[{n}]"), vocabulary)).collect()
        }
        other => Err(wrong_type(path, "a string, an array of strings, or tokens", other)),
    }
}

fn prompt(value: &Value, path: &str, vocabulary: usize) -> Result<Prompt, ApiError> {
    match value {
        Value::String(text) => Ok(Prompt::Text(text.clone())),
        Value::Array(list) => Ok(Prompt::Tokens(tokens(list, path, vocabulary)?)),
        other => Err(wrong_type(path, "a string or an array of tokens", other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_prompt_has_four_forms() {
        let text = |text: &str| Prompt::Text(text.to_owned());
        let ids = |ids: &[i32]| Prompt::Tokens(ids.iter().copied().map(Token).collect());
        for (value, expected) in [
            (json!("a"), vec![text("a")]),
            (json!(["a", "b"]), vec![text("a"), text("b")]),
            (json!([1, 2]), vec![ids(&[1, 2])]),
            (json!([[1], [2, 3]]), vec![ids(&[1]), ids(&[2, 3])]),
        ] {
            assert_eq!(prompts(&value, "prompt", 10, 2).unwrap(), expected, "{value}");
        }
    }

    #[test]
    fn each_wrong_value_is_named() {
        for (body, param) in [
            (json!({}), "prompt"),
            (json!({"prompt": []}), "prompt"),
            (json!({"prompt": {}}), "prompt"),
            (json!({"prompt": [1, 10]}), "prompt[1]"),
            (json!({"prompt": [1, -1]}), "prompt[1]"),
            (json!({"prompt": [[1], true]}), "prompt[1]"),
            (json!({"prompt": [[1, 2.5]]}), "prompt[0][1]"),
            (json!({"prompt": "a", "echo": true}), "echo"),
            (json!({"prompt": [1], "suffix": "b"}), "suffix"),
            (json!({"prompt": "a", "suffix": ["b"]}), "suffix"),
            (json!({"prompt": "a", "best_of": 3}), "best_of"),
            (json!({"prompt": "a", "logprobs": true}), "logprobs"),
            (json!({"prompt": "a", "hob": {"draft": "off"}}), "hob.draft"),
            (json!({"prompt": "a", "prompt_cache_retention": "1w"}), "prompt_cache_retention"),
        ] {
            let error = CompletionRequest::parse(&body, 10).expect_err(&body.to_string());
            assert_eq!(error.param.as_deref(), Some(param), "{body}");
        }
    }
}
