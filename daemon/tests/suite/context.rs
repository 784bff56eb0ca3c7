//! How full a conversation's context is, whether its next answer begins at once, its instructions,
//! and room in it.

use std::path::Path;
use std::sync::mpsc;

use hob_testkit::{Hobd, Launch, wait};
use serde_json::{Value, json};

use crate::common::Plan;

const CTX: u64 = 640;

fn launch(directory: &Path) -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory);
    launch.args(["--model", "fake", "--ctx", &CTX.to_string(), "--slots", "1", "--eviction", "off"])
}

fn start(directory: &Path) -> Hobd {
    launch(directory).start()
}

fn say(hobd: &Hobd, conversation: &str, text: &str) -> Value {
    hobd.client.say(conversation, &format!("Say this: {text}"))
}

fn context(hobd: &Hobd, conversation: &str) -> Value {
    hobd.client.get(&format!("/v1/conversations/{conversation}/context"))
}

fn listed(hobd: &Hobd, conversation: &str) -> Value {
    let list = hobd.client.get("/v1/conversations");
    let chats = list["data"].as_array().unwrap();
    chats.iter().find(|chat| chat["id"] == conversation).unwrap().clone()
}

/// Asserts that the prompt of the answer to "and on" was the summary and these messages.
fn assert_prompt<'a>(
    hobd: &Hobd,
    answer: &Value,
    summary: &str,
    messages: impl IntoIterator<Item = &'a Value>,
) {
    let system = format!("Summary of the earlier part of this conversation:\n{summary}");
    let part = |message: &Value| json!({"role": message["role"], "content": message["content"]});
    let question = json!({"role": "user", "content": "Say this: and on"});
    let whole: Vec<Value> = [json!({"role": "system", "content": system})]
        .into_iter()
        .chain(messages.into_iter().map(part))
        .chain([question])
        .collect();
    let expected = hobd.client.chat(&json!({"messages": whole}));
    assert_eq!(answer["usage"]["prompt_tokens"], expected["usage"]["prompt_tokens"]);
}

#[test]
fn the_context_of_a_conversation_is_the_prompt_of_its_next_turn() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let empty = context(&hobd, "c");
    assert_eq!((&empty["max_tokens"], &empty["ready"]), (&json!(CTX), &json!(false)), "{empty}");

    let answer = say(&hobd, "c", "a few words to remember");
    let used = context(&hobd, "c");
    let total = answer["usage"]["total_tokens"].as_u64().unwrap();
    let tokens = used["tokens"].as_u64().unwrap();
    assert!(tokens.abs_diff(total) < 20, "{used} after {total} tokens");
    assert!(tokens > empty["tokens"].as_u64().unwrap(), "{used}");
    assert_eq!((&used["ready"], &used["read_ms"]), (&json!(true), &Value::Null), "{used}");
}

#[test]
fn the_context_says_whether_the_next_request_goes_on_past_it() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    say(&hobd, "c", "first");
    let goes_on = |query: &str| {
        let used = hobd.client.get(&format!("/v1/conversations/c/context{query}"));
        used["goes_on"].clone()
    };
    let said = ["", "?beyond=end", "?beyond=reanchor"].map(goes_on);
    assert_eq!(said, [json!(false), json!(false), json!(true)]);
    let refused = hobd.client.call("GET", "/v1/conversations/c/context?beyond=ever").send();
    assert_eq!(refused.status, 400, "{}", refused.text());
}

#[test]
fn a_chat_is_ready_from_any_tier_and_is_read_again_once_its_kv_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let mut hobd = start(directory.path());
    say(&hobd, "a", &"long enough to matter ".repeat(8));
    assert_eq!(listed(&hobd, "a")["ready"], true);
    say(&hobd, "b", "other");
    let parked = listed(&hobd, "a");
    assert_eq!((&parked["place"], &parked["ready"]), (&json!("memory"), &json!(true)), "{parked}");
    hobd.process.terminate(wait::PATIENCE);

    let hobd = start(directory.path());
    let cold = listed(&hobd, "a");
    assert_eq!((&cold["place"], &cold["ready"]), (&json!("disk"), &json!(true)), "{cold}");
    hobd.client.post("/v1/slots/remove", &json!({"conversations": ["a"]}));
    let gone = listed(&hobd, "a");
    assert_eq!((&gone["place"], &gone["ready"]), (&json!("none"), &json!(false)), "{gone}");
    let used = context(&hobd, "a");
    assert_eq!((&used["ready"], &used["ready_tokens"]), (&json!(false), &json!(0)), "{used}");
    assert!(gone["read_ms"].is_u64(), "the speed was measured: {gone}");
    assert!(used["read_ms"].is_u64(), "{used}");
}

