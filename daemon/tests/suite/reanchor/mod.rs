//! `hob.beyond`: a conversation goes on past the context, through hobd on the fake backend, a token a byte.
//!
//! - `history`: which messages a new timeline has.
//! - `recalled`: which of those that left come back.
//! - `profile`: the setting of a profile.
//! - `llama_cpp`: real models.

mod history;
#[cfg(feature = "llama")]
mod llama_cpp;
mod profile;
mod recalled;

use std::path::Path;

use hob_testkit::{Hobd, Launch, wait};
use serde_json::{Value, json};

use crate::common::merged;

const CTX: u64 = 1280;
const SYSTEM: &str = "You are Ember.";
const FACT: &str = "My locker code is 48213.";

/// A conversation may be as long as its cells, or, with blocks that leave them, as the context.
fn start(directory: &Path, arguments: &[&str]) -> Hobd {
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory);
    let launch = launch.args(["--model", "fake", "--ctx", &CTX.to_string(), "--slots", "2"]);
    launch.args(["--eviction", "off"]).args(arguments).start()
}

/// The conversation `c`, which begins with instructions and a fact.
struct Chat<'d> {
    hobd: Hobd,
    directory: &'d Path,
    hob: Value,
    turns: usize,
}

impl<'d> Chat<'d> {
    fn start(directory: &'d Path) -> Self {
        let hobd = start(directory, &[]);
        let chat = Self { hobd, directory, hob: json!({"beyond": "reanchor"}), turns: 0 };
        let system = json!({"role": "system", "content": SYSTEM});
        let fact = json!({"role": "user", "content": FACT});
        chat.post(&json!([system, fact]), &json!({}));
        chat
    }

    fn restart(&mut self) {
        self.hobd.process.terminate(wait::PATIENCE);
        self.hobd = start(self.directory, &[]);
    }

    fn try_post(&self, messages: &Value, more: &Value) -> hob_testkit::Answer {
        let hob = merged(merged(self.hob.clone(), &json!({"append": true})), more);
        let body = json!({"conversation": "c", "messages": messages, "hob": hob, "temperature": 0,
            "max_tokens": 60});
        self.hobd.client.call("POST", "/v1/chat/completions").json(&body).send()
    }

