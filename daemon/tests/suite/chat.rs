//! Chat answers in OpenAI's format, complete and streamed.

use serde_json::{Value, json};

use crate::common::{Plan, World, assistant, text, user};

fn hi() -> Value {
    json!([user("Hi")])
}

#[test]
fn a_complete_answer_has_openais_shape_and_reports_where_its_prompt_came_from() {
    let world = World::new();
    let answer = world.chat(hi(), json!({"conversation": "a"}));
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["model"], "fake");
    assert_eq!(answer["choices"][0]["message"]["role"], "assistant");
    assert!(["stop", "length"].contains(&answer["choices"][0]["finish_reason"].as_str().unwrap()));

    let (usage, hob) = (&answer["usage"], &answer["hob"]);
    let place = |name: &str| hob["tokens"][name].as_u64().unwrap();
    let sum: u64 =
        ["shared", "memory", "disk", "away", "moved", "computed"].map(place).iter().sum();
    assert_eq!(usage["prompt_tokens"], sum);
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], sum - place("computed"));
    let fields: Vec<_> = hob.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        fields,
        [
            "conversation",
            "cache_key",
            "message",
            "parent",
            "slot",
            "left_out",
            "recalled",
            "reanchored",
            "context_full",
            "cold",
            "tokens",
            "immovable",
            "cells",
            "moved",
            "ahead",
            "drafts",
            "restore_ms",
            "ttft_ms",
            "total_ms",
            "tokens_per_second",
            "saved_ms",
            "miss",
            "explanation"
        ]
    );
    assert_eq!((&hob["conversation"], &hob["miss"]), (&json!("a"), &Value::Null));
    assert!(hob["slot"].is_u64() && hob["ttft_ms"].as_f64().unwrap() > 0.0);
}

#[test]
fn an_answer_says_which_message_it_is_and_which_it_answers() {
    let world = World::new();
    let whole = world.chat(hi(), json!({"conversation": "a"}));
    let chunks = world.stream(hi(), json!({"conversation": "a"})).collect();
    let stored = world.conversation("a");
    let ids: Vec<_> =
        stored["messages"].as_array().unwrap().iter().map(|m| m["id"].clone()).collect();
    assert_eq!((&whole["hob"]["message"], &whole["hob"]["parent"]), (&ids[1], &ids[0]));
    let first = json!({"conversation": "a", "message": ids[2], "parent": ids[0]});
    assert_eq!(chunks[0]["hob"], first, "the first chunk carries the ids");
    let last = chunks.last().unwrap();
    assert_eq!((&last["hob"]["message"], &last["hob"]["parent"]), (&ids[2], &ids[0]));
    assert_eq!(
        world.chat(hi(), json!({}))["hob"]["message"],
        Value::Null,
        "an anonymous answer has no message id"
    );
}

#[test]
fn saved_ms_is_the_reused_tokens_at_the_measured_speed() {
    let world = Plan::new().pace(std::time::Duration::from_micros(200)).start();
    let long = json!([user(&"word ".repeat(50))]);
    let cold = world.chat(long.clone(), json!({"conversation": "a"}));
    assert_eq!(cold["hob"]["saved_ms"], Value::Null, "the first turn reuses no tokens");
    let warm = world.chat(long, json!({"conversation": "a"}));
    let speed = world.get("/v1/status").json()["prefill_tokens_per_second"].as_f64().unwrap();
    let reused = warm["usage"]["prompt_tokens_details"]["cached_tokens"].as_f64().unwrap();
    let saved = warm["hob"]["saved_ms"].as_f64().unwrap();
    assert!(
        (saved - reused / speed * 1e3).abs() < 1.0,
        "{saved} ms for {reused} tokens at {speed} tokens/s"
    );
}

#[test]
fn saved_ms_is_reported_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let start = || {
        let pace = std::time::Duration::from_micros(200);
        Plan::new().pace(pace).directory(directory.path()).start()
    };
    let extra = json!({"conversation": "a", "hob": {"append": true}});
    let mut world = start();
    world.chat(json!([user(&"word ".repeat(50))]), extra.clone());
    world.stop();
    drop(world); // The speed is written behind the answer.
    let world = start();
    let answer = world.chat(json!([]), extra);
    let measured = &world.get("/v1/status").json()["prefill_tokens_per_second"];
    assert_eq!(*measured, Value::Null, "too few tokens were computed to measure the speed");
    assert!(answer["hob"]["tokens"]["disk"].as_u64().unwrap() > 50, "{answer}");
    assert!(answer["hob"]["saved_ms"].as_f64().unwrap() > 0.0, "{answer}");
}

