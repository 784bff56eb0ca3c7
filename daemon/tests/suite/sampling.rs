//! Sampling parameters of a conversation and of a profile, and templates that clients share.

use serde_json::{Value, json};

use crate::common::{Plan, World, merged, text, user};

const ROOM: &str = "/v1/conversations/room";

fn tokens(answer: &Value) -> u64 {
    answer["usage"]["completion_tokens"].as_u64().unwrap()
}

/// An answer whose length shows which limit applied.
fn answer(world: &World, hob: Value, extra: Value) -> u64 {
    let hob = merged(json!({"append": true}), &hob);
    let messages = json!([user("Say this: abcdefghijklmnop")]);
    let body = json!({"conversation": "room", "messages": messages, "hob": hob});
    let answer = world.post("/v1/chat/completions", merged(body, &extra));
    assert_eq!(answer.status, 200, "{}", answer.text());
    tokens(&answer.json())
}

fn set(world: &World, sampling: Value) -> Value {
    world.call("PATCH", ROOM).json(&json!({ "sampling": sampling })).send().json()
}

#[test]
fn the_request_the_conversation_the_profile_and_the_clients_defaults_count_in_this_order() {
    let world = World::new();
    let profile =
        "[sampling]\nmax_tokens = 6\n[[segment]]\nlayer = \"rules\"\ntext = \"Be brief.\"\n";
    world.profile("brief", profile);
    world.reload();
    let brief = json!({"profile": "brief", "defaults": {"max_tokens": 8}});
    let plain = json!({"defaults": {"max_tokens": 8}});
    assert_eq!(answer(&world, plain.clone(), json!({})), 8);
    assert_eq!(answer(&world, brief.clone(), json!({})), 6);
    let changed = set(&world, json!({"max_tokens": 4, "seed": 7, "top_k": null}));
    assert_eq!(changed["sampling"], json!({"max_tokens": 4, "seed": 7}));
    assert_eq!(answer(&world, brief.clone(), json!({})), 4);
    assert_eq!(answer(&world, brief.clone(), json!({"max_tokens": 2})), 2);
    assert_eq!(world.get(ROOM).json()["sampling"]["seed"], 7);
    assert_eq!(set(&world, json!({}))["sampling"], Value::Null);
    assert_eq!(answer(&world, plain, json!({})), 8);
    let status = world.get("/v1/status").json();
    assert_eq!(status["profiles"][0]["sampling"], json!({"max_tokens": 6}));
}

#[test]
fn a_seed_of_the_conversation_repeats_an_answer() {
    let world = World::new();
    let ask = || {
        let body = json!({"conversation": "room", "hob": {"append": true}, "max_tokens": 12,
            "messages": [user("Tell me something.")]});
        let said = world.post("/v1/chat/completions", body).json();
        world.call("DELETE", &format!("{ROOM}/messages/{}", said["hob"]["parent"])).send();
        said["choices"][0]["message"]["content"].clone()
    };
    ask();
    set(&world, json!({"seed": 7, "temperature": 2}));
    assert_eq!(ask(), ask());
}

#[test]
fn the_models_file_counts_where_nobody_else_sets_a_parameter() {
    let world = Plan::new().recommends(&[("max_tokens", 7.0), ("temperature", 0.0)]).start();
    let status = world.get("/v1/status").json();
    assert_eq!(status["sampling"], json!({"max_tokens": 7, "temperature": 0}));
    assert_eq!(answer(&world, json!({}), json!({})), 7);
    assert_eq!(answer(&world, json!({"defaults": {"max_tokens": 6}}), json!({})), 6);
    set(&world, json!({"max_tokens": 4}));
    assert_eq!(answer(&world, json!({}), json!({})), 4);

    let completed = world.post("/v1/completions", json!({"prompt": "abc"})).json();
    assert_eq!(tokens(&completed), 7);
    let drawn = |seed: u64, extra: Value| {
        let mut body = json!({"messages": [user("Tell me something.")], "seed": seed});
        body["temperature"] = extra;
        text(&world.post("/v1/chat/completions", body).json())
    };
    let greedy = drawn(1, Value::Null);
    assert!((2..20).all(|seed| drawn(seed, Value::Null) == greedy));
    assert!((2..20).any(|seed| drawn(seed, json!(2)) != greedy), "a request sets another");
}

