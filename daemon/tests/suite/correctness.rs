//! How far answers over moved KV differ from exact ones: measured on request, and watched for each profile.

use std::fs;

use hob_testkit::{Hobd, files, wait};
use serde_json::{Value, json};

use crate::chunks::{HEAD, ask, limit, question, save_documents, start, tokens, watched};

#[test]
fn correctness_is_told_by_strategy_and_by_how_much_was_moved() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let chat = |order: &[usize]| json!({"messages": question(order)});
    let compare =
        |body: &Value| hobd.client.call("POST", "/v1/verify/correctness").json(body).send();
    let body = json!({
        "sources": [chat(&[1, 2, 3])],
        "prompts": [chat(&[3, 2, 1]), "A question of its own."],
        "strategies": ["head", "full"],
        "max_tokens": 8,
    });
    let told = compare(&body);
    assert_eq!(told.status, 200, "{}", told.text());
    let told = told.json();
    let rows = told["data"].as_array().unwrap();
    let row = |strategy: &str, to: u64| {
        let mut rows = rows.iter();
        let found = rows.find(|row| row["strategy"] == strategy && row["moved_percent"][1] == to);
        found.unwrap_or_else(|| panic!("{strategy}, {to}: {told}"))
    };
    assert_eq!(rows.len(), 3, "{told}");
    let repeat = "hob verify-correctness FILE --strategy head,full --max-tokens 8";
    assert_eq!(told["repeat"], repeat, "{told}");
    let moved = row("head", 100);
    assert_eq!((&moved["prompts"], &moved["repaired_tokens"]), (&json!(1), &json!(3 * HEAD)));
    let by_default = compare(&json!({"prompts": ["A question of its own."], "max_tokens": 1}));
    let repeat = "hob verify-correctness FILE --strategy none,seen:255,full --max-tokens 1";
    assert_eq!(by_default.json()["repeat"], repeat);
    // The fake sees where KV was computed.
    assert!(moved["agreement"].as_f64().unwrap() < 1.0, "{told}");
    assert!(moved["divergence"].as_f64().unwrap() > 0.0, "{told}");
    for (strategy, prompts) in [("head", 1), ("full", 2)] {
        let exact = row(strategy, 0);
        assert_eq!((&exact["prompts"], &exact["agreement"]), (&json!(prompts), &json!(1.0)));
        assert_eq!((&exact["divergence"], &exact["f1"]), (&json!(0.0), &json!(1.0)));
    }
    // Nothing of it stays.
    let cold = ask(&hobd, None, &[1, 2, 3], json!({"reuse": "repaired"}));
    assert_eq!(tokens(&cold, "moved"), 0, "{cold}");
    let list = hobd.client.get("/v1/slots");
    let mut saved = list["data"].as_array().unwrap().iter();
    let is_of_it = |row: &&Value| row["conversation"].as_str().unwrap().starts_with("compared");
    assert_eq!(saved.find(is_of_it), None, "{list}");

    for (body, param) in [
        (json!({}), "prompts"),
        (json!({"prompts": ["it"], "strategies": ["some"]}), "strategies[0]"),
        (json!({"prompts": ["it"], "strategies": vec!["none"; 17]}), "strategies"),
        (json!({"prompts": ["it"], "strategies": ["none", "selective"]}), "strategies[1]"),
        (json!({"prompts": ["it"], "strategies": ["head+selective:15"]}), "strategies[0]"),
        (json!({"prompts": ["it"], "max_tokens": 0}), "max_tokens"),
        (json!({"prompts": [{"messages": 3}]}), "prompts[0].messages"),
        (json!({"prompts": [{"conversation": "it", "messages": question(&[1])}]}), "prompts[0]"),
        (json!({"prompts": ["it"], "model": "it"}), "model"),
    ] {
        let refused = compare(&body);
        assert_eq!((refused.status, &refused.error()["param"]), (400, &json!(param)), "{body}");
    }
}

#[cfg(feature = "llama")]
#[test]
fn correctness_is_measured_on_a_real_model_and_refused_where_kv_cannot_be_moved() {
    let story =
        |name: &str| format!("{name} keeps the key of the old mill by the river. ").repeat(8);
    let stories = |order: [&str; 3]| order.map(story).concat();
    let body = json!({
        "sources": [stories(["Ann", "Robert", "Caroline"])],
        "prompts": [stories(["Caroline", "Ann", "Robert"])],
        "strategies": ["none", "head", "full"],
        "max_tokens": 8,
    });
    let compare = |model: &str| {
        let directory = tempfile::tempdir().unwrap();
        let path = hob_testkit::asset(model);
        let hobd =
            crate::chunks::start_with(directory.path(), &["--model", path.to_str().unwrap()]);
        hobd.client.call("POST", "/v1/verify/correctness").json(&body).send()
    };
    let told = compare("hob-tiny-f16.gguf");
    assert_eq!(told.status, 200, "{}", told.text());
    let told = told.json();
    let [none, head, full] = &told["data"].as_array().unwrap()[..] else {
        panic!("a row for each strategy: {told}")
    };
    let moved = [none, head, full].map(|row| row["moved_tokens"].as_u64().unwrap());
    assert!(moved[0] > moved[1] && moved[1] > 0 && moved[2] == 0, "{told}");
    assert!(head["repaired_tokens"].as_u64() > Some(0), "{told}");
    let [none, full] = [none, full].map(|row| row["divergence"].as_f64().unwrap());
    // llama.cpp rounds by the number of rows in a micro-batch.
    assert!(full < 0.001 && none > full, "{told}");

    let refused = compare("fixtures/gemma3.gguf");
    assert_eq!((refused.status, &refused.error()["code"]), (400, &json!("immovable")));
}