#[test]
fn a_stream_has_the_same_content_as_a_complete_answer() {
    let world = World::new();
    let whole = world.chat(hi(), json!({"seed": 5, "temperature": 1.0, "max_tokens": 30}));
    let chunks =
        world.stream(hi(), json!({"seed": 5, "temperature": 1.0, "max_tokens": 30})).collect();

    assert_eq!(chunks[0]["choices"][0]["delta"], json!({"role": "assistant", "content": null}));
    let streamed: String =
        chunks.iter().filter_map(|c| c["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(streamed, text(&whole));
    let last = chunks.last().unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], whole["choices"][0]["finish_reason"]);
    assert!(last["hob"]["tokens"].is_object());
    assert!(chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk"));
    assert!(chunks.iter().all(|chunk| chunk["id"] == chunks[0]["id"]));
    assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()));
    assert_eq!(chunks.iter().filter(|chunk| chunk.get("hob").is_some()).count(), 1);
}

#[test]
fn usage_is_a_last_chunk_of_its_own_on_request() {
    let world = World::new();
    let wanted = json!({"stream_options": {"include_usage": true}});
    let mut chunks = world.stream(hi(), wanted).collect();
    let last = chunks.pop().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert!(last["usage"]["total_tokens"].is_u64() && last["hob"]["tokens"].is_object());
    assert!(chunks.iter().all(|chunk| chunk["usage"].is_null() && chunk.get("hob").is_none()));
    assert!(chunks.last().unwrap()["choices"][0]["finish_reason"].is_string());
}

#[test]
fn an_answer_ends_before_its_stop_text() {
    let world = World::new();
    let free = text(&world.chat(hi(), json!({"max_tokens": 40, "ignore_eos": true})));
    let stop: String = free.chars().skip(3).take(2).collect();
    let answer = world.chat(hi(), json!({"max_tokens": 40, "ignore_eos": true, "stop": stop}));
    assert_eq!(text(&answer), free.split(&stop).next().unwrap());
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
}

#[test]
fn a_request_for_zero_tokens_computes_only_the_prompt() {
    let world = World::new();
    let answer = world.chat(hi(), json!({"max_tokens": 0, "conversation": "warm"}));
    assert_eq!(
        (text(&answer).as_str(), answer["usage"]["completion_tokens"].as_u64()),
        ("", Some(0))
    );
    let again = world.chat(hi(), json!({"conversation": "warm"}));
    assert!(again["hob"]["tokens"]["computed"].as_u64().unwrap() <= 1);
}

#[test]
fn further_choices_share_the_cells_of_the_first() {
    let world = World::new();
    let prompt = json!([user(&"context ".repeat(40))]);
    let answer = world.chat(prompt, json!({"n": 3, "temperature": 1.5, "conversation": "n"}));
    let choices = answer["choices"].as_array().unwrap();
    let indices: Vec<_> = choices.iter().map(|choice| choice["index"].as_u64().unwrap()).collect();
    assert_eq!(indices, [0, 1, 2]);
    let counters = world.status().counters;
    let prompt_tokens = answer["usage"]["prompt_tokens"].as_u64().unwrap();
    assert!(counters.computed_tokens < prompt_tokens + 10, "{counters:?}");
    let stored = world.conversation("n")["messages"].as_array().unwrap().len();
    assert_eq!(stored, 2, "the conversation keeps the first choice");
}

#[test]
fn the_stored_usage_is_that_of_the_first_choice() {
    let world = World::new();
    for seed in 1..=6 {
        let name = format!("seed-{seed}");
        let extra = json!({"n": 3, "seed": seed, "temperature": 1, "max_tokens": 40,
            "logprobs": true, "conversation": name});
        let answer = world.chat(json!([user("Tell me something.")]), extra);
        let first = &answer["choices"][0];
        let shown = first["logprobs"]["content"].as_array().unwrap().len();
        // The token that ends an answer is not shown.
        let own = shown + usize::from(first["finish_reason"] == "stop");
        let stored = world.conversation(&name)["messages"][1]["finish"]["usage"].clone();
        assert_eq!(stored["completion_tokens"], own, "{name}");
        assert_eq!(stored["prompt_tokens"], answer["usage"]["prompt_tokens"], "{name}");
    }
}

#[test]
fn choices_are_streamed_side_by_side() {
    let chunks =
        World::new().stream(hi(), json!({"n": 2, "stream_options": {"include_usage": true}}));
    let chunks = chunks.collect();
    for index in 0..2 {
        let of = |chunk: &&Value| chunk["choices"][0]["index"] == index;
        assert_eq!(chunks.iter().find(of).unwrap()["choices"][0]["delta"]["role"], "assistant");
        assert!(chunks.iter().rfind(of).unwrap()["choices"][0]["finish_reason"].is_string());
    }
    assert_eq!(chunks.last().unwrap()["choices"], json!([]));
}

