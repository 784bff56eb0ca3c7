//! A conversation that outgrows the context goes on with its newest part.

use std::path::Path;

use hob_testkit::{Hobd, Launch, wait};
use serde_json::{Value, json};

const CTX: u64 = 640;
const SYSTEM: &str = "You are Ember.";

fn start(directory: &Path) -> Hobd {
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory);
    launch
        .args(["--model", "fake", "--ctx", &CTX.to_string(), "--slots", "1", "--eviction", "off"])
        .start()
}

#[test]
fn a_prompt_that_does_not_fit_is_refused_in_openai_s_words() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let messages = json!([{"role": "user", "content": "x".repeat(900)}]);
    for stream in [false, true] {
        let body = json!({"messages": messages, "stream": stream});
        let answer = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
        assert_eq!(answer.status, 400);
        let error = answer.error();
        assert_eq!(error["type"], "exceed_context_size_error");
        assert_eq!(error["code"], "context_length_exceeded");
        assert_eq!(error["param"], "messages");
        let message = error["message"].as_str().unwrap();
        let expected = "This model's maximum context length is 640 tokens. However, your messages \
                        resulted in ";
        let rest = message.strip_prefix(expected).unwrap_or_else(|| panic!("{message}"));
        let tokens: u64 = rest.split(' ').next().unwrap().parse().unwrap();
        assert!(tokens > 900, "{message}");
    }
}

#[test]
fn a_conversation_goes_on_with_its_newest_part_and_keeps_its_text() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    let turns = chat.fill();

    let refused = chat.try_say("Say this: once more", &json!({}));
    assert_eq!(refused.error()["code"], "context_length_exceeded");
    assert_eq!(chat.messages().len(), 1 + 2 * turns, "a refused message is not stored");

    let answer = chat.say("Say this: once more", &json!({"newest": true}));
    assert_eq!(answer["choices"][0]["message"]["content"], "once more");
    let left_out = answer["hob"]["left_out"].as_u64().unwrap();
    assert!(left_out >= 2 && left_out.is_multiple_of(2), "whole turns: {answer}");
    let prompt = answer["usage"]["prompt_tokens"].as_u64().unwrap();
    assert!(prompt <= CTX * 3 / 4, "a quarter is left for the answer: {answer}");
    assert!(prompt > CTX / 2, "as many messages as fit: {answer}");

    let messages = chat.messages();
    assert_eq!(messages.len(), 1 + 2 * (turns + 1), "the text stays whole");
    let starts = messages.iter().position(|message| message["starts_prompt"] == true);
    assert_eq!(starts, Some(1 + left_out as usize));

    // The cut stays: the next turn needs no second one, and computes only what is new.
    let next = chat.say("Say this: and on", &json!({}));
    assert_eq!(next["hob"]["left_out"], left_out);
    let computed = next["hob"]["tokens"]["computed"].as_u64().unwrap();
    assert!(computed < 80, "{next}");

    chat.restart();
    let after_restart = chat.say("Say this: still", &json!({}));
    assert_eq!(after_restart["hob"]["left_out"], left_out);
    assert!(after_restart["hob"]["tokens"]["disk"].as_u64().unwrap() > 0, "{after_restart}");
}

#[test]
fn the_prompt_that_is_shown_is_the_newest_part() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    chat.fill();
    let body = json!({
        "conversation": "c", "messages": [{"role": "user", "content": "Say this: more"}],
        "hob": {"append": true, "newest": true},
    });
    let shown = chat.hobd.client.post("/apply-template", &body);
    let prompt = shown["prompt"].as_str().unwrap();
    assert!(prompt.contains(SYSTEM) && prompt.contains("Say this: more"), "{prompt}");
    assert!(!prompt.contains("turn number 0"), "{prompt}");
    let tokens = chat.hobd.client.post("/tokenize", &json!({"content": prompt}));
    let answer = chat.say("Say this: more", &json!({"newest": true}));
    let expected = tokens["tokens"].as_array().unwrap().len();
    assert_eq!(answer["usage"]["prompt_tokens"], expected, "{answer}");
}

#[test]
fn the_instructions_stay_in_the_newest_part() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    chat.fill();
    chat.say("Say this: more", &json!({"newest": true}));
    // The same text without a cut: instructions, then what follows the mark.
    let messages = chat.messages();
    let start = messages.iter().position(|message| message["starts_prompt"] == true).unwrap();
    let part = |message: &Value| json!({"role": message["role"], "content": message["content"]});
    let newest = messages[..1].iter().chain(&messages[start..]).map(part);
    let question = json!({"role": "user", "content": "Say this: end"});
    let whole: Vec<Value> = newest.chain([question]).collect();
    let expected = chat.hobd.client.chat(&json!({"messages": whole}));
    let answer = chat.say("Say this: end", &json!({}));
    assert_eq!(answer["usage"]["prompt_tokens"], expected["usage"]["prompt_tokens"]);
}