#[test]
fn xtc_of_the_models_file_counts_until_a_request_sets_another() {
    let world = Plan::new().recommends(&[("xtc_probability", 1.0), ("xtc_threshold", 0.0)]).start();
    let status = world.get("/v1/status").json();
    assert_eq!(status["sampling"], json!({"xtc_probability": 1, "xtc_threshold": 0}));
    let drawn = |seed: u64, extra: Value| {
        let body = json!({"messages": [user("Tell me something.")], "seed": seed});
        text(&world.post("/v1/chat/completions", merged(body, &extra)).json())
    };
    // Each token is at least as likely as 0: the least likely one of all is left, with every seed.
    let rarest = drawn(1, json!({"max_tokens": 4}));
    assert!((2..12).all(|seed| drawn(seed, json!({"max_tokens": 4})) == rarest));
    let off = json!({"max_tokens": 4, "xtc_probability": 0});
    assert!((2..12).any(|seed| drawn(seed, off.clone()) != rarest), "a request sets another");

    let body = json!({"prompt": "abc", "n_predict": 1, "xtc_probability": 0.25});
    let settings = world.post("/completion", body).json()["generation_settings"].clone();
    assert_eq!(settings["xtc_probability"], 0.25);
    let refused =
        world.post("/v1/chat/completions", json!({"messages": [user("Hi")], "xtc_threshold": 2}));
    assert_eq!(refused.json()["error"]["param"], "xtc_threshold");
}

#[test]
fn the_window_of_the_repeat_penalty_is_that_of_the_request_or_of_the_models_file() {
    let shown = |world: &World, extra: Value| {
        let body = merged(json!({"prompt": "abc", "n_predict": 1}), &extra);
        world.post("/completion", body).json()["generation_settings"]["repeat_last_n"].clone()
    };
    let world = World::new();
    assert_eq!(shown(&world, json!({})), 64);
    assert_eq!(shown(&world, json!({"repeat_last_n": -1})), -1);
    let world = Plan::new().recommends(&[("repeat_last_n", 32.0)]).start();
    assert_eq!(shown(&world, json!({})), 32);
    assert_eq!(shown(&world, json!({"repeat_last_n": 0})), 0);
}

#[test]
fn wrong_parameters_are_refused_where_they_are_set() {
    let world = World::new();
    answer(&world, json!({}), json!({}));
    for (sampling, param) in [
        (json!({"temperature": 3}), "sampling.temperature"),
        (json!({"heat": 1}), "sampling.heat"),
        (json!({"max_tokens": 0}), "sampling.max_tokens"),
        (json!([1]), "sampling"),
    ] {
        assert_eq!(set(&world, sampling)["error"]["param"], param);
    }
    world.profile(
        "hot",
        "[sampling]\ntemperature = 9\n[[segment]]\nlayer = \"rules\"\ntext = \"x\"\n",
    );
    world.reload();
    let error = world.profiles()[0].error.clone().unwrap();
    assert!(error.contains("sampling.temperature"), "{error}");
}

#[test]
fn a_profile_s_parameters_are_read_and_written_beside_its_segments() {
    let world = World::new();
    let path = "/v1/profiles/brief";
    let segment = json!({"layer": "rules", "source": "text", "content": "Be brief."});
    let draft = json!({"revision": null, "segments": [segment], "sampling": {"top_k": 40}});
    let saved = world.call("PUT", path).json(&draft).send().json();
    assert_eq!(saved["sampling"], json!({"top_k": 40.0}));
    let unchanged = json!({"revision": saved["revision"], "segments": [segment]});
    let saved = world.call("PUT", path).json(&unchanged).send().json();
    assert_eq!(saved["sampling"], json!({"top_k": 40.0}));
    let wrong = json!({"revision": saved["revision"], "segments": [segment],
        "sampling": {"top_k": 0.5}});
    assert_eq!(world.call("PUT", path).json(&wrong).send().status, 400);
}

#[test]
fn templates_are_one_list_that_clients_replace() {
    let world = World::new();
    let list = || world.get("/v1/templates").json();
    assert_eq!((&list()["is_set"], &list()["data"]), (&json!(false), &json!([])));
    let data = json!([{"name": "Summarise", "text": "Summarise this: "}]);
    let put = |data: &Value| world.call("PUT", "/v1/templates").json(&json!({"data": data})).send();
    assert_eq!(put(&data).json()["data"], data);
    assert_eq!((&list()["is_set"], &list()["data"]), (&json!(true), &data));
    assert_eq!(put(&json!([{"name": ""}])).status, 400);
    assert_eq!(put(&json!([])).json()["is_set"], true, "no template is a list too");
    world.call("DELETE", "/v1/templates").send();
    assert_eq!(list()["is_set"], false);
}