#[test]
fn log_probabilities_have_openais_shape() {
    let world = World::new();
    let extra = json!({"logprobs": true, "top_logprobs": 3, "max_tokens": 5, "ignore_eos": true});
    let answer = world.chat(hi(), extra.clone());
    let content = answer["choices"][0]["logprobs"]["content"].as_array().unwrap().clone();
    assert_eq!(content.len(), 5);
    for token in &content {
        assert!(token["logprob"].as_f64().unwrap() <= 0.0);
        assert_eq!(token["top_logprobs"].as_array().unwrap().len(), 3);
        assert_eq!(
            token["top_logprobs"][0]["token"], token["token"],
            "greedy sampling picks the most likely token"
        );
        assert!(token["bytes"].is_array());
    }
    let chunks = world.stream(hi(), extra).collect();
    let streamed: Vec<Value> = chunks
        .iter()
        .flat_map(|c| {
            c["choices"][0]["logprobs"]["content"].as_array().cloned().unwrap_or_default()
        })
        .collect();
    assert_eq!(streamed, content);
    assert_eq!(world.chat(hi(), json!({}))["choices"][0]["logprobs"], Value::Null);
}

#[test]
fn an_answer_in_json_is_json_of_the_schema() {
    let world = World::new();
    let schema = json!({
        "type": "object",
        "properties": {"ok": {"type": "boolean"}, "n": {"enum": [1, 2, 3]}},
        "required": ["ok", "n"],
        "additionalProperties": false,
    });
    let format =
        json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}});
    for seed in 0..5 {
        let extra =
            json!({"response_format": format, "max_tokens": 400, "seed": seed, "temperature": 1.0});
        let answer = world.chat(hi(), extra);
        let value: Value = serde_json::from_str(&text(&answer)).unwrap();
        assert!(value["ok"].is_boolean() && (1..=3).contains(&value["n"].as_u64().unwrap()));
        assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    }
}

#[test]
fn a_required_call_is_parsed_in_complete_and_streamed_answers() {
    let world = World::new();
    let parameters = json!({
        "type": "object", "properties": {"on": {"type": "boolean"}},
        "required": ["on"], "additionalProperties": false,
    });
    let tool = json!({"type": "function", "function": {"name": "light", "parameters": parameters}});
    let extra = json!({"tools": [tool], "tool_choice": {"type": "function", "function": {"name": "light"}},
        "max_tokens": 400, "conversation": "t"});
    let answer = world.chat(hi(), extra.clone());
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls", "{answer}");
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!((&call["type"], &call["function"]["name"]), (&json!("function"), &json!("light")));
    let arguments = call["function"]["arguments"].as_str().unwrap();
    assert!(serde_json::from_str::<Value>(arguments).unwrap()["on"].is_boolean());
    assert_eq!(choice["message"]["content"], Value::Null);

    let chunks = world.stream(hi(), extra.clone()).collect();
    let pieces: Vec<&Value> =
        chunks.iter().filter_map(|c| c["choices"][0]["delta"]["tool_calls"].get(0)).collect();
    assert!(pieces[0]["id"].is_string() && pieces[0]["function"]["name"] == "light");
    let streamed: String =
        pieces.iter().filter_map(|p| p["function"]["arguments"].as_str()).collect();
    assert!(serde_json::from_str::<Value>(&streamed).unwrap()["on"].is_boolean());

    // The tool result is sent back and the conversation continues.
    let result = json!({"role": "tool", "tool_call_id": call["id"], "content": "done"});
    let history = json!([user("Hi"), choice["message"], result]);
    let mut follow_up = extra;
    follow_up["tool_choice"] = "none".into();
    let follow = world.chat(history, follow_up);
    assert!(follow["usage"]["prompt_tokens"].as_u64() > answer["usage"]["prompt_tokens"].as_u64());
    assert_eq!(world.conversation("t")["messages"][1]["tool_calls"][0]["id"], call["id"]);
}

#[test]
fn a_bias_and_a_seed_are_heeded() {
    let world = World::new();
    let x = world.post("/tokenize", json!({"content": "x"})).json()["tokens"][0].to_string();
    let only_x = world.chat(hi(), json!({"logit_bias": {x: 100}, "max_tokens": 4}));
    assert_eq!(text(&only_x), "xxxx");
    let drawn = |seed: u64| text(&world.chat(hi(), json!({"seed": seed, "temperature": 1.0})));
    assert_eq!(drawn(1), drawn(1));
}

