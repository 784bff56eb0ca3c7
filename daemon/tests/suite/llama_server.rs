//! llama-server's routes. Its own tests run against a built hobd in `tests/llama_server`.

use serde_json::{Value, json};

use crate::common::{Plan, World, merged, text, user};

const COMPLETION: &str = "/completion";

fn body(prompt: Value, extra: Value) -> Value {
    let body = json!({"prompt": prompt, "n_predict": 4, "temperature": 0, "ignore_eos": true});
    merged(body, &extra)
}

fn complete(world: &World, prompt: Value, extra: Value) -> Value {
    let answer = world.post(COMPLETION, body(prompt, extra));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// The objects of a stream, which ends without `[DONE]`.
fn events(world: &World, prompt: Value, extra: Value) -> Vec<Value> {
    let mut body = body(prompt, extra);
    body["stream"] = true.into();
    let answer = world.post(COMPLETION, body);
    let text = answer.text();
    text.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

#[test]
fn a_completion_has_llama_servers_fields() {
    let world = World::new();
    let answer = complete(&world, json!("abc"), json!({"seed": 7, "return_tokens": true}));
    assert_eq!((&answer["stop"], &answer["stop_type"]), (&json!(true), &json!("limit")));
    assert_eq!(answer["tokens"].as_array().unwrap().len(), 4);
    assert_eq!((&answer["tokens_evaluated"], &answer["tokens_predicted"]), (&json!(3), &json!(4)));
    assert_eq!((&answer["prompt"], &answer["truncated"]), (&json!("abc"), &json!(false)));
    let settings = &answer["generation_settings"];
    assert_eq!((&settings["seed"], &settings["n_predict"]), (&json!(7), &json!(4)));
    let biases = settings["logit_bias"].as_array().unwrap();
    assert!(!biases.is_empty() && biases.iter().all(|it| it["bias"].is_null()), "{biases:?}");
    let timings = &answer["timings"];
    let prompt = timings["prompt_n"].as_u64().unwrap() + timings["cache_n"].as_u64().unwrap();
    assert_eq!((prompt, &timings["predicted_n"]), (3, &json!(4)));

    let chosen = json!({"response_fields": ["content", "generation_settings/n_predict"]});
    let chosen = complete(&world, json!("abc"), chosen);
    let expected = json!({"content": answer["content"], "generation_settings/n_predict": 4});
    assert_eq!(chosen, expected);
}

#[test]
fn a_stream_has_the_same_text_and_ends_with_the_figures() {
    let world = World::new();
    let whole = complete(&world, json!("abc"), json!({}));
    let events = events(&world, json!("abc"), json!({"n_probs": 2, "timings_per_token": true}));
    let (last, pieces) = events.split_last().unwrap();
    let text: String = pieces.iter().filter_map(|event| event["content"].as_str()).collect();
    assert_eq!(text, whole["content"].as_str().unwrap());
    assert!(pieces.iter().all(|event| event["stop"] == false && event["timings"].is_object()));
    let token = &pieces[0]["completion_probabilities"][0];
    assert_eq!(token["top_logprobs"].as_array().unwrap().len(), 2);
    assert_eq!((&last["stop"], &last["tokens_predicted"]), (&json!(true), &json!(4)));
}

#[test]
fn a_prompt_is_a_text_a_row_of_tokens_and_texts_or_a_list_of_these() {
    let world = World::new();
    let tokens = world.post("/tokenize", json!({"content": "abc"})).json()["tokens"].clone();
    let text = complete(&world, json!("abc"), json!({}))["content"].clone();
    let row = json!([tokens[0], "bc"]);
    for prompt in [tokens.clone(), row.clone(), json!({"prompt_string": "abc"})] {
        assert_eq!(complete(&world, prompt.clone(), json!({}))["content"], text, "{prompt}");
    }
    let all = complete(&world, json!([tokens, "abc", row]), json!({}));
    let contents: Vec<_> = all.as_array().unwrap().iter().map(|it| &it["content"]).collect();
    assert_eq!(contents, [&text, &text, &text]);
    let image = json!({"prompt_string": "a", "multimodal_data": ["x"]});
    let refused = world.post(COMPLETION, body(image, json!({})));
    assert_eq!(refused.error()["param"], "prompt.multimodal_data");
}

#[test]
fn probabilities_are_those_of_the_sampling_if_they_are_asked_for() {
    let world = World::new();
    let wishes = json!({"n_probs": 5, "post_sampling_probs": true, "temperature": 0});
    let greedy = complete(&world, json!("abc"), wishes);
    let tokens = greedy["completion_probabilities"].as_array().unwrap();
    assert!(!tokens.is_empty());
    for token in tokens {
        assert_eq!(
            (&token["prob"], token["top_probs"].as_array().unwrap().len()),
            (&json!(1.0), 1)
        );
    }
}

#[test]
fn a_bias_names_tokens_or_texts() {
    let world = World::new();
    let free = complete(&world, json!("abc"), json!({"n_predict": 1, "return_tokens": true}));
    let token = free["tokens"][0].clone();
    for bias in [json!([[token, -100]]), json!([[token, false]]), json!({token.to_string(): -100})]
    {
        let extra = json!({"n_predict": 1, "return_tokens": true, "logit_bias": bias});
        assert_ne!(complete(&world, json!("abc"), extra)["tokens"][0], token, "{bias}");
    }
    let by_text = json!({"logit_bias": [["a", 100], ["b", 90]], "n_predict": 1});
    assert_eq!(complete(&world, json!("x"), by_text)["content"], "a");
}

#[test]
fn what_cannot_be_followed_is_refused_under_llama_servers_names() {
    let world = Plan::new().context_tokens(64).start();
    for (extra, param) in [
        (json!({"t_max_predict_ms": "x"}), "t_max_predict_ms"),
        (json!({"n_predict": "x"}), "n_predict"),
        (json!({"n_probs": 50}), "n_probs"),
        (json!({"logit_bias": [1]}), "logit_bias[0]"),
        (json!({"response_fields": [1]}), "response_fields[0]"),
        (json!({"grammar": "none"}), "grammar"),
    ] {
        let refused = world.post(COMPLETION, body(json!("a"), extra.clone()));
        assert_eq!((refused.status, &refused.error()["param"]), (400, &json!(param)), "{extra}");
    }
}

#[test]
fn an_answer_whose_time_is_over_ends_with_its_line() {
    let world = World::new();
    // A token each 10 ms.
    let question = "Say this slowly: ab\ncd\nef";
    let prompt = format!("<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n");
    let fields = json!({"n_predict": -1, "t_max_predict_ms": 1});
    let ended = complete(&world, json!(prompt), fields);
    assert_eq!(ended["content"], "ab\n");
    assert_eq!((&ended["stop_type"], &ended["truncated"]), (&json!("limit"), &json!(false)));

    let asked = json!({"messages": [user(question)], "temperature": 0});
    for (millis, said, reason) in [
        (1, "ab", "length"),
        (3_600_000, "ab\ncd\nef", "stop"),
        (0, "ab\ncd\nef", "stop"),
        (-1, "ab\ncd\nef", "stop"),
    ] {
        let body = merged(asked.clone(), &json!({"t_max_predict_ms": millis}));
        let answer = world.post("/v1/chat/completions", body).json();
        assert_eq!(text(&answer).trim_end(), said, "{millis}: {answer}");
        assert_eq!(answer["choices"][0]["finish_reason"], reason, "{millis}");
        assert_eq!(answer["hob"]["context_full"], false, "{millis}");
    }
}

#[test]
fn completions_without_v1_are_openais_where_they_name_a_model() {
    let world = World::new();
    let own = world.post("/completions", body(json!("abc"), json!({}))).json();
    assert!(own["content"].is_string() && own.get("choices").is_none(), "{own}");
    let openais = world.post("/completions", body(json!("abc"), json!({"model": "any"}))).json();
    assert_eq!(openais["object"], "text_completion");
    assert_eq!(openais["timings"]["predicted_n"], 4);
}

#[test]
fn a_cold_completion_reuses_nothing() {
    let world = World::new();
    let prompt = json!("word ".repeat(40));
    complete(&world, prompt.clone(), json!({}));
    let cold = complete(&world, prompt, json!({"cache_prompt": false}));
    assert_eq!(cold["timings"]["cache_n"], 0, "{cold}");
}

#[test]
fn props_and_slots_say_what_runs() {
    let world = Plan::new().slots(3).start();
    let props = world.get("/props").json();
    assert_eq!((&props["total_slots"], &props["is_sleeping"]), (&json!(3), &json!(false)));
    let n_ctx = &props["default_generation_settings"]["n_ctx"];
    let slots = world.get("/slots").json();
    let slots = slots.as_array().unwrap();
    assert_eq!(slots.len(), 3);
    assert!(slots.iter().all(|slot| slot["n_ctx"] == *n_ctx && slot["is_processing"] == false));
}

#[test]
fn a_slot_is_saved_under_a_file_name_restored_into_another_and_erased() {
    let world = World::new();
    let act = |slot: u32, action: &str, body: Value| {
        world.post(&format!("/slots/{slot}?action={action}"), body)
    };
    let text = "The boats lay side by side until the tide came in. ".repeat(4);
    let first = complete(&world, json!(text), json!({"id_slot": 7}));
    assert_eq!(first["id_slot"], 7);
    let saved = act(7, "save", json!({"filename": "boats.bin"}));
    assert_eq!(saved.status, 200, "{}", saved.text());
    let saved = saved.json()["n_saved"].clone();
    assert!(saved.as_u64().unwrap() > text.len() as u64, "{saved}: the answer is saved, too");

    let erased = act(7, "erase", json!({}));
    assert_eq!((erased.status, &erased.json()["n_erased"]), (200, &saved), "{}", erased.text());
    let restored = act(8, "restore", json!({"filename": "boats.bin"})).json();
    assert_eq!((&restored["n_restored"], &restored["id_slot"]), (&saved, &json!(8)), "{restored}");
    let longer = complete(&world, json!(format!("{text}And then")), json!({"id_slot": 8}));
    assert!(longer["timings"]["cache_n"].as_u64().unwrap() >= text.len() as u64, "{longer}");

    act(8, "erase", json!({}));
    let unknown = act(8, "restore", json!({"filename": "other.bin"}));
    assert_eq!(unknown.error()["code"], "file_not_found");
}

#[test]
fn what_a_request_without_a_name_left_in_a_slot_is_saved_under_a_file_name_and_restored() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = Plan::new().directory(directory.path()).start();
    let act = |world: &World, slot: &Value, action: &str, body: Value| {
        world.post(&format!("/slots/{slot}?action={action}"), body)
    };
    let text = "The boats lay side by side until the tide came in. ".repeat(4);
    let slot = complete(&world, json!(text), json!({}))["id_slot"].clone();
    for action in ["save", "erase"] {
        let refused = act(&world, &slot, action, json!({}));
        assert_eq!((refused.status, &refused.error()["code"]), (409, &json!("slot_unnamed")));
    }
    let saved = act(&world, &slot, "save", json!({"filename": "boats.bin"}));
    assert_eq!(saved.status, 200, "{}", saved.text());
    let saved = saved.json()["n_saved"].clone();
    assert!(saved.as_u64().unwrap() > text.len() as u64, "{saved}: the answer is saved, too");
    world.stop();
    drop(world);

    let world = Plan::new().directory(directory.path()).start();
    let restored = act(&world, &json!(8), "restore", json!({"filename": "boats.bin"})).json();
    assert_eq!((&restored["n_restored"], &restored["id_slot"]), (&saved, &json!(8)), "{restored}");
    let longer = complete(&world, json!(format!("{text}And then")), json!({"id_slot": 8}));
    assert!(longer["timings"]["cache_n"].as_u64().unwrap() >= text.len() as u64, "{longer}");
}

#[test]
fn a_private_request_leaves_nothing_in_its_slot_to_save() {
    let world = World::new();
    let private = json!({"hob": {"private": true}});
    let slot = complete(&world, json!("The code of the boat is 4711."), private)["id_slot"].clone();
    let path = format!("/slots/{slot}?action=save");
    let refused = world.post(&path, json!({"filename": "boats.bin"}));
    assert_eq!((refused.status, &refused.error()["code"]), (409, &json!("slot_unnamed")));
}

#[test]
fn an_action_on_a_slot_names_what_is_wrong_with_it() {
    let world = World::new();
    let act = |path: &str, body: Value| world.post(&format!("/slots/{path}"), body).error().clone();
    assert_eq!(act("0?action=move", json!({}))["param"], "action");
    assert_eq!(act("99?action=save", json!({}))["param"], "id");
    assert_eq!(act("0?action=restore", json!({}))["param"], "filename");
    assert_eq!(act("0?action=save", json!({"filename": "../token"}))["param"], "filename");
    let named = complete(&world, json!("abc"), json!({"conversation": "chat"}));
    let slot = named["id_slot"].to_string();
    assert_eq!(act(&format!("{slot}?action=erase"), json!({}))["code"], "slot_owned");
    let saved = world.post(&format!("/slots/{slot}?action=save"), json!({}));
    assert_eq!(saved.status, 200, "{}", saved.text());
}

#[test]
fn tokens_come_with_their_pieces() {
    let world = World::new();
    let pieces = world.post("/tokenize", json!({"content": "aé", "with_pieces": true})).json();
    let expected = json!([
        {"id": 97, "piece": "a"}, {"id": 195, "piece": [195]}, {"id": 169, "piece": [169]},
    ]);
    assert_eq!(pieces["tokens"], expected);
    let count = json!({"messages": [user("Hi")]});
    let count = world.post("/v1/chat/completions/input_tokens", count).json();
    assert!(count["input_tokens"].as_u64().unwrap() > 2, "{count}");
}

#[test]
fn a_reranker_orders_texts_by_their_scores() {
    let world = Plan::new().ranks().start();
    let ask = json!({"query": "q", "documents": ["a", "zz", "m"]});
    let answer = world.post("/v1/rerank", ask).json();
    let results = answer["results"].as_array().unwrap();
    let scores: Vec<_> = results.iter().map(|it| it["relevance_score"].as_f64().unwrap()).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "{answer}");
    assert_eq!((results.len(), &answer["usage"]["prompt_tokens"]), (3, &json!(7)));
    let ask = json!({"query": "q", "texts": ["a", "zz"], "top_n": 1, "return_text": true});
    let tei = world.post("/rerank", ask).json();
    assert_eq!(tei.as_array().unwrap().len(), 1);
    let best = tei[0]["index"].as_u64().unwrap() as usize;
    assert_eq!(tei[0]["text"], ["a", "zz"][best]);
    for documents in [json!([]), json!([1]), json!("a")] {
        let refused = world.post("/rerank", json!({"query": "q", "documents": documents}));
        assert_eq!(refused.status, 400);
    }
    let embed = world.post("/v1/embeddings", json!({"input": "a"}));
    assert_eq!(embed.error()["code"], "unsupported_model");
    let others = World::new().post("/v1/rerank", json!({"query": "q", "documents": ["a"]}));
    let error = others.error();
    assert_eq!(error["code"], "unsupported_model");
    assert!(error["message"].as_str().unwrap().contains("reranker"), "{error}");
}