/// The bundled model with another temperature in its file.
#[cfg(feature = "llama")]
fn bundled_with_temperature(directory: &std::path::Path, temperature: f32) -> hob_testkit::Launch {
    const KEY: &[u8] = b"general.sampling.temp";
    let mut file = std::fs::read(hob_testkit::asset("hob-tiny-f16.gguf")).unwrap();
    let key = file.windows(KEY.len()).position(|bytes| bytes == KEY).unwrap();
    let value = key + KEY.len() + size_of::<u32>(); // The entry's type is between them.
    file[value..value + 4].copy_from_slice(&temperature.to_le_bytes());
    let model = directory.join("model.gguf");
    std::fs::write(&model, file).unwrap();
    let launch = hob_testkit::Launch::new(env!("CARGO_BIN_EXE_hobd"), directory);
    launch.args(["--threads", "1", "--ctx", "512"]).args(["--model".into(), model.into_os_string()])
}

#[cfg(feature = "llama")]
#[test]
fn a_request_without_a_temperature_is_sampled_with_that_of_the_models_file() {
    let directory = tempfile::tempdir().unwrap();
    let answers = |file: f32, request: Value| {
        let hobd = bundled_with_temperature(directory.path(), file).start();
        let status = hobd.client.get("/v1/status");
        assert_eq!(status["sampling"]["temperature"].as_f64(), Some(file.into()));
        let answer = |seed: u64| {
            let messages = [user("Tell me about the secret code of Oslo.")];
            let mut body = json!({"messages": messages, "seed": seed, "max_tokens": 12});
            body["temperature"] = request.clone();
            text(&hobd.client.chat(&body))
        };
        (0..8).map(answer).collect::<std::collections::BTreeSet<_>>()
    };
    let greedy = answers(0.0, Value::Null);
    assert_eq!(greedy.len(), 1, "{greedy:?}");
    assert!(answers(0.0, json!(2)).len() > 1);
    assert!(answers(2.0, Value::Null).len() > 1);
    assert_eq!(answers(2.0, json!(0)), greedy);
}

#[cfg(feature = "llama")]
#[test]
fn an_impossible_temperature_of_the_models_file_is_ignored_and_logged() {
    for impossible in [f32::NAN, -1.0, 1e30] {
        let directory = tempfile::tempdir().unwrap();
        let launch = bundled_with_temperature(directory.path(), impossible);
        let hobd = launch.start();
        assert_eq!(hobd.client.get("/v1/status")["sampling"], json!({}));
        assert!(launch.log().contains("general.sampling.temp"), "{impossible}: {}", launch.log());
    }
}

#[test]
fn log_probabilities_are_those_of_the_text_in_front_of_a_stop_text() {
    let world = World::new();
    let said = json!([user("Say this: abcxyzd")]);
    let shown = |choice: &Value| -> String {
        let content = choice["logprobs"]["content"].as_array().into_iter().flatten();
        content.map(|token| token["token"].as_str().unwrap()).collect()
    };
    for (stop, expected) in [(json!("xyz"), "abc"), (json!(["xyz!", "yz"]), "abcx")] {
        let extra = json!({"stop": stop, "logprobs": true, "max_tokens": 40});
        let whole = world.chat(said.clone(), extra.clone());
        assert_eq!(text(&whole), expected);
        assert_eq!(shown(&whole["choices"][0]), expected);
        let chunks = world.stream(said.clone(), extra).collect();
        let streamed: String = chunks.iter().map(|chunk| shown(&chunk["choices"][0])).collect();
        assert_eq!(streamed, expected);
    }
}