    fn post(&self, messages: &Value, more: &Value) -> Value {
        let answer = self.try_post(messages, more);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    fn ask(&self, text: &str) -> Value {
        self.post(&json!([{"role": "user", "content": text}]), &json!({}))
    }

    fn talk(&mut self) -> Value {
        self.turns += 1;
        let turn = self.turns;
        self.ask(&format!("Say this: {}", words(turn)))
    }

    /// Talks until a new timeline begins, and checks each answer.
    fn talk_until_reanchored(&mut self) -> Value {
        for _ in 0..20 {
            let answer = self.talk();
            check(&answer);
            if !answer["hob"]["reanchored"].is_null() {
                return answer;
            }
        }
        panic!("no new timeline begins");
    }

    /// What the model reads of it.
    fn prompt(&self) -> String {
        let request = json!({"conversation": "c", "messages": [], "hob": {"append": true}});
        let prompt = self.hobd.client.post("/apply-template", &request)["prompt"].clone();
        prompt.as_str().unwrap().to_owned()
    }

    fn messages(&self) -> Vec<Value> {
        let whole = self.hobd.client.get("/v1/conversations/c");
        whole["messages"].as_array().unwrap().clone()
    }
}

/// Words of this turn alone: each window of them occurs once in its conversation.
fn words(turn: usize) -> String {
    (0..12).map(|n| format!("w{turn}x{n} ")).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn tokens(answer: &Value, place: &str) -> u64 {
    number(&answer["hob"]["tokens"][place])
}

/// The prompt fits with room for its answer, which is whole, and its tokens add up.
fn check(answer: &Value) {
    assert_eq!(answer["hob"]["context_full"], false, "{answer}");
    let prompt = number(&answer["usage"]["prompt_tokens"]);
    assert!(prompt + 60 <= CTX, "{answer}");
    let places = ["shared", "memory", "disk", "away", "moved", "computed"];
    let sum: u64 = places.iter().map(|place| tokens(answer, place)).sum();
    assert_eq!(prompt, sum, "{answer}");
    assert!(number(&answer["hob"]["cells"]["peak"]) <= CTX, "{answer}");
}

#[test]
fn a_conversation_passes_the_context_again_and_again_and_its_kv_is_moved() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    for round in 0..4 {
        let answer = chat.talk_until_reanchored();
        let reanchored = &answer["hob"]["reanchored"];
        let [kept, left, moved, repaired] =
            ["kept", "left", "moved", "repaired"].map(|field| number(&reanchored[field]));
        assert_eq!(left, number(&answer["hob"]["left_out"]), "{answer}");
        assert_eq!(moved, tokens(&answer, "moved"));
        assert_eq!(repaired, tokens(&answer, "repaired"));
        let prompt = number(&answer["usage"]["prompt_tokens"]);
        assert!(prompt <= CTX / 2, "half of it is free: {answer}");
        assert!(moved > prompt / 2, "round {round}: {answer}");
        assert_eq!(answer["hob"]["explanation"], Value::Null, "{answer}");
        // Whole turns, and the question.
        assert!(kept % 2 == 1 && left.is_multiple_of(2), "{answer}");
        let all = chat.messages().len() as u64;
        assert_eq!(kept + left, all - 2, "all but the instructions and the answer");
        // The next turn goes on with it, also after a restart.
        if round % 2 == 1 {
            chat.restart();
        }
        let next = chat.talk();
        check(&next);
        assert_eq!(next["hob"]["reanchored"], Value::Null);
        assert_eq!(next["hob"]["left_out"], left);
        assert!(tokens(&next, "computed") < 200, "{next}");
    }
    // The text is whole.
    let messages = chat.messages();
    assert_eq!(messages.len(), 3 + 2 * chat.turns);
    assert_eq!(messages[1]["content"], FACT);
}

#[test]
fn without_it_the_conversation_ends_with_the_context() {
    let directory = tempfile::tempdir().unwrap();
    for hob in [json!({}), json!({"beyond": "end"})] {
        let name = if hob == json!({}) { "c1" } else { "c2" };
        let hobd = start(directory.path(), &[]);
        let mut turns = 0;
        let last = loop {
            let mut hob = hob.clone();
            hob["append"] = true.into();
            let text = format!("Say this: {}", words(turns));
            let body = json!({"conversation": name, "temperature": 0, "hob": hob,
                "messages": [{"role": "user", "content": text}]});
            let answer = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
            if answer.status != 200 {
                break answer.error()["code"].clone();
            }
            let answer = answer.json();
            assert_eq!(answer["hob"]["reanchored"], Value::Null);
            if answer["hob"]["context_full"] == true {
                break answer["choices"][0]["finish_reason"].clone();
            }
            turns += 1;
            assert!(turns < 20);
        };
        assert!(last == "length" || last == "context_length_exceeded", "{last}");
    }
}

#[test]
fn another_conversation_is_answered_as_if_the_new_timeline_did_not_exist() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    let moved = chat.talk_until_reanchored();
    assert!(tokens(&moved, "moved") > 0);
    // The same prompt, of a conversation of its own.
    let messages = chat.messages();
    let start = messages.iter().position(|message| message["starts_prompt"] == true).unwrap();
    let part = |message: &Value| json!({"role": message["role"], "content": message["content"]});
    let last = messages.len() - 1; // The answer.
    let same: Vec<Value> = messages[..1].iter().chain(&messages[start..last]).map(part).collect();
    let written = chat.hobd.client.post("/apply-template", &json!({"messages": same}));
    assert_eq!(written["prompt"], chat.prompt());
    let ask = |hob: Value| {
        chat.hobd.client.chat(&json!({"conversation": "other", "messages": same, "temperature": 0,
            "max_tokens": 60, "hob": hob}))
    };
    let exact = ask(json!({}));
    let cold = ask(json!({"cold": true}));
    let content = |answer: &Value| answer["choices"][0]["message"]["content"].clone();
    assert_eq!(content(&exact), content(&cold));
    assert_eq!(tokens(&exact, "moved"), 0);
    let front = tokens(&exact, "shared") + tokens(&exact, "memory") + tokens(&exact, "disk");
    assert!(front < 128, "the instructions at most: {exact}");
}

#[test]
fn it_is_told_by_explain() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    let answer = chat.talk_until_reanchored();
    let asked = chat.ask("What is my locker code?");
    let explained = chat.hobd.client.get("/v1/conversations/c/explain");
    assert_eq!(explained["moves"][0]["recalled"], asked["hob"]["recalled"], "{explained}");
    assert_eq!(explained["moves"][1]["reanchored"], answer["hob"]["reanchored"], "{explained}");
    assert_eq!(explained["explanation"], Value::Null, "{explained}");
}
