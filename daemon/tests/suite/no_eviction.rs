//! Models with another memory than plain attention: a conversation stays in its cells, and its answers
//! say so. On llama.cpp.

#![cfg(feature = "llama")]

use std::fs;
use std::path::Path;

use hob_testkit::{Hobd, Launch, asset};
use serde_json::{Value, json};

const CELLS: u64 = 512;

const FAMILIES: [(&str, &str); 3] =
    [("gemma3.gguf", "sliding_window"), ("lfm2.gguf", "hybrid"), ("mamba.gguf", "recurrent")];

fn start(directory: &Path, fixture: &str) -> Hobd {
    let profiles = directory.join("profiles");
    fs::create_dir_all(&profiles).unwrap();
    let segment = "[[segment]]\nlayer = 'rules'\ntext = 'Be kind.'";
    fs::write(profiles.join("tight.toml"), format!("budget = 2\n{segment}")).unwrap();
    let model = asset("fixtures").join(fixture);
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory);
    let launch = launch.args(["--ctx", &CELLS.to_string(), "--slots", "1", "--threads", "1"]);
    launch.args(["--model"]).args([&model]).args(["--profiles-dir"]).args([&profiles]).start()
}

/// Past end tokens, which random weights produce at any time.
fn body(text: &str, max_tokens: u64, hob: &Value) -> Value {
    json!({
        "messages": [{"role": "user", "content": text}], "hob": hob, "temperature": 0,
        "max_tokens": max_tokens, "ignore_eos": true,
    })
}

#[test]
fn a_budget_does_not_count_and_the_answer_says_why() {
    for (fixture, reason) in FAMILIES {
        let directory = tempfile::tempdir().unwrap();
        let hobd = start(directory.path(), fixture);
        // More tokens than the budget has cells.
        let long = "It is late. ".repeat(12);
        for hob in [json!({"budget": 8}), json!({"profile": "tight"})] {
            let answer = hobd.client.chat(&body(&long, 24, &hob));
            let cells = &answer["hob"]["cells"];
            assert_eq!(answer["usage"]["completion_tokens"], 24, "{fixture}: {answer}");
            assert_eq!(cells["budget"], CELLS, "{fixture}: {cells}");
            assert_eq!(cells["no_eviction"]["reason"], reason, "{fixture}: {cells}");
            assert_eq!(answer["hob"]["moved"], json!([]), "{fixture}: {answer}");
        }
        let answer = hobd.client.chat(&body("Hello", 4, &json!({})));
        let cells = &answer["hob"]["cells"];
        assert_eq!(cells["no_eviction"], Value::Null, "{fixture}: {cells}");
    }
}

#[test]
fn a_conversation_ends_with_its_cells_and_the_answer_or_the_refusal_says_why() {
    for (fixture, reason) in FAMILIES {
        let directory = tempfile::tempdir().unwrap();
        let hobd = start(directory.path(), fixture);
        let answer = hobd.client.chat(&body("Talk for ever", 2 * CELLS, &json!({})));
        assert_eq!(answer["choices"][0]["finish_reason"], "length", "{fixture}: {answer}");
        assert_eq!(answer["hob"]["context_full"], true, "{fixture}: {answer}");
        let why = &answer["hob"]["cells"]["no_eviction"];
        assert_eq!(why["reason"], reason, "{fixture}: {answer}");
        let what = why["what"].as_str().unwrap();
        let remedy = why["remedy"].as_str().unwrap();
        assert!(remedy.contains("larger --ctx"), "{fixture}: {remedy}");

        let too_long = body(&"It is late. ".repeat(400), 4, &json!({}));
        let refused = hobd.client.call("POST", "/v1/chat/completions").json(&too_long).send();
        assert_eq!(refused.status, 400, "{fixture}: {}", refused.text());
        let error = refused.error();
        assert_eq!(error["code"], "context_length_exceeded", "{fixture}: {error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(remedy) && message.contains(what), "{fixture}: {message}");
    }
}