#[test]
fn an_answer_ends_at_a_stop_token_and_not_before_its_least_tokens() {
    let world = World::new();
    let token = |text: &str| {
        world.post("/tokenize", json!({ "content": text })).json()["tokens"][0].clone()
    };
    let (c, x, y) = (token("c"), token("x"), token("y"));
    let at_c = json!({"stop_token_ids": [c]});
    let x_is_likeliest = json!({(x.to_string()): 100});
    let y_then_x = json!({"allowed_token_ids": [x, y], "logit_bias": x_is_likeliest,
        "stop_token_ids": [x], "min_tokens": 2});
    let asked = json!({"messages": [user("Say this: abcde")], "temperature": 0, "max_tokens": 5});
    let said = |route: &str, body: &Value, extra: &Value, text: &str| {
        let answer = world.post(route, merged(body.clone(), extra));
        assert_eq!(answer.status, 200, "{route} {extra}: {}", answer.text());
        answer.json().pointer(text).and_then(Value::as_str).unwrap().to_owned()
    };
    let chat = "/v1/chat/completions";
    for (route, text) in [(chat, "/choices/0/message/content"), ("/v1/messages", "/content/0/text")]
    {
        assert_eq!(said(route, &asked, &at_c, text), "ab", "{route}");
        assert_eq!(said(route, &asked, &y_then_x, text), "yy", "{route}");
    }
    assert_eq!(said(chat, &asked, &at_c, "/choices/0/finish_reason"), "stop");
    let with_odds = json!({"stop_token_ids": at_c["stop_token_ids"], "logprobs": true});
    let odds = world.post(chat, merged(asked.clone(), &with_odds)).json();
    let odds = odds["choices"][0]["logprobs"]["content"].as_array().unwrap().clone();
    let shown: Vec<&Value> = odds.iter().map(|token| &token["token"]).collect();
    assert_eq!(shown, ["a", "b"], "those of the text");
    let continued = json!({"prompt": "abc", "temperature": 0, "max_tokens": 3});
    assert_eq!(said("/v1/completions", &continued, &y_then_x, "/choices/0/text"), "yy");
    let late = json!({"allowed_token_ids": [x], "stop": ["x"], "min_tokens": 3});
    assert_eq!(said(chat, &asked, &late, "/choices/0/message/content"), "xxx");

    for (extra, param) in [
        (json!({"stop_token_ids": [999_999]}), "stop_token_ids[0]"),
        (json!({"min_tokens": -1}), "min_tokens"),
        (json!({"min_tokens": 6}), "min_tokens"),
    ] {
        for (route, body) in [(chat, &asked), ("/v1/completions", &continued)] {
            let refused = world.post(route, merged(body.clone(), &extra));
            assert_eq!(
                (refused.status, &refused.error()["param"]),
                (400, &json!(param)),
                "{route} {extra}"
            );
        }
    }
}

#[test]
fn an_answer_has_no_tokens_but_the_allowed_ones_and_none_of_a_bad_word() {
    let world = World::new();
    let x = world.post("/tokenize", json!({"content": "x"})).json()["tokens"][0].clone();
    let (only_x, no_c) = (json!({"allowed_token_ids": [x]}), json!({"bad_words": ["c"]}));
    let asked = json!({"messages": [user("Say this: abcde")], "temperature": 0, "max_tokens": 5});
    let said = |route: &str, body: &Value, extra: &Value, text: &str| {
        let answer = world.post(route, merged(body.clone(), extra));
        assert_eq!(answer.status, 200, "{route} {extra}: {}", answer.text());
        answer.json().pointer(text).and_then(Value::as_str).unwrap().to_owned()
    };
    for (route, text) in [
        ("/v1/chat/completions", "/choices/0/message/content"),
        ("/v1/messages", "/content/0/text"),
    ] {
        assert_eq!(said(route, &asked, &json!({}), text), "abcde", "{route}");
        assert_eq!(said(route, &asked, &only_x, text), "xxxxx", "{route}");
        let without = said(route, &asked, &no_c, text);
        assert!(without.starts_with("ab") && !without.contains('c'), "{route}: {without}");
    }
    let continued = json!({"prompt": "abc", "temperature": 0, "max_tokens": 3});
    assert_eq!(said("/v1/completions", &continued, &only_x, "/choices/0/text"), "xxx");

    for (extra, param) in [
        (json!({"bad_words": ["c", "cd"]}), "bad_words[1]"),
        (json!({"bad_words": ["x"], "allowed_token_ids": [x]}), "bad_words"),
        (json!({"allowed_token_ids": [999_999]}), "allowed_token_ids[0]"),
    ] {
        for body in [&asked, &continued] {
            let route = match body.get("prompt") {
                Some(_) => "/v1/completions",
                None => "/v1/chat/completions",
            };
            let refused = world.post(route, merged(body.clone(), &extra));
            assert_eq!(
                (refused.status, &refused.error()["param"]),
                (400, &json!(param)),
                "{extra}"
            );
        }
    }
}
