//! `hob.reuse`: text that stands at another place, through hobd on the fake backend, a token a byte.

mod idle;
mod places;

use std::fs;
use std::path::Path;

use hob_testkit::{Hobd, Launch, wait};
use serde_json::{Value, json};

use crate::common::home::saved;

const BYTES: usize = 300;

/// Tokens of a chunk that are computed.
pub const HEAD: u64 = 32;

/// Text in which each window occurs once.
fn document(number: usize) -> String {
    let words = (0..BYTES).map(|n| format!("{number}.{n} "));
    words.collect::<String>().chars().take(BYTES).collect()
}

pub fn question(order: &[usize]) -> Value {
    let texts: Vec<String> = order.iter().map(|&number| document(number)).collect();
    json!([{"role": "user", "content": format!("{}\nWhat?", texts.join("\n"))}])
}

pub fn start(directory: &Path) -> Hobd {
    start_with(directory, &["--model", "fake"])
}

pub fn start_with(directory: &Path, arguments: &[&str]) -> Hobd {
    let profiles = directory.join("profiles");
    fs::create_dir_all(&profiles).unwrap();
    limit(directory, "{}");
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory);
    let launch = launch.args(arguments).args(["--ctx", "8192", "--slots", "4"]);
    launch.args(["--profiles-dir"]).args([&profiles]).start()
}

/// Writes the profile `reader`, whose answers may move KV within these limits.
pub fn limit(directory: &Path, limits: &str) {
    let segment = "[[segment]]\nlayer = 'rules'\ntext = 'Be kind.'";
    let profile = format!("reuse = 'repaired'\nreuse_limits = {limits}\n{segment}");
    fs::write(directory.join("profiles/reader.toml"), profile).unwrap();
}

pub fn ask(hobd: &Hobd, conversation: Option<&str>, order: &[usize], hob: Value) -> Value {
    let mut body =
        json!({"messages": question(order), "temperature": 0, "max_tokens": 8, "hob": hob});
    if let Some(conversation) = conversation {
        body["conversation"] = json!(conversation);
    }
    hobd.client.chat(&body)
}

pub fn tokens(answer: &Value, place: &str) -> u64 {
    answer["hob"]["tokens"][place].as_u64().unwrap_or_else(|| panic!("{place} of {answer}"))
}

fn check_sum(answer: &Value) {
    let places = ["shared", "memory", "disk", "away", "moved", "computed"];
    let sum: u64 = places.iter().map(|place| tokens(answer, place)).sum();
    assert_eq!(answer["usage"]["prompt_tokens"], sum);
}

fn text(answer: &Value) -> &Value {
    &answer["choices"][0]["message"]["content"]
}

/// What hobd knows of moved KV in answers of the profile `reader`.
pub fn watched(hobd: &Hobd) -> Value {
    let status = hobd.client.get("/v1/status");
    let profiles = status["profiles"].as_array().unwrap();
    profiles.iter().find(|it| it["name"] == "reader").unwrap()["reuse"].clone()
}

/// Reads documents 1 to 3 in the conversation `first`, and waits until it is saved.
pub fn save_documents(hobd: &Hobd) {
    ask(hobd, Some("first"), &[1, 2, 3], json!({}));
    wait_saved(hobd);
}

/// Waits until the conversation `first` is saved.
fn wait_saved(hobd: &Hobd) {
    wait::until("the conversation is saved", || saved(&hobd.client, "first"));
}

