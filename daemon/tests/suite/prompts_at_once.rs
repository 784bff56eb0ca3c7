//! Prompts that hobd computes at the same time: the shorter one first, and a beginning that they share once. Through the
//! built hobd, on the fake model, which takes 4 ms for each token of a question to be read slowly.

use std::thread;

use hob_testkit::{Hobd, Launch, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{chat_body, user};

/// Without learned prefixes: what they compute would be counted too.
fn start() -> (Hobd, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let launch = launch.args(["--model", "fake", "--learned-prefixes", "0"]);
    (launch.start(), directory)
}

fn body(conversation: &str, words: usize) -> Value {
    let question = format!("Read this slowly: {}", "word ".repeat(words));
    let extra = json!({"conversation": conversation, "max_tokens": 4, "ignore_eos": true});
    chat_body(json!([user(&question)]), extra)
}

#[test]
fn equal_prompts_at_once_are_computed_once_and_answered_alike() {
    let (hobd, _directory) = start();
    // Two seconds, in which all four have arrived.
    let answers: Vec<Value> = thread::scope(|scope| {
        let ask = |name: &'static str| {
            let client = &hobd.client;
            scope.spawn(move || client.chat(&body(name, 100)))
        };
        let asked = ["a", "b", "c", "d"].map(ask);
        asked.map(|asked| asked.join().unwrap()).into()
    });
    let text = |answer: &Value| answer["choices"][0]["message"]["content"].clone();
    let prompt = answers[0]["usage"]["prompt_tokens"].as_u64().unwrap();
    assert!(prompt > 500, "{}", answers[0]);
    let mut computed = 0;
    for answer in &answers {
        assert_eq!(answer["usage"]["prompt_tokens"], prompt, "{answer}");
        assert_eq!(text(answer), text(&answers[0]), "{answer}");
        computed += answer["hob"]["tokens"]["computed"].as_u64().unwrap();
    }
    // Each computes its last token, for its logits.
    assert!(computed < prompt + prompt / 10, "{computed} of {prompt}: {answers:?}");
}

#[test]
fn a_short_prompt_is_answered_while_a_longer_one_that_came_first_is_computed() {
    let (hobd, _directory) = start();
    // Eight seconds.
    let call = hobd.client.call("POST", "/v1/chat/completions").json(&body("long", 400));
    let long = call.open();
    wait::until("the long prompt is computed", || hobd.client.is_busy("long").then_some(()));
    // One token: a further one would be computed beside the long prompt.
    let answer = hobd.client.chat(&chat_body(json!([user("Hello")]), json!({"max_tokens": 1})));
    assert_ne!(answer["hob"]["tokens"]["computed"], 0, "{answer}");
    assert!(hobd.client.is_busy("long"), "the short one has waited for all of the long one");
    drop(long); // Which cancels it.
}
