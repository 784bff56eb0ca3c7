//! The fields of a request that an engine gets: those of the client, without Hob's own.
//!
//! - What the client sends and Hob does not know goes on: it may mean something to the engine.
//! - Parameters under the name that the engine has for them.

use serde_json::{Map, Value, json};

use super::engine::EngineKind;

/// Fields that only Hob reads, and those that it sets itself.
const OWN: [&str; 29] = [
    "cache_prompt",
    "cache_salt",
    "compute",
    "conversation",
    "eliza",
    "evoke_pinned",
    "evoke_priority",
    "function_call",
    "functions",
    "hob",
    "id_slot",
    "keep_alive",
    "lora",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "n_predict",
    "promptCacheKey",
    "prompt_cache_key",
    "prompt_cache_retention",
    "providerOptions",
    "repetition_penalty",
    "return_progress",
    "store",
    "stream",
    "stream_options",
    "timings_per_token",
    "verbose",
];

/// The fields that a form can be demanded in, beside `response_format`, which every engine knows, and its options.
const FORMS: [(EngineKind, &[&str]); 3] = [
    (EngineKind::LlamaServer, &["json_schema", "grammar", "grammar_lazy"]),
    (EngineKind::Vllm, &["structured_outputs"]),
    (EngineKind::Sglang, &["regex", "ebnf"]),
];

/// The client's fields, and a stream with the usage at its end.
pub fn body_of(client: &Value) -> Map<String, Value> {
    let fields = client.as_object().into_iter().flatten();
    let fields = fields.filter(|(name, value)| !OWN.contains(&name.as_str()) && !value.is_null());
    let mut body: Map<_, _> = fields.map(|(name, value)| (name.clone(), value.clone())).collect();
    body.insert("stream".into(), true.into());
    body.insert("stream_options".into(), json!({"include_usage": true}));
    body
}

/// Whether the engine follows a form that is demanded in `field`.
pub fn follows(kind: EngineKind, field: &str) -> bool {
    let root = field.split('.').next().unwrap_or_default();
    let own = FORMS.iter().find(|(of, _)| *of == kind).map_or(&[][..], |(_, fields)| fields);
    root == "response_format" || kind == EngineKind::Hob || own.contains(&root)
}

/// Whether the engine has vLLM's fields `allowed_token_ids` and `bad_words`.
pub fn limits_tokens(kind: EngineKind) -> bool {
    matches!(kind, EngineKind::Vllm | EngineKind::Hob)
}

/// Whether the engine has vLLM's fields `min_tokens` and `stop_token_ids`.
pub fn ends_by_tokens(kind: EngineKind) -> bool {
    matches!(kind, EngineKind::Vllm | EngineKind::Sglang | EngineKind::Hob)
}

/// Whether the engine has llama-server's field `t_max_predict_ms`.
pub fn limits_time(kind: EngineKind) -> bool {
    matches!(kind, EngineKind::LlamaServer | EngineKind::Hob)
}

/// Writes the parameters in the engine's own way.
pub fn suit(body: &mut Value, kind: EngineKind) {
    let Some(body) = body.as_object_mut() else { return };
    if !matches!(kind, EngineKind::LlamaServer | EngineKind::Hob)
        && let Some(penalty) = body.shift_remove("repeat_penalty")
    {
        body.insert("repetition_penalty".into(), penalty);
    }
    for name in ["max_tokens", "max_completion_tokens"] {
        if body.get(name).and_then(Value::as_i64) != Some(-1) {
            continue;
        }
        match kind {
            EngineKind::LlamaServer | EngineKind::Hob => {}
            // Without the field it generates 16 tokens of a completion.
            EngineKind::Vllm => body[name] = Value::Null,
            EngineKind::Sglang | EngineKind::Other => _ = body.shift_remove(name),
        }
    }
    // 0 is all tokens in llama.cpp alone, -1 everywhere.
    if body.get("top_k").and_then(Value::as_i64) == Some(0) {
        body.insert("top_k".into(), (-1).into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hobs_own_fields_stay_here_and_unknown_ones_go_on() {
        let client = json!({
            "model": "m", "conversation": "diary", "hob": {"append": true}, "top_k": 3,
            "min_tokens": 5, "user": null, "stream": false, "promptCacheKey": "x",
        });
        let body = body_of(&client);
        let names: Vec<&str> = body.keys().map(String::as_str).collect();
        assert_eq!(names, ["model", "top_k", "min_tokens", "stream", "stream_options"]);
        assert_eq!(body["stream"], true);
    }

    #[test]
    fn parameters_have_the_engines_names() {
        let suited = |kind| {
            let mut body = json!({"max_tokens": -1, "repeat_penalty": 1.1, "top_k": 0});
            suit(&mut body, kind);
            body
        };
        let vllm = json!({"max_tokens": null, "repetition_penalty": 1.1, "top_k": -1});
        assert_eq!(suited(EngineKind::Vllm), vllm);
        let llama = json!({"max_tokens": -1, "repeat_penalty": 1.1, "top_k": -1});
        assert_eq!(suited(EngineKind::LlamaServer), llama);
        let other = json!({"repetition_penalty": 1.1, "top_k": -1});
        assert_eq!(suited(EngineKind::Other), other);
    }

    #[test]
    fn a_form_is_demanded_in_the_fields_that_the_engine_has() {
        assert!(follows(EngineKind::Other, "response_format.json_schema.schema"));
        assert!(follows(EngineKind::LlamaServer, "grammar"));
        assert!(follows(EngineKind::Vllm, "structured_outputs.regex"));
        assert!(!follows(EngineKind::Vllm, "grammar"));
        assert!(!follows(EngineKind::Other, "regex"));
    }

    #[test]
    fn only_engines_that_have_them_get_limits_of_tokens() {
        assert!(limits_tokens(EngineKind::Vllm) && limits_tokens(EngineKind::Hob));
        assert!(!limits_tokens(EngineKind::LlamaServer) && !limits_tokens(EngineKind::Sglang));
        assert!(!limits_tokens(EngineKind::Other));
        for kind in [EngineKind::Vllm, EngineKind::Sglang, EngineKind::Hob] {
            assert!(ends_by_tokens(kind), "{kind:?}");
        }
        assert!(!ends_by_tokens(EngineKind::LlamaServer) && !ends_by_tokens(EngineKind::Other));
        assert!(limits_time(EngineKind::LlamaServer) && limits_time(EngineKind::Hob));
        assert!(!limits_time(EngineKind::Vllm) && !limits_time(EngineKind::Other));
    }
}