#[test]
fn documents_in_another_order_are_moved_on_request_also_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    save_documents(&hobd);
    let repaired = json!({"reuse": "repaired"});
    let moved = ask(&hobd, Some("moved"), &[3, 2, 1], repaired.clone());
    check_sum(&moved);
    assert!(tokens(&moved, "moved") > 3 * (BYTES as u64 - 40), "{moved}");
    assert_eq!(tokens(&moved, "repaired"), 3 * HEAD, "{moved}");
    let anonymous = ask(&hobd, None, &[2, 1, 3], repaired.clone());
    assert!(tokens(&anonymous, "moved") > 0, "{anonymous}");

    // Off by default, and exact then.
    let exact = ask(&hobd, Some("exact"), &[3, 2, 1], json!({}));
    let cold = ask(&hobd, Some("cold"), &[3, 2, 1], json!({"cold": true}));
    assert_eq!((tokens(&exact, "moved"), text(&exact)), (0, text(&cold)));
    assert_ne!(text(&exact), text(&moved), "the fake sees where KV was computed");
    let metrics = hobd.client.call("GET", "/metrics").send().text();
    let both = [&moved, &anonymous].map(|answer| tokens(answer, "repaired")).iter().sum::<u64>();
    let counted = format!("hob_repaired_tokens_total {both}\n");
    assert!(metrics.contains(&counted), "{counted} in {metrics}");
    let stats = hobd.client.get("/v1/stats");
    let all: u64 = ["shared", "memory", "disk", "away", "moved", "computed"]
        .iter()
        .map(|place| stats["prompt_tokens"][place].as_u64().unwrap())
        .sum();
    assert_eq!(stats["prompt_tokens"]["all"], all, "{stats}");
    assert_eq!(stats["prompt_tokens"]["repaired"], both, "{stats}");
    let reused = all - stats["prompt_tokens"]["computed"].as_u64().unwrap();
    assert_eq!(stats["reused"], reused as f64 / all as f64, "{stats}");
    let counters = &hobd.client.get("/v1/status")["counters"];
    let moved = [&moved, &anonymous].map(|answer| tokens(answer, "moved")).iter().sum::<u64>();
    assert_eq!(counters["moved_tokens"], moved, "{counters}");
    assert_eq!(counters["repaired_tokens"], both, "{counters}");
    drop(hobd);

    let hobd = start(directory.path());
    let later = ask(&hobd, Some("later"), &[2, 3, 1], repaired);
    check_sum(&later);
    assert!(tokens(&later, "moved") > 3 * (BYTES as u64 - 40), "{later}");
    let exact = ask(&hobd, Some("moved"), &[3, 2, 1], json!({"reuse": "exact"}));
    assert_eq!((tokens(&exact, "moved"), text(&exact)), (0, text(&cold)));
}

#[test]
fn the_text_of_an_archive_is_moved_that_was_imported_while_hobd_runs() {
    let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let hobd = start(there.path());
    save_documents(&hobd);
    let archive = hobd.client.call("GET", "/v1/conversations/first/export?format=archive").send();
    assert_eq!(archive.status, 200, "{}", archive.text());
    drop(hobd);

    let hobd = start(here.path());
    let before = ask(&hobd, Some("before"), &[4], json!({"reuse": "repaired"}));
    assert_eq!(tokens(&before, "moved"), 0, "{before}");
    let import = hobd.client.call("POST", "/v1/conversations/import");
    let import = import.header("content-type", "application/x-tar").body(archive.body).send();
    assert_eq!(import.json()["kv"]["imported"], true, "{}", import.text());
    let moved = ask(&hobd, Some("other"), &[3, 2, 1], json!({"reuse": "repaired"}));
    check_sum(&moved);
    assert!(tokens(&moved, "moved") > 3 * (BYTES as u64 - 40), "{moved}");
}

#[test]
fn a_profile_switches_it_on_and_a_request_comes_first() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    save_documents(&hobd);
    let moved = ask(&hobd, None, &[3, 2, 1], json!({"profile": "reader"}));
    assert!(tokens(&moved, "moved") > 0, "{moved}");
    check_sum(&moved);
    let exact = ask(&hobd, None, &[3, 1, 2], json!({"profile": "reader", "reuse": "exact"}));
    assert_eq!(tokens(&exact, "moved"), 0, "{exact}");
    let body = json!({"messages": question(&[1]), "hob": {"reuse": "perhaps"}});
    let refused = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
    assert_eq!((refused.status, &refused.error()["param"]), (400, &json!("hob.reuse")));
}

