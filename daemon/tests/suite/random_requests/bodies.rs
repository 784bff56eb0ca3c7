//! Bodies: those that a route takes, with changes, and any JSON; `files` has those that are no JSON.

use serde_json::{Value, json};

use super::random::Random;
use super::{files, protocols};

/// Of conversations.
pub const NAMES: [&str; 3] = ["a", "b", "chat-1"];

/// Its type and its bytes.
pub fn body(random: &mut Random, route: &str) -> (&'static str, Vec<u8>) {
    if !random.one_in(5)
        && let Some(file) = files::body(random, route)
    {
        return file;
    }
    let kinds =
        ["application/json", "application/json", "application/json", "text/plain", "audio/wav"];
    (*random.among(&kinds), json(random, route))
}

fn json(random: &mut Random, route: &str) -> Vec<u8> {
    let mut body = if random.one_in(5) { random.value(4) } else { valid(random, route) };
    changed(random, &mut body)
}

/// As JSON, with a few changes.
pub fn changed(random: &mut Random, value: &mut Value) -> Vec<u8> {
    for _ in 0..random.below(4) {
        random.change(value);
    }
    serde_json::to_vec(value).expect("a value is JSON")
}

/// Of an answer, or of the arguments of a call.
pub fn schema() -> Value {
    json!({"type": "object", "properties": {"at": {"type": "integer"}}, "required": ["at"]})
}

/// Of the route that it is for, most of the time.
fn valid(random: &mut Random, route: &str) -> Value {
    let name = random.among(&NAMES);
    let messages = json!([
        {"role": "system", "content": "You are brief."},
        {"role": "user", "content": [{"type": "text", "text": "Say this: one two"}], "hob": {"key": "k"}},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"at\": 1}"}}
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": "nothing"},
        {"role": "user", "content": "Say this: three"},
    ]);
    match route {
        _ if route.starts_with("/v1/messages") => protocols::anthropic(random),
        _ if route.starts_with("/v1/responses") => protocols::responses(random),
        "/api/chat" | "/api/generate" => protocols::ollama(random, route),
        _ if route.contains("completions") && route.contains("chat") => json!({
            "model": "fake", "messages": messages, "max_tokens": 8, "stream": random.one_in(2),
            "temperature": 0.5, "top_p": 0.9, "n": 2, "stop": ["x"], "seed": 7, "logit_bias": {"5": -1},
            "logprobs": true, "top_logprobs": 2, "conversation": name, "prompt_cache_key": "k",
            "tools": [{"type": "function", "function": {"name": "look", "parameters": schema()}}],
            "tool_choice": "auto", "response_format": {"type": "json_object"},
            "hob": {"append": random.one_in(2), "budget": 1_000, "private": false,
                    "profile": random.one_in(8).then_some("default")},
        }),
        "/v1/completions" => json!({
            "prompt": ["Once", [104, 105]], "max_tokens": 4, "suffix": random.one_in(8).then_some("end"),
            "echo": false, "logprobs": 1,
        }),
        "/completion" | "/completions" => json!({
            "prompt": [[104, "one", 105], {"prompt_string": "two"}], "n_predict": 4, "n_probs": 2,
            "post_sampling_probs": true, "return_tokens": true, "logit_bias": [[104, -1], ["x", false]],
            "response_fields": ["content", "generation_settings/seed"], "cache_prompt": false,
            "stream": random.one_in(2), "timings_per_token": true, "seed": -1,
        }),
        "/infill" => json!({
            "input_prefix": "a", "input_suffix": "b", "prompt": "c", "n_predict": 4,
            "input_extra": [{"filename": "d", "text": "e"}],
        }),
        _ if route.contains("rerank") => {
            json!({"query": "one", "documents": ["two", "three"], "top_n": 1})
        }
        "/v1/embeddings" => {
            json!({"input": ["one", "two"], "dimensions": 8, "encoding_format": "base64"})
        }
        "/v1/prewarm" => {
            json!({"conversation": name, "wait": false, "compute": true, "messages": messages})
        }
        "/tokenize" => json!({"content": "one two", "add_special": true, "with_pieces": true}),
        "/detokenize" => json!({"tokens": [104, 105]}),
        "/slots/{id}" => json!({"filename": random.among(&["a.bin", "b.bin", "../c", ""])}),
        "/v1/settings" => json!({"idle_unload": "10m"}),
        "/v1/documents" => json!({"name": "a.txt", "text": "one two three"}),
        _ => json!({
            "model": "fake", "messages": messages, "input": "one", "prompt": "two", "content": "three",
            "conversation": name, "title": "A title", "head": 1, "pinned": true, "class": "short",
            "tools": [], "max_tokens": 4, "text": "four", "sampling": {"temperature": 0.1}, "bytes": 1,
        }),
    }
}