#[test]
fn pinned_messages_stay_in_the_newest_part() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    chat.say("Say this: pinned", &json!({}));
    let pinned = chat.messages()[1]["id"].clone();
    let path = format!("/v1/conversations/c/messages/{pinned}");
    chat.hobd.client.patch(&path, &json!({"hob": {"pin": true}}));
    chat.fill();
    let answer = chat.say("Say this: more", &json!({"newest": true}));
    let left_out = answer["hob"]["left_out"].as_u64().unwrap() as usize;
    let messages = chat.messages();
    let start = messages.iter().position(|message| message["starts_prompt"] == true).unwrap();
    assert!(left_out >= 2, "{answer}");
    assert_eq!(start, 1 + 2 + left_out, "the pinned message stays with its answer");

    // The same text without a cut: instructions, what is pinned, then what follows the mark.
    let part = |message: &Value| json!({"role": message["role"], "content": message["content"]});
    let newest = messages[..3].iter().chain(&messages[start..]).map(part);
    let question = json!({"role": "user", "content": "Say this: end"});
    let whole: Vec<Value> = newest.chain([question]).collect();
    let expected = chat.hobd.client.chat(&json!({"messages": whole}));
    chat.restart();
    let answer = chat.say("Say this: end", &json!({}));
    assert_eq!(answer["usage"]["prompt_tokens"], expected["usage"]["prompt_tokens"]);
    assert_eq!(answer["hob"]["left_out"], left_out);
}

#[test]
fn a_branch_from_before_the_cut_reads_everything() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    chat.fill();
    chat.say("Say this: more", &json!({"newest": true}));
    let second_answer = chat.messages()[4]["id"].clone();
    let answer = chat.say("Say this: aside", &json!({"after": second_answer}));
    assert_eq!(answer["hob"]["left_out"], 0);
}

#[test]
fn a_conversation_that_fits_is_not_cut() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    chat.say("Say this: one", &json!({}));
    let answer = chat.say("Say this: two", &json!({"newest": true}));
    assert_eq!(answer["hob"]["left_out"], 0);
    assert!(chat.messages().iter().all(|message| message["starts_prompt"] == false));
}

#[test]
fn an_answer_that_fills_the_context_says_so_and_is_given_again_with_room() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    let long = "abcdefgh ".repeat(16);
    chat.say(&format!("Say this: {long}"), &json!({}));
    let full = chat.say(&format!("Say this: {long}"), &json!({}));
    assert_eq!(full["choices"][0]["finish_reason"], "length", "{full}");
    assert_eq!(full["hob"]["context_full"], true);
    let body = json!({
        "conversation": "c", "messages": [], "temperature": 0,
        "hob": {"append": true, "newest": true},
    });
    let again = chat.hobd.client.chat(&body);
    assert_eq!(again["choices"][0]["finish_reason"], "stop", "{again}");
    assert_eq!(again["hob"]["left_out"], 2);
    assert_eq!(again["hob"]["context_full"], false);
}

#[test]
fn a_limit_of_the_request_does_not_look_like_a_full_context() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let answer = hobd.client.chat(&json!({
        "messages": [{"role": "user", "content": "Say this: a long answer"}], "max_tokens": 3,
    }));
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    assert_eq!(answer["hob"]["context_full"], false);
}

#[test]
fn an_exported_conversation_is_imported_with_its_cut() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    chat.fill();
    let cut = chat.say("Say this: more", &json!({"newest": true}));
    let client = &chat.hobd.client;
    let document = client.get("/v1/conversations/c/export?format=json");
    client.call("DELETE", "/v1/conversations/c").send();
    client.post("/v1/conversations/import", &document);
    let answer = chat.say("Say this: on", &json!({}));
    assert_eq!(answer["hob"]["left_out"], cut["hob"]["left_out"]);
}

/// The conversation `c`, which begins with instructions.
struct Chat<'d> {
    hobd: Hobd,
    directory: &'d Path,
    is_new: bool,
}

impl<'d> Chat<'d> {
    fn start(directory: &'d Path) -> Self {
        Self { hobd: start(directory), directory, is_new: true }
    }

    fn restart(&mut self) {
        self.hobd.process.terminate(wait::PATIENCE);
        self.hobd = start(self.directory);
    }

    /// Talks until nothing more fits. Returns the number of turns.
    fn fill(&mut self) -> usize {
        let mut turns = 0;
        while self.try_say(&format!("Say this: turn number {turns}"), &json!({})).status == 200 {
            turns += 1;
        }
        turns
    }

    fn say(&mut self, text: &str, hob: &Value) -> Value {
        let answer = self.try_say(text, hob);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    fn try_say(&mut self, text: &str, hob: &Value) -> hob_testkit::Answer {
        let mut hob = hob.clone();
        hob["append"] = true.into();
        let system = self.is_new.then(|| json!({"role": "system", "content": SYSTEM}));
        let user = json!({"role": "user", "content": text});
        let messages: Vec<Value> = system.into_iter().chain([user]).collect();
        self.is_new = false;
        let body = json!({"conversation": "c", "messages": messages, "hob": hob, "temperature": 0});
        self.hobd.client.call("POST", "/v1/chat/completions").json(&body).send()
    }

    fn messages(&self) -> Vec<Value> {
        let whole = self.hobd.client.get("/v1/conversations/c");
        whole["messages"].as_array().unwrap().clone()
    }
}