#[test]
fn a_conversation_has_instructions_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let mut hobd = start(directory.path());
    let question = json!([{"role": "user", "content": "Say this: one"}]);
    let instructions = "You are Ember.";
    hobd.client.chat(&json!({
        "conversation": "c", "messages": question, "hob": {"append": true, "instructions": instructions},
    }));
    let second = say(&hobd, "c", "two");
    let text = hobd.client.get("/v1/conversations/c");
    assert_eq!(text["instructions"], instructions);
    assert_eq!(text["messages"].as_array().unwrap().len(), 4, "they are no message");

    // The prompt is that of a system message in front.
    let part = |message: &Value| json!({"role": message["role"], "content": message["content"]});
    let messages = text["messages"].as_array().unwrap()[..3].iter().map(part);
    let system = json!({"role": "system", "content": instructions});
    let whole: Vec<Value> = [system].into_iter().chain(messages).collect();
    let expected = hobd.client.chat(&json!({"messages": whole}));
    assert_eq!(second["usage"]["prompt_tokens"], expected["usage"]["prompt_tokens"]);

    // They are changed without a message, and outlive a restart and an export.
    let changed = hobd.client.patch("/v1/conversations/c", &json!({"instructions": " Be brief. "}));
    assert_eq!(changed["instructions"], "Be brief.");
    hobd.process.terminate(wait::PATIENCE);
    hobd = start(directory.path());
    let document = hobd.client.get("/v1/conversations/c/export?format=json");
    assert_eq!(document["instructions"], "Be brief.");
    hobd.client.call("DELETE", "/v1/conversations/c").send();
    hobd.client.post("/v1/conversations/import", &document);
    assert_eq!(hobd.client.get("/v1/conversations/c")["instructions"], "Be brief.");
}

#[test]
fn instructions_replace_the_system_messages_of_a_conversation() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    hobd.client.chat(&json!({"conversation": "c", "hob": {"append": true}, "messages": [
        {"role": "system", "content": "You are a very wordy assistant, and repeat yourself."},
        {"role": "user", "content": format!("Say this: {}", "one ".repeat(20))},
    ]}));
    let before = context(&hobd, "c")["tokens"].as_u64().unwrap();
    hobd.client.patch("/v1/conversations/c", &json!({"instructions": "Be brief."}));
    let after = context(&hobd, "c");
    assert!(after["tokens"].as_u64().unwrap() < before, "{after}");
    assert_eq!(after["ready"], false, "its KV begins with the other instructions");
    hobd.client.patch("/v1/conversations/c", &json!({"instructions": ""}));
    let without = context(&hobd, "c")["tokens"].as_u64().unwrap();
    assert!(without < after["tokens"].as_u64().unwrap());
}

#[test]
fn instructions_need_a_stored_conversation() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let body =
        json!({"messages": [{"role": "user", "content": "Hi"}], "hob": {"instructions": "x"}});
    let refused = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
    assert_eq!(refused.error()["param"], "hob.instructions");
}

/// Fills the conversation `c` until nothing more fits. Returns the number of its messages.
fn fill(hobd: &Hobd) -> usize {
    for turn in 0.. {
        let text = format!("Say this: turn number {turn}");
        let body = json!({"conversation": "c", "hob": {"append": true},
            "messages": [{"role": "user", "content": text}]});
        if hobd.client.call("POST", "/v1/chat/completions").json(&body).send().status != 200 {
            break;
        }
    }
    messages(hobd).len()
}

fn messages(hobd: &Hobd) -> Vec<Value> {
    hobd.client.get("/v1/conversations/c")["messages"].as_array().unwrap().clone()
}

fn shorten(hobd: &Hobd, body: &Value) -> Vec<Value> {
    hobd.client.call("POST", "/v1/conversations/c/shorten").json(body).stream().collect()
}