#[test]
fn instructions_and_tools_are_computed_although_their_text_was_read_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let profiles = directory.path().join("profiles");
    fs::create_dir_all(&profiles).unwrap();
    let layers = ["context", "axioms", "identity", "rules"];
    for layer in layers {
        // It is in the tail: hobd computes the prefix ahead.
        let segments = [
            "[[segment]]\nlayer = 'identity'\ntext = 'Be kind.'".to_owned(),
            format!("[[segment]]\nlayer = 'context'\ntext = 'For {layer}.'\nstable = false"),
            format!("[[segment]]\nlayer = '{layer}'\ntext = '{}'", document(2)),
        ];
        fs::write(profiles.join(format!("{layer}.toml")), segments.join("\n")).unwrap();
    }
    let hobd = start(directory.path());
    save_documents(&hobd);
    let check = |answer: &Value, documents: u64, what: &str| {
        check_sum(answer);
        let least = documents * (BYTES as u64 - 40);
        let moved = tokens(answer, "moved");
        assert!(moved > least && moved <= documents * BYTES as u64, "{what}: {answer}");
    };
    for layer in layers {
        let answer = ask(&hobd, None, &[1], json!({"profile": layer, "reuse": "repaired"}));
        check(&answer, if layer == "context" { 2 } else { 1 }, layer);
    }
    let question = &question(&[1])[0];
    let tool = json!({"name": "look_up", "description": document(2)});
    for mut body in [
        json!({"messages": [{"role": "system", "content": document(2)}, question]}),
        json!({"messages": [question], "tools": [{"type": "function", "function": tool}]}),
    ] {
        body["temperature"] = json!(0);
        body["max_tokens"] = json!(8);
        body["hob"] = json!({"reuse": "repaired"});
        check(&hobd.client.chat(&body), 1, &body["tools"].to_string());
    }
}

#[test]
fn text_of_private_and_of_deleted_conversations_is_not_moved() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let moved = |order: [usize; 3]| {
        let answer = ask(&hobd, None, &order, json!({"reuse": "repaired"}));
        check_sum(&answer);
        tokens(&answer, "moved")
    };
    ask(&hobd, Some("private"), &[1, 2, 3], json!({"private": true}));
    assert_eq!(moved([3, 2, 1]), 0, "it is private");
    save_documents(&hobd);
    assert!(moved([2, 1, 3]) > 0);
    let deleted = hobd.client.call("DELETE", "/v1/conversations/first").send();
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    assert_eq!(moved([2, 3, 1]), 0, "it is gone");
}

#[test]
fn a_document_that_was_read_is_found_in_the_text_of_a_message() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let added = hobd.client.call("POST", "/v1/documents?name=it").body(document(1)).send();
    let id = added.json()["id"].as_str().unwrap().to_owned();
    hobd.client.call("POST", &format!("/v1/documents/{id}/read")).stream().count();
    let answer = ask(&hobd, None, &[2, 1], json!({"reuse": "repaired"}));
    let moved = tokens(&answer, "moved");
    assert!(moved > BYTES as u64 - 40 && moved <= BYTES as u64, "{answer}");
    check_sum(&answer);
}

#[test]
fn documents_are_prewarmed_by_text_or_id_and_found_in_later_prompts() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let prewarm = |body: Value| hobd.client.call("POST", "/v1/prewarm").json(&body).send();
    let listed = || hobd.client.get("/v1/documents")["data"].as_array().unwrap().len();

    let unknown = json!("0".repeat(64));
    let text = json!({"text": document(7)});
    for (body, status, param) in [
        (json!({"documents": []}), 400, json!("documents")),
        (json!({"documents": [text, "x"]}), 400, json!("documents[1]")),
        (json!({"documents": [text, {"text": " "}]}), 400, Value::Null),
        (json!({"documents": [text, unknown]}), 404, Value::Null),
        (json!({"documents": [text], "messages": []}), 400, json!("messages")),
        (json!({"documents": [text], "hob": {"profile": "missing"}}), 400, json!("hob.profile")),
        (json!({"documents": [text], "hob": {"profile": 1}}), 400, json!("hob.profile")),
    ] {
        let refused = prewarm(body.clone());
        assert_eq!(refused.status, status, "{body}: {}", refused.text());
        assert_eq!(refused.error()["param"], param, "{body}");
    }
    assert_eq!(listed(), 0, "nothing of a refused request is stored");

    let texts = json!([{"text": document(1), "name": "one.txt"}, {"text": document(2)}]);
    let warmed = prewarm(json!({"documents": texts})).json();
    assert_eq!(warmed["hot"], true, "{warmed}");
    let documents = warmed["documents"].as_array().unwrap();
    assert_eq!(documents[0]["name"], "one.txt");
    for document in documents {
        assert_eq!(document["ready_tokens"], document["tokens"], "{document}");
    }
    let answer = ask(&hobd, None, &[3, 2, 1], json!({"reuse": "repaired"}));
    assert!(tokens(&answer, "moved") > 2 * (BYTES as u64 - 40), "{answer}");
    check_sum(&answer);

    let by_id = json!({"documents": [documents[0]["id"]], "wait": false});
    let accepted = prewarm(by_id);
    assert_eq!((accepted.status, &accepted.json()["hot"]), (202, &json!(false)));
    assert_eq!(listed(), 2);
}

