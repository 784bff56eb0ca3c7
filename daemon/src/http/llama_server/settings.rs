//! `generation_settings`: how the answer was sampled. What Hob has not is written as switched off.

use hob_runtime::Vocabulary;
use hob_runtime::sample::Sampling;
use serde_json::{Value, json};

use super::request::AnswerFields;
use crate::chat::answer::Answer;
use crate::wire::completion::CompletionRequest;
use crate::wire::sampling::Shape;

/// llama-server's seed of a request that leaves it open.
const ANY_SEED: u64 = u32::MAX as u64;

/// In the order in which they are applied.
const SAMPLERS: [&str; 7] =
    ["logit_bias", "penalties", "top_k", "top_p", "min_p", "xtc", "temperature"];

pub fn settings(
    request: &CompletionRequest,
    answer_fields: &AnswerFields,
    answer: &Answer,
) -> Value {
    let shape = &request.shape;
    let mut settings = of_sampling(&shape.sampling);
    let limit = shape.max_tokens.and_then(|max| i32::try_from(max).ok());
    let limit = limit.filter(|max| *max != i32::MAX).unwrap_or(-1);
    let more = json!({
        "max_tokens": limit,
        "n_predict": limit,
        "ignore_eos": shape.ignore_eos,
        "stream": shape.stream,
        "stop": shape.stop,
        "logit_bias": logit_bias(shape, answer.vocabulary()),
        "n_probs": answer_fields.n_probs,
        "post_sampling_probs": answer_fields.as_probabilities,
        "timings_per_token": answer_fields.timings_per_token,
    });
    if let (Value::Object(settings), Value::Object(more)) = (&mut settings, more) {
        settings.extend(more);
    }
    settings
}

/// The part that `/props` has, too.
pub fn of_sampling(sampling: &Sampling) -> Value {
    json!({
        "seed": sampling.seed.unwrap_or(ANY_SEED),
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "repeat_last_n": repeat_last_n(sampling.repeat_window),
        "repeat_penalty": sampling.repeat_penalty,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "samplers": SAMPLERS,
        "dynatemp_range": 0.0,
        "top_n_sigma": -1.0,
        "xtc_probability": sampling.xtc_probability,
        "xtc_threshold": sampling.xtc_threshold,
        "typical_p": 1.0,
        "dry_multiplier": 0.0,
        "mirostat": 0,
        "adaptive_target": -1.0,
        "adaptive_decay": 0.0,
        "n_keep": 0,
        "n_discard": 0,
        "min_keep": 0,
    })
}

/// -1: all tokens.
fn repeat_last_n(window: usize) -> i32 {
    i32::try_from(window).ok().filter(|window| *window != i32::MAX).unwrap_or(-1)
}

/// Null stands for minus infinity: with `ignore_eos` no token ends the answer.
fn logit_bias(shape: &Shape, vocabulary: &Vocabulary) -> Value {
    let given = shape.sampling.logit_bias.iter();
    let given = given.map(|(token, bias)| json!({"token": token.0, "bias": bias}));
    let ends = if shape.ignore_eos { vocabulary.eog_tokens() } else { &[] };
    let ends = ends.iter().map(|token| json!({"token": token.0, "bias": null}));
    given.chain(ends).collect()
}