#[test]
fn a_profile_whose_answers_differ_too_much_falls_back_also_after_a_restart_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    save_documents(&hobd);
    let profile = |hobd: &Hobd| ask(hobd, None, &[3, 2, 1], json!({"profile": "reader"}));
    // All of the first four are compared.
    for number in 0..4 {
        let moved = profile(&hobd);
        assert!(tokens(&moved, "moved") > 0, "{number}: {moved}");
        assert_eq!(moved["hob"]["immovable"], Value::Null, "{number}");
    }
    let why = wait::until("the profile falls back", || {
        watched(&hobd)["fell_back"].as_str().map(str::to_owned)
    });
    assert!(why.contains("`reader`"), "{why}");
    let found = wait::until("it is written", || {
        let files = files::with_extension(&directory.path().join("data/reuse"), "json");
        files.into_iter().find(|file| fs::read_to_string(file).unwrap().contains(&why))
    });
    let is_exact = |hobd: &Hobd| {
        assert_eq!(watched(hobd)["samples"], 4);
        assert_eq!(watched(hobd)["fell_back"], why);
        let exact = profile(hobd);
        assert_eq!((tokens(&exact, "moved"), &exact["hob"]["immovable"]), (0, &json!(why)));
        let list = hobd.client.get("/v1/profiles");
        assert_eq!(list["data"][0]["fell_back"], why, "{list}");
        assert!(hobd.client.get_text("/metrics").contains("hob_profiles_fallen_back 1\n"));
    };
    is_exact(&hobd);
    drop(hobd);
    let hobd = start(directory.path());
    is_exact(&hobd);
    // Limits that the same samples keep let it move again.
    limit(directory.path(), "{ divergence = 100, agreement = 0 }");
    wait::until("hobd reads them", || profile(&hobd)["hob"]["immovable"].is_null().then_some(()));
    let moved = ask(&hobd, None, &[1, 3, 2], json!({"profile": "reader"}));
    assert!(tokens(&moved, "moved") > 0, "{moved}");
    // A request that says so itself has chosen.
    let chosen = ask(&hobd, None, &[2, 1, 3], json!({"profile": "reader", "reuse": "repaired"}));
    assert!(tokens(&chosen, "moved") > 0, "{chosen}");
    drop(hobd);

    fs::write(&found, "{").unwrap();
    let hobd = start(directory.path());
    let log = fs::read_to_string(directory.path().join("log")).unwrap();
    let name = found.file_name().unwrap().to_str().unwrap();
    let is_told = log.lines().any(|line| line.contains("damaged") && line.contains(name));
    assert!(is_told, "{log}");
    let moved = profile(&hobd);
    assert!(tokens(&moved, "moved") > 0, "{moved}");
}

#[test]
fn what_is_typed_for_a_profile_that_fell_back_is_computed_ahead_of_its_exact_answer() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    save_documents(&hobd);
    let reader = json!({"profile": "reader"});
    let chat = ask(&hobd, Some("chat"), &[3, 2, 1], reader.clone());
    assert!(tokens(&chat, "moved") > 0, "{chat}");
    for _ in 0..4 {
        ask(&hobd, None, &[3, 2, 1], reader.clone());
    }
    let why = wait::until("the profile falls back", || {
        watched(&hobd)["fell_back"].as_str().map(str::to_owned)
    });

    let words = "What comes last of all? ";
    let hob = json!({"append": true, "profile": "reader"});
    let typed = json!({"text": words, "hob": hob});
    let typed = hobd.client.post("/v1/conversations/chat/typing", &typed);
    assert_eq!(typed["ahead"], true, "{typed}");
    wait::until("the words are computed", || {
        let metrics = hobd.client.get_text("/metrics");
        metrics.contains("hob_ahead_total{outcome=\"hot\"} 1\n").then_some(())
    });
    let messages = json!([{"role": "user", "content": format!("{words}Tell.")}]);
    let answer = hobd.client.chat(&json!({"conversation": "chat", "messages": messages,
        "hob": hob, "temperature": 0, "max_tokens": 8}));
    assert_eq!((tokens(&answer, "moved"), &answer["hob"]["immovable"]), (0, &json!(why)));
    assert!(tokens(&answer, "computed") < 64, "the words are hot: {answer}");
}