#[test]
fn a_summary_takes_the_place_of_the_oldest_messages_and_the_text_stays() {
    let directory = tempfile::tempdir().unwrap();
    let mut hobd = start(directory.path());
    let count = fill(&hobd);
    let events = shorten(&hobd, &json!({}));
    assert!(events.iter().any(|event| event["hob"]["progress"]["tokens_total"].is_u64()));
    let text: String = events.iter().filter_map(|event| event["text"].as_str()).collect();
    let result = &events.last().unwrap()["result"];
    let summary = result["summary"].as_str().unwrap();
    assert_eq!(summary, text.trim());
    let left_out = result["left_out"].as_u64().unwrap() as usize;
    assert!(left_out >= 2 && left_out.is_multiple_of(2), "whole turns: {result}");

    let after = messages(&hobd);
    assert_eq!(after.len(), count, "the text stays whole");
    assert_eq!(after[left_out]["id"], result["start"]);
    assert_eq!(
        (&after[left_out]["starts_prompt"], &after[left_out]["summary"]),
        (&json!(true), &json!(summary))
    );
    let used = context(&hobd, "c");
    assert_eq!(used["left_out"], left_out);
    assert!(used["tokens"].as_u64().unwrap() < CTX * 3 / 4, "{used}");

    // The prompt is the summary, then the messages behind the cut.
    let answer = say(&hobd, "c", "and on");
    assert_eq!(answer["hob"]["left_out"], left_out);
    assert_prompt(&hobd, &answer, summary, &after[left_out..]);

    // It outlives a restart, a later cut, and an export.
    hobd.process.terminate(wait::PATIENCE);
    hobd = start(directory.path());
    fill(&hobd);
    let body = json!({"conversation": "c", "hob": {"append": true, "newest": true},
        "messages": [{"role": "user", "content": "Say this: further"}]});
    let cut = hobd.client.chat(&body);
    assert!(cut["hob"]["left_out"].as_u64().unwrap() as usize > left_out, "{cut}");
    let last = |messages: &[Value]| {
        let start = messages.iter().rfind(|message| message["starts_prompt"] == true);
        start.unwrap()["summary"].clone()
    };
    assert_eq!(last(&messages(&hobd)), summary);
    let document = hobd.client.get("/v1/conversations/c/export?format=json");
    hobd.client.call("DELETE", "/v1/conversations/c").send();
    hobd.client.post("/v1/conversations/import", &document);
    assert_eq!(last(&messages(&hobd)), summary);
}

#[test]
fn the_oldest_messages_are_left_out_at_once_without_a_summary() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    fill(&hobd);
    let generated = || hobd.client.get("/v1/status")["counters"]["generated_tokens"].clone();
    let before = generated();
    let events = shorten(&hobd, &json!({"summarise": false}));
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["result"]["summary"], Value::Null);
    assert_eq!(generated(), before);
    let used = context(&hobd, "c");
    assert!(used["tokens"].as_u64().unwrap() <= CTX / 2, "{used}");
    assert_eq!(used["left_out"], events[0]["result"]["left_out"]);
}

#[test]
fn an_answer_that_is_not_stored_follows_what_the_conversation_has_not_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    for turn in 0..6 {
        say(&hobd, "c", &format!("turn number {turn}"));
    }
    let input = "Say this: and on";
    let last = hobd.client.post("/v1/responses", &json!({"conversation": "c", "input": input}));
    let tokens = |store: bool| {
        let next = json!({"previous_response_id": last["id"], "input": input, "store": store});
        hobd.client.post("/v1/responses/input_tokens", &next)["input_tokens"].as_u64().unwrap()
    };
    let whole = tokens(false);
    let events = shorten(&hobd, &json!({"summarise": false}));
    assert!(events.last().unwrap()["result"]["left_out"].as_u64() >= Some(2), "{events:?}");
    assert!(tokens(false) < whole);
    assert_eq!(tokens(false), tokens(true));
}

#[test]
fn pinned_messages_stay_when_a_conversation_is_shortened() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    fill(&hobd);
    let path = format!("/v1/conversations/c/messages/{}", messages(&hobd)[0]["id"]);
    hobd.client.patch(&path, &json!({"hob": {"pin": true}}));
    let events = shorten(&hobd, &json!({}));
    let result = &events.last().unwrap()["result"];
    let left_out = result["left_out"].as_u64().unwrap() as usize;
    let all = messages(&hobd);
    let start = all.iter().position(|message| message["id"] == result["start"]).unwrap();
    assert_eq!(start, 2 + left_out, "the pinned message stays with its answer: {result}");

    // The prompt is the summary, what is pinned, then the messages behind the cut.
    let answer = say(&hobd, "c", "and on");
    assert_eq!(answer["hob"]["left_out"], left_out);
    let summary = result["summary"].as_str().unwrap();
    assert_prompt(&hobd, &answer, summary, all[..2].iter().chain(&all[start..]));
}

