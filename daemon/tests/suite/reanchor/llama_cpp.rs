//! On llama.cpp: models whose conversations grow longer than the context that they were trained with.

use std::path::{Path, PathBuf};

use hob_testkit::{Gguf, Hobd, Launch, asset, wait};
use serde_json::{Value, json};

use super::{FACT, number, tokens};

/// Of a model that was trained with so little.
const TRAINED: u32 = 512;

const BUDGET: u64 = 400;

/// What the bundled model has an answer to, about anything but the locker.
const SMALL_TALK: [&str; 10] = [
    "What is the capital of Peru?",
    "What is the capital of France?",
    "What color is the sky?",
    "What is two plus two?",
    "How are you?",
    "What is the opposite of hot?",
    "What color is grass?",
    "What is the capital of Italy?",
    "What is three plus four?",
    "What is the capital of Japan?",
];

/// A copy of the bundled model that says that it was trained with [`TRAINED`] tokens.
fn short_model(directory: &Path) -> PathBuf {
    let model = directory.join("short.gguf");
    let bundled = Gguf::open(&asset("hob-tiny-f16.gguf"));
    bundled.number("llama.context_length", TRAINED).write(&model);
    model
}

fn start(directory: &Path, model: &Path) -> Hobd {
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory);
    let launch = launch.args(["--model", model.to_str().unwrap(), "--slots", "1"]);
    launch.args(["--ctx", "1024", "--draft", "off"]).start()
}

fn ask(hobd: &Hobd, text: &str, hob: &Value) -> Value {
    let mut hob = hob.clone();
    hob["append"] = true.into();
    let messages = json!([{"role": "user", "content": text}]);
    hobd.client.chat(&json!({"conversation": "c", "messages": messages, "hob": hob,
        "temperature": 0, "max_tokens": 40}))
}

fn text(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap()
}

fn check(answer: &Value, budget: u64) {
    assert_eq!(answer["hob"]["context_full"], false, "{answer}");
    assert!(number(&answer["usage"]["prompt_tokens"]) + 40 <= u64::from(TRAINED), "{answer}");
    assert!(number(&answer["hob"]["cells"]["peak"]) <= budget, "{answer}");
}

#[test]
fn the_bundled_model_goes_on_past_what_it_was_trained_with_and_still_knows_the_code() {
    let directory = tempfile::tempdir().unwrap();
    let model = short_model(directory.path());
    for budget in [None, Some(BUDGET)] {
        let data = directory.path().join(format!("data-{budget:?}"));
        std::fs::create_dir_all(&data).unwrap();
        let mut hobd = start(&data, &model);
        let status = hobd.client.get("/v1/status");
        assert_eq!(status["conversation_tokens"], TRAINED, "{status}");
        let hob = match budget {
            Some(budget) => json!({"beyond": "reanchor", "budget": budget}),
            None => json!({"beyond": "reanchor"}),
        };
        let cells = budget.unwrap_or(1024);
        check(&ask(&hobd, FACT, &hob), cells);
        let (mut timelines, mut moved) = (0, 0);
        for round in 0..4 {
            for question in SMALL_TALK {
                let answer = ask(&hobd, question, &hob);
                check(&answer, cells);
                if !answer["hob"]["reanchored"].is_null() {
                    timelines += 1;
                    moved += tokens(&answer, "moved");
                    assert_eq!(answer["hob"]["immovable"], Value::Null, "{answer}");
                }
            }
            if round == 2 {
                hobd.process.terminate(wait::PATIENCE);
                hobd = start(&data, &model);
            }
        }
        // The questions are short, and what comes back for them stands between: some timelines have
        // no text that is long enough to move.
        assert!(timelines >= 3 && moved > 256, "{moved} tokens into {timelines} timelines");
        let answer = ask(&hobd, "What is my locker code?", &hob);
        check(&answer, cells);
        assert_eq!(answer["hob"]["recalled"], 2, "{answer}");
        assert!(text(&answer).contains("48213"), "{answer}");
    }
}

#[test]
fn without_it_a_conversation_passes_its_cells_and_ends_with_what_the_model_was_trained_with() {
    const CELLS: u64 = 400;
    let trained = u64::from(TRAINED);
    let directory = tempfile::tempdir().unwrap();
    let model = short_model(directory.path());
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let launch = launch.args(["--model", model.to_str().unwrap(), "--slots", "1"]);
    let hobd = launch.args(["--ctx", &CELLS.to_string()]).start();
    let status = hobd.client.get("/v1/status");
    assert_eq!(status["conversation_tokens"], TRAINED, "{status}");
    let body = |turn: usize, max_tokens: Option<u64>| {
        let question = SMALL_TALK[turn % SMALL_TALK.len()];
        // Past end tokens, so that each answer has as many tokens as it may.
        json!({"conversation": "c", "messages": [{"role": "user", "content": question}],
            "hob": {"append": true}, "temperature": 0, "max_tokens": max_tokens,
            "ignore_eos": true})
    };
    let total = |answer: &Value| number(&answer["usage"]["total_tokens"]);
    let mut answers: Vec<Value> = Vec::new();
    while answers.last().is_none_or(|last| total(last) <= CELLS) {
        let answer = hobd.client.chat(&body(answers.len(), Some(20)));
        assert_eq!(answer["hob"]["context_full"], false, "{answer}");
        answers.push(answer);
    }
    answers.push(hobd.client.chat(&body(answers.len(), None)));
    for answer in &answers {
        let cells = &answer["hob"]["cells"];
        assert_eq!(cells["budget"], CELLS, "{answer}");
        assert!(number(&cells["peak"]) <= CELLS, "{answer}");
        assert_eq!(cells["no_eviction"], Value::Null, "{answer}");
    }
    let last = answers.last().unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], "length", "{last}");
    assert_eq!(last["hob"]["context_full"], true, "{last}");
    assert_eq!(total(last), trained, "{last}");
    let away = last["hob"]["cells"]["away"].as_array().unwrap();
    let away: u64 = away.iter().map(|part| number(&part["tokens"])).sum();
    assert!(away >= trained - 1 - CELLS, "{last}");

    let next = body(answers.len(), Some(20));
    let refused = hobd.client.call("POST", "/v1/chat/completions").json(&next).send();
    assert_eq!(refused.status, 400, "{}", refused.text());
    let error = refused.error();
    assert_eq!(error["code"], "context_length_exceeded", "{error}");
    assert_eq!(error["n_ctx"], TRAINED, "{error}");
}

#[test]
fn a_sliding_window_computes_its_new_timeline_and_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let model = asset("fixtures/gemma3.gguf");
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let hobd =
        launch.args(["--model", model.to_str().unwrap(), "--slots", "1", "--ctx", "512"]).start();
    let hob = json!({"beyond": "reanchor"});
    let timelines: Vec<Value> = (0..48)
        .map(|turn| {
            let text = format!("{turn}. {}", SMALL_TALK[turn % SMALL_TALK.len()]);
            let answer = ask(&hobd, &text, &hob);
            assert_eq!(answer["hob"]["context_full"], false, "{answer}");
            answer
        })
        .filter(|answer| !answer["hob"]["reanchored"].is_null())
        .collect();
    assert!(timelines.len() >= 2, "{}", timelines.len());
    for answer in timelines {
        assert_eq!(tokens(&answer, "moved"), 0, "{answer}");
        let why = answer["hob"]["immovable"].as_str().unwrap();
        assert!(why.contains("sliding-window"), "{why}");
    }
}
