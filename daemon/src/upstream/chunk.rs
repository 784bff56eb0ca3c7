//! A chunk of a streamed chat or completion, of any engine.

use serde_json::Value;

/// Tokens, as the engine counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub prompt: usize,
    /// Tokens of the prompt that it reused.
    pub cached: usize,
    /// Tokens of all choices.
    pub completion: usize,
    /// The part of `completion` that is reasoning.
    pub reasoning: usize,
}

/// A token and its natural-log probability.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprob {
    pub bytes: Vec<u8>,
    pub logprob: f32,
}

/// A chosen token, and the likeliest in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprobs {
    pub chosen: Logprob,
    pub top: Vec<Logprob>,
}

/// What a chunk says of one choice.
#[derive(Debug, Default, PartialEq)]
pub struct Part {
    pub choice: usize,
    pub content: String,
    pub reasoning: String,
    /// In OpenAI's form of streamed calls.
    pub tool_calls: Vec<Value>,
    pub logprobs: Vec<TokenLogprobs>,
    pub finish_reason: Option<String>,
    /// The stop text that ended it.
    pub stop_text: Option<String>,
}

pub fn parts(chunk: &Value) -> Vec<Part> {
    let choices = chunk["choices"].as_array().into_iter().flatten();
    choices.map(part).collect()
}

fn part(choice: &Value) -> Part {
    let delta = &choice["delta"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let content = if delta.is_object() { text(&delta["content"]) } else { text(&choice["text"]) };
    // The second is vLLM's newer name.
    let reasoning =
        ["reasoning_content", "reasoning"].into_iter().find_map(|it| delta[it].as_str());
    Part {
        choice: choice["index"].as_u64().unwrap_or(0) as usize,
        content,
        reasoning: reasoning.unwrap_or_default().to_owned(),
        tool_calls: delta["tool_calls"].as_array().cloned().unwrap_or_default(),
        logprobs: logprobs(&choice["logprobs"]),
        finish_reason: choice["finish_reason"].as_str().map(str::to_owned),
        stop_text: choice["stop_reason"].as_str().map(str::to_owned),
    }
}

/// Log-probabilities of a chat, or of a completion, which has lists instead of objects.
fn logprobs(value: &Value) -> Vec<TokenLogprobs> {
    if let Some(content) = value["content"].as_array() {
        let of_token = |token: &Value| TokenLogprobs {
            chosen: logprob(token),
            top: token["top_logprobs"].as_array().into_iter().flatten().map(logprob).collect(),
        };
        return content.iter().map(of_token).collect();
    }
    let tokens = value["tokens"].as_array().into_iter().flatten().enumerate();
    let of_token = |(n, token): (usize, &Value)| TokenLogprobs {
        chosen: written(token.as_str().unwrap_or_default(), &value["token_logprobs"][n]),
        top: value["top_logprobs"][n]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(token, logprob)| written(token, logprob))
            .collect(),
    };
    tokens.map(of_token).collect()
}

fn logprob(token: &Value) -> Logprob {
    let bytes = token["bytes"].as_array().map(|bytes| {
        bytes.iter().filter_map(|byte| u8::try_from(byte.as_u64()?).ok()).collect::<Vec<u8>>()
    });
    let written = written(token["token"].as_str().unwrap_or_default(), &token["logprob"]);
    Logprob { bytes: bytes.unwrap_or(written.bytes), ..written }
}

fn written(token: &str, logprob: &Value) -> Logprob {
    Logprob { bytes: token.as_bytes().to_vec(), logprob: logprob.as_f64().unwrap_or(0.0) as f32 }
}

/// `None`: the chunk has none.
pub fn usage(chunk: &Value) -> Option<Usage> {
    let usage = &chunk["usage"];
    let count =
        |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64).map(|it| it as usize);
    // llama-server counts what it reused beside the usage.
    let beside = || chunk["timings"]["cache_n"].as_u64().map(|count| count as usize);
    let cached = count("/prompt_tokens_details/cached_tokens").or_else(beside);
    Some(Usage {
        prompt: count("/prompt_tokens")?,
        cached: cached.unwrap_or(0),
        completion: count("/completion_tokens").unwrap_or(0),
        reasoning: count("/completion_tokens_details/reasoning_tokens").unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn chunks_of_chats_and_of_completions_are_read() {
        let call = json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}});
        let chunk = json!({"choices": [
            {"index": 1, "delta": {"content": "Hi", "reasoning": "so", "tool_calls": [call]}},
            {"index": 0, "text": "Ho", "finish_reason": "stop", "stop_reason": "###"},
        ]});
        let read = parts(&chunk);
        let expected = Part {
            choice: 1,
            content: "Hi".into(),
            reasoning: "so".into(),
            tool_calls: vec![call],
            ..Part::default()
        };
        assert_eq!(read[0], expected);
        assert_eq!((read[1].content.as_str(), read[1].stop_text.as_deref()), ("Ho", Some("###")));
        assert_eq!(read[1].finish_reason.as_deref(), Some("stop"));
        assert_eq!(parts(&json!({"choices": [], "usage": null})), []);
    }

    #[test]
    fn log_probabilities_have_two_forms() {
        let chat = json!({"content": [{"token": "a", "logprob": -0.5, "bytes": [97],
            "top_logprobs": [{"token": "b", "logprob": -1.0}]}]});
        let completion = json!({"tokens": ["a"], "token_logprobs": [-0.5],
            "top_logprobs": [{"b": -1.0}]});
        assert_eq!(logprobs(&chat), logprobs(&completion));
        assert_eq!(logprobs(&chat)[0].top[0].bytes, b"b");
        assert_eq!(logprobs(&Value::Null), []);
    }

    #[test]
    fn what_was_reused_is_counted_in_the_usage_or_beside_it() {
        let usage_of = |chunk: Value| usage(&chunk).map(|usage| (usage.prompt, usage.cached));
        let counted = json!({"prompt_tokens": 9, "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": 5}});
        assert_eq!(usage_of(json!({"usage": counted})), Some((9, 5)));
        let bare = json!({"prompt_tokens": 9, "completion_tokens": 2});
        assert_eq!(usage_of(json!({"usage": bare, "timings": {"cache_n": 4}})), Some((9, 4)));
        assert_eq!(usage_of(json!({"usage": null})), None);
    }
}