#[test]
fn embeddings_take_llama_servers_forms() {
    let world = Plan::new().embeds().start();
    let own = world.post("/embedding", json!({"content": ["a", {"prompt_string": "b"}]})).json();
    assert_eq!(own[1]["index"], 1);
    let vector = own[1]["embedding"][0].clone();
    let parts = json!({"content": [{"type": "text", "text": "b"}]});
    let openais = world.post("/v1/embeddings", json!({"input": [parts, [97, "b"]]})).json();
    assert_eq!(openais["data"][0]["embedding"], vector);
    let wrong = world.post("/v1/embeddings", json!({"input": {"content": "b"}}));
    assert_eq!(wrong.error()["param"], "input.content");
}

#[test]
fn a_prompt_that_is_too_long_is_refused_with_its_numbers() {
    let world = Plan::new().embeds().context_tokens(1024).start();
    let long = world.post("/v1/embeddings", json!({"input": "a".repeat(5000)}));
    let error = long.error();
    assert_eq!(error["type"], "exceed_context_size_error", "{error}");
    assert_eq!(error["n_prompt_tokens"], 5000);
    assert!(error["message"].as_str().unwrap().contains("too large"), "{error}");
}

#[test]
fn infill_needs_a_model_with_the_marks() {
    let body =
        json!({"input_prefix": "a", "input_suffix": "b", "input_extra": [{"filename": "c"}]});
    let refused = World::new().post("/infill", body);
    assert_eq!(refused.error()["param"], "input_extra[0].text");
    let body = json!({"input_prefix": "a", "input_suffix": "b"});
    assert_eq!(World::new().post("/infill", body).status, 501);
}
