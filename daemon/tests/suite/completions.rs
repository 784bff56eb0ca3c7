//! Completions of a text or of tokens, in OpenAI's format, and the routes that turn one into the other.

use serde_json::{Value, json};

use crate::common::World;

#[test]
fn completions_continue_texts_and_tokens() {
    let world = World::new();
    let ask = |prompt: Value, extra: Value| {
        let mut body =
            json!({"prompt": prompt, "temperature": 0, "max_tokens": 6, "ignore_eos": true});
        extra.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
        let answer = world.post("/v1/completions", body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let one = ask(json!("abc"), json!({"logprobs": 2}));
    assert_eq!(one["object"], "text_completion");
    assert_eq!(one["usage"]["prompt_tokens"], 3);
    let logprobs = &one["choices"][0]["logprobs"];
    for list in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(logprobs[list].as_array().unwrap().len(), 6, "{list}");
    }
    let tokens = world.post("/tokenize", json!({"content": "abc"})).json()["tokens"].clone();
    assert_eq!(ask(tokens, json!({}))["choices"][0]["text"], one["choices"][0]["text"]);

    let by_default = json!({"prompt": "abc", "ignore_eos": true});
    let by_default = world.post("/v1/completions", by_default).json();
    let (tokens, full) =
        (&by_default["usage"]["completion_tokens"], &by_default["hob"]["context_full"]);
    assert_eq!((tokens, full), (&json!(16), &json!(false)), "16 is the limit: {by_default}");

    let both = ask(json!(["abc", "xyz"]), json!({"n": 2}));
    assert_eq!(both["choices"].as_array().unwrap().len(), 4);
    assert_eq!(both["choices"][0]["text"], one["choices"][0]["text"]);
    assert_eq!(both["choices"][1]["text"], one["choices"][0]["text"]);
    assert_eq!(both["choices"][2]["text"], both["choices"][3]["text"]);
    assert_eq!(both["usage"]["prompt_tokens"], 6, "each prompt counts once");
}

#[test]
fn completions_are_streamed_too() {
    let world = World::new();
    let body = json!({"prompt": "abc", "temperature": 0, "max_tokens": 6, "stream": true});
    let chunks = world.call("POST", "/v1/completions").json(&body).stream().collect();
    let streamed: String = chunks.iter().filter_map(|c| c["choices"][0]["text"].as_str()).collect();
    let mut whole = body;
    whole["stream"] = false.into();
    let whole = world.post("/v1/completions", whole).json();
    assert_eq!(whole["choices"][0]["text"], streamed.as_str());
    assert!(chunks.last().unwrap()["hob"].is_object());
}

#[test]
fn texts_and_tokens_turn_into_each_other() {
    let world = World::new();
    let tokens = world.post("/tokenize", json!({"content": "a<|im_end|>é"})).json();
    assert_eq!(tokens["tokens"], json!([97, 257, 195, 169]));
    assert_eq!(world.post("/detokenize", tokens).json()["content"], "a<|im_end|>é");
    let plain = json!({"content": "<|im_end|>", "parse_special": false});
    assert_eq!(world.post("/tokenize", plain).json()["tokens"].as_array().unwrap().len(), 10);
}