#[cfg(feature = "llama")]
#[test]
fn the_bundled_model_moves_and_a_sliding_window_is_refused_by_name() {
    for (model, moves) in [("hob-tiny-f16.gguf", true), ("fixtures/gemma3.gguf", false)] {
        let directory = tempfile::tempdir().unwrap();
        let path = hob_testkit::asset(model);
        let hobd = start_with(directory.path(), &["--model", path.to_str().unwrap()]);
        let story =
            |name: &str| format!("{name} keeps the key of the old mill by the river. ").repeat(8);
        let ask = |conversation: &str, order: [&str; 3], hob: Value| {
            let text = order.map(story).concat();
            let messages = json!([{"role": "user", "content": text}]);
            hobd.client.chat(&json!({"conversation": conversation, "messages": messages,
                "temperature": 0, "max_tokens": 4, "hob": hob}))
        };
        ask("first", ["Ann", "Robert", "Caroline"], json!({}));
        wait_saved(&hobd);
        let answer = ask("other", ["Caroline", "Ann", "Robert"], json!({"reuse": "repaired"}));
        check_sum(&answer);
        assert_eq!(tokens(&answer, "moved") > 0, moves, "{model}: {answer}");
        let why = answer["hob"]["immovable"].as_str();
        assert_eq!(why.map(|why| why.contains("sliding-window")), (!moves).then_some(true));
        if moves {
            let of_profile = json!({"profile": "reader"});
            let answer = ask("watched", ["Robert", "Caroline", "Ann"], of_profile);
            assert!(tokens(&answer, "moved") > 0, "{answer}");
            let compared = wait::until("hobd compares it with an exact one", || {
                Some(watched(&hobd)).filter(|it| it["samples"] == 1)
            });
            assert!(compared["agreement"].as_f64().unwrap() >= 0.95, "{compared}");
        }
    }
}

#[test]
fn a_completion_moves_text_and_has_a_budget_and_refuses_what_is_of_chats() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let [one, two, three] = [1, 2, 3].map(document);
    let complete = |prompt: String, key: Option<&str>, hob: Value| {
        let body = json!({"prompt": prompt, "max_tokens": 8, "temperature": 0, "hob": hob,
            "conversation": key});
        hobd.client.call("POST", "/v1/completions").json(&body).send()
    };
    let private =
        complete("No one keeps this.".repeat(9), Some("private"), json!({"private": true}));
    assert_eq!(private.status, 200, "{}", private.text());
    let source = complete(format!("{one}\n{two}\n{three}\n"), Some("source"), json!({}));
    assert_eq!(source.status, 200, "{}", source.text());
    // The row of a profile's prefix may be there earlier.
    wait::until("the KV is saved", || saved(&hobd.client, "source"));
    // What was asked for before it would have been saved before it.
    assert_eq!(saved(&hobd.client, "private"), None);
    let other = |hob: Value| complete(format!("{three}\n{two}\n{one}\nWhat?"), None, hob);
    let moved = other(json!({"reuse": "repaired"})).json();
    assert!(tokens(&moved, "moved") > 2 * (BYTES as u64 - 40), "{moved}");
    assert_eq!(tokens(&other(json!({})).json(), "moved"), 0);
    let narrow = other(json!({"budget": 512})).json();
    assert_eq!(narrow["hob"]["cells"]["budget"], 512, "{narrow}");
    assert!(narrow["hob"]["cells"]["peak"].as_u64().unwrap() <= 512, "{narrow}");
    let refused = other(json!({"newest": true}));
    let error = refused.error();
    assert_eq!((refused.status, &error["param"]), (400, &json!("hob.newest")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("is of chats"), "{error}");
}