#[test]
fn a_developer_and_text_parts_are_understood() {
    let world = World::new();
    let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    let in_parts =
        json!([{"role": "developer", "content": "Be brief."}, {"role": "user", "content": parts}]);
    let plain = json!([{"role": "system", "content": "Be brief."}, user("a\nb")]);
    assert_eq!(text(&world.chat(in_parts, json!({}))), text(&world.chat(plain, json!({}))));
}

#[test]
fn the_text_of_a_prompt_is_shown_and_nothing_is_stored() {
    let world = World::new();
    let question = json!({"role": "user", "content": "Now?"});
    let prompt = |body: Value| {
        let answer = world.post("/apply-template", body).json();
        answer["prompt"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    };
    let alone = prompt(json!({"messages": [question]}));
    assert!(alone.contains("Now?") && alone.ends_with("assistant\n"), "{alone}");

    let said = json!({"conversation": "a", "messages": [{"role": "user", "content": "Before"}]});
    world.post("/v1/chat/completions", said).json();
    // Of the list its length alone: a line tells where the KV is, which moves by itself.
    let stored = || {
        let messages = world.get("/v1/conversations/a").json()["messages"].clone();
        let list = world.get("/v1/conversations").json();
        (messages, list["data"].as_array().unwrap().len())
    };
    let before = stored();
    assert_eq!((before.0.as_array().map(Vec::len), before.1), (Some(2), 1));
    let behind =
        prompt(json!({"conversation": "a", "hob": {"append": true}, "messages": [question]}));
    assert!(behind.contains("Before") && behind.contains("Now?"), "{behind}");
    let named = world.call("POST", "/apply-template").header("X-Session-Id", "a");
    let named = named.json(&json!({"hob": {"append": true}, "messages": [question]})).send();
    assert_eq!(named.json()["prompt"], behind);
    assert_eq!(stored(), before);

    let unknown = json!({"role": "user", "content": "x", "hob": {"documents": ["0".repeat(64)]}});
    for (messages, status) in [(json!("Now?"), 400), (json!([unknown]), 404)] {
        let refused = world.post("/apply-template", json!({"messages": messages}));
        assert_eq!(refused.status, status, "{messages}");
    }
}

#[test]
fn an_embedding_model_embeds_and_does_not_chat() {
    let world = Plan::new().embeds().start();
    let answer = world.post("/v1/embeddings", json!({"input": ["a", "b"], "model": "fake"}));
    let answer = answer.json();
    assert_eq!(answer["data"][1]["index"], 1);
    let vector = answer["data"][0]["embedding"].as_array().unwrap();
    let length: f64 = vector.iter().map(|value| value.as_f64().unwrap().powi(2)).sum();
    assert!((length - 1.0).abs() < 1e-3);
    assert_eq!(answer["usage"]["prompt_tokens"], 2);
    let refused = world.post("/v1/chat/completions", json!({"messages": hi()}));
    assert_eq!(
        (refused.status, refused.error()["code"].as_str()),
        (400, Some("unsupported_model"))
    );
}

#[test]
fn models_are_listed_by_the_name_that_finds_them() {
    let world = World::new();
    let list = world.get("/v1/models").json();
    let id = list["data"][0]["id"].as_str().unwrap();
    assert_eq!(world.get(&format!("/v1/models/{id}")).json(), list["data"][0]);
}

#[test]
fn an_anonymous_request_is_not_saved() {
    let world = World::new();
    world.chat(json!([user("a"), assistant("b"), user("c")]), json!({}));
    assert_eq!(world.get("/v1/conversations").json()["data"], json!([]));
    assert_eq!(world.chat(hi(), json!({}))["hob"]["conversation"], Value::Null);
}

#[test]
fn metrics_count_requests_and_tokens() {
    let world = World::new();
    world.chat(hi(), json!({"conversation": "m"}));
    world.post("/v1/chat/completions", json!({}));
    let answer = world.get("/metrics");
    assert!(answer.header("content-type").unwrap().starts_with("text/plain"));
    let page = answer.text();
    for line in [
        "hob_requests_total{route=\"/v1/chat/completions\",status=\"200\"} 1",
        "hob_requests_total{route=\"/v1/chat/completions\",status=\"400\"} 1",
        "hob_prompt_tokens_total{place=\"disk\"} 0",
        "hob_restore_full_prefill_total 0",
        "hob_ttft_seconds_count 1",
        "hob_queue_length 0",
        "hob_slots_in_use 1",
        "hob_slots 4",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
    }
}