#[test]
fn a_summary_that_its_client_leaves_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(directory.path()).with_faults();
    let hobd = launch.start();
    fill(&hobd);
    // The engine pauses: the summary cannot be complete before its client leaves.
    let paused = launch.inject("engine", "wait");
    let summary = hobd.client.call("POST", "/v1/conversations/c/shorten").json(&json!({})).stream();
    assert_eq!(summary.status, 200, "it has begun");
    drop(summary);
    // The conversation is free again, also while the engine pauses: the next turn is queued.
    let body = json!({"conversation": "c", "hob": {"append": true, "newest": true}, "stream": true,
        "messages": [{"role": "user", "content": "Say this: on"}]});
    let next = hobd.client.call("POST", "/v1/chat/completions").json(&body).stream();
    assert_eq!(next.status, 200);
    paused.end();
    next.collect();
    assert!(messages(&hobd).iter().all(|message| message["summary"].is_null()));
}

#[test]
fn items_wait_while_the_conversation_is_shortened() {
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(directory.path()).args(["--queue", "1"]).with_faults();
    let hobd = launch.start();
    let count = fill(&hobd);
    let paused = launch.inject("engine", "wait");
    let summary = hobd.client.call("POST", "/v1/conversations/c/shorten").json(&json!({})).stream();
    assert_eq!(summary.status, 200, "it holds the conversation");
    let item = json!({"type": "message", "role": "user", "content": "Hi"});
    let (answered, answers) = mpsc::channel();
    for _ in 0..3 {
        let (client, answered) = (hobd.client.clone(), answered.clone());
        let body = json!({"items": [item]});
        std::thread::spawn(move || {
            let answer = client.call("POST", "/v1/conversations/c/items").json(&body).send();
            answered.send(answer.status).unwrap();
        });
    }
    let next = || answers.recv_timeout(wait::PATIENCE).unwrap();
    assert_eq!((next(), next()), (503, 503), "one request may wait");
    paused.end();
    summary.collect();
    assert_eq!(next(), 200);
    assert_eq!(messages(&hobd).len(), count + 1);
}

/// The conversation `c`, which has more text than the context holds.
fn long_document() -> Value {
    let message = |id: i64| {
        let role = if id % 2 == 1 { "user" } else { "assistant" };
        let content = format!("number {id} {}", "word ".repeat(20));
        json!({"id": id, "parent": if id > 1 { json!(id - 1) } else { Value::Null },
            "status": "complete", "message": {"role": role, "content": content}})
    };
    let all: Vec<Value> = (1..=20).map(message).collect();
    json!({"format": "hob conversation", "version": 1, "id": "c", "messages": all})
}

#[test]
fn more_text_than_the_context_holds_is_summarised_piece_by_piece() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    hobd.client.post("/v1/conversations/import", &long_document());
    assert!(context(&hobd, "c")["tokens"].as_u64().unwrap() > 2 * CTX);
    let events = shorten(&hobd, &json!({}));
    let result = &events.last().unwrap()["result"];
    assert!(result["summary"].is_string(), "{events:?}");
    let used = context(&hobd, "c");
    assert!(used["tokens"].as_u64().unwrap() < CTX * 3 / 4, "{used}");
}

#[test]
fn a_summary_goes_on_behind_a_wait_that_is_cancelled() {
    let plan = Plan::new().slots(1).context_tokens(CTX as usize).without_eviction();
    let world = plan.start();
    world.import("application/json", long_document().to_string());
    let shortened = world.shorten("c");
    assert!(shortened.summary.is_some() && shortened.left_out > 0, "{shortened:?}");
    let conversation = world.get("/v1/conversations/c").json();
    let messages = conversation["messages"].as_array().unwrap();
    let start = messages.iter().find(|message| message["starts_prompt"] == true).unwrap();
    assert_eq!(
        (&start["id"], &start["summary"]),
        (&json!(shortened.start), &json!(shortened.summary))
    );
}

#[test]
fn a_conversation_with_room_is_not_shortened() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    say(&hobd, "c", "one");
    let refused = hobd.client.call("POST", "/v1/conversations/c/shorten").json(&json!({})).send();
    assert_eq!(refused.error()["code"], "nothing_to_shorten");
    let unknown = hobd.client.call("POST", "/v1/conversations/d/shorten").json(&json!({})).send();
    assert_eq!((unknown.status, &unknown.error()["code"]), (404, &json!("conversation_not_found")));
}
