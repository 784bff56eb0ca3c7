//! Answers that go on after a stop, a limit or a crash.

use hob_testkit::wait;
use serde_json::{Value, json};

use crate::common::{World, chat_body, merged, roles_and_texts, text, user};

const QUESTION: &str = "Say this: one two three four five six seven";
const ANSWER: &str = "one two three four five six seven";

fn room(extra: Value) -> Value {
    merged(json!({"conversation": "room", "hob": {"append": true}}), &extra)
}

fn cut_short(world: &World, tokens: usize) {
    let answer = world.chat(json!([user(QUESTION)]), room(json!({"max_tokens": tokens})));
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
}

fn go_on(world: &World, tokens: usize) -> Value {
    let hob = json!({"append": true, "continue": true});
    world.chat(json!([]), room(json!({"hob": hob, "max_tokens": tokens})))
}

#[test]
fn an_answer_that_reached_its_limit_goes_on_in_the_same_message() {
    let world = World::new();
    cut_short(&world, 7);
    let before = world.conversation("room");

    let answer = go_on(&world, 100);

    assert_eq!(text(&answer), ANSWER);
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert_eq!(answer["hob"]["tokens"]["computed"], 1, "{}", answer["hob"]);
    assert_eq!(answer["usage"]["completion_tokens"], ANSWER.len() - 7 + 1);
    let after = world.conversation("room");
    assert_eq!(after["messages"].as_array().unwrap().len(), 2);
    assert_eq!(after["messages"][1]["id"], before["messages"][1]["id"]);
    assert_eq!(after["messages"][1]["status"], "complete");
    assert_eq!(after["messages"][1]["content"], ANSWER);
    let found = world.get("/v1/conversations?q=seven").json();
    assert_eq!(found["data"][0]["id"], "room", "the whole text is searched");
}

#[test]
fn the_prompt_that_is_shown_ends_with_the_answer_that_goes_on() {
    let world = World::new();
    cut_short(&world, 7);
    let hob = json!({"append": true, "continue": true});
    let body = chat_body(json!([]), room(json!({"hob": hob})));
    let shown = world.post("/apply-template", body).json();
    let prompt = shown["prompt"].as_str().unwrap_or_else(|| panic!("{shown}"));
    assert!(prompt.ends_with("<|im_start|>assistant\none two"), "{prompt}");
    assert_eq!(prompt.matches("one two three").count(), 1, "the question alone: {prompt}");
}

#[test]
fn a_stream_of_a_continuation_has_the_new_text_and_says_what_precedes_it() {
    let world = World::new();
    cut_short(&world, 7);
    let hob = json!({"append": true, "continue": true});
    let mut stream = world.stream(json!([]), room(json!({"hob": hob, "max_tokens": 100})));
    let chunks: Vec<Value> = std::iter::from_fn(|| stream.try_next_data().ok()?)
        .take_while(|data| data != "[DONE]")
        .map(|data| serde_json::from_str(&data).unwrap())
        .collect();
    let address = &chunks[0]["hob"];
    assert_eq!(address["continued"]["content"], "one two");
    assert_eq!((&address["message"], &address["parent"]), (&json!(2), &json!(1)));
    let texts = chunks.iter().map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
    assert_eq!(texts.flatten().collect::<String>(), &ANSWER[7..]);
}

#[test]
fn an_answer_that_was_stopped_goes_on_and_can_be_stopped_again() {
    let world = World::new();
    // A letter each 10 ms: of the last word's repetitions, some are left for six seconds.
    let words = format!("one two {}", ["three"; 100].join(" "));
    let slow = format!("Say this slowly: {words}");
    for part in ["two", "three"] {
        let hob = json!({"append": true, "continue": part == "three"});
        let messages = if part == "two" { json!([user(&slow)]) } else { json!([]) };
        let mut stream = world.stream(messages, room(json!({"hob": hob, "max_tokens": 1000})));
        let mut said = String::new();
        while !said.contains(part) {
            let data = stream.try_next_data().unwrap().unwrap();
            let chunk: Value = serde_json::from_str(&data).unwrap();
            said += chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default();
        }
        drop(stream);
        wait::until("it is stopped", || {
            let last = world.conversation("room")["messages"][1].clone();
            let is_there = last["content"].as_str().unwrap().contains(part);
            (last["status"] == "interrupted" && is_there).then_some(())
        });
    }

    let answer = go_on(&world, 1000);

    assert_eq!(text(&answer), words);
    let computed = answer["hob"]["tokens"]["computed"].as_u64().unwrap();
    assert!(computed <= 2, "{}", answer["hob"]);
}

#[test]
fn an_answer_goes_on_after_a_restart_without_its_timeline() {
    let directory = tempfile::tempdir().unwrap();
    let start = || crate::common::Plan::new().directory(directory.path()).start();
    let mut world = start();
    cut_short(&world, 7);
    world.stop();
    drop(world);
    let sql = rusqlite::Connection::open(directory.path().join("transcripts.sqlite")).unwrap();
    sql.execute_batch(
        "DELETE FROM tokens; UPDATE messages SET status = 'interrupted' WHERE id = 2",
    )
    .unwrap();
    drop(sql);
    let world = start();
    assert_eq!(text(&go_on(&world, 100)), ANSWER);
}

#[test]
fn an_edited_answer_goes_on_from_its_new_text() {
    let world = World::new();
    cut_short(&world, 7);
    let path = "/v1/conversations/room/messages/2";
    let edited = world.call("PATCH", path).json(&json!({"content": "uno dos"})).send().json();
    assert_eq!(edited["message"], 3);

    assert_eq!(text(&go_on(&world, 100)), format!("uno dos{}", &ANSWER[7..]));
    assert_eq!(
        world.conversation("room")["messages"][1]["content"],
        "one two",
        "the old one stays"
    );
}

#[test]
fn an_answer_that_is_over_is_asked_for_more() {
    let world = World::new();
    world.chat(json!([user(QUESTION)]), room(json!({"max_tokens": 100})));
    let answer = go_on(&world, 100);
    assert_eq!((text(&answer).as_str(), &answer["hob"]["message"]), (ANSWER, &json!(2)));
}

#[test]
fn only_an_answer_that_nothing_follows_goes_on() {
    let world = World::new();
    let refused = |hob: Value, extra: Value| {
        let fields = merged(room(json!({ "hob": hob })), &extra);
        let answer = world.post("/v1/chat/completions", chat_body(json!([]), fields));
        assert_eq!(answer.status, 400, "{}", answer.text());
        answer.json()["error"]["param"].clone()
    };
    let go_on = json!({"append": true, "continue": true});
    assert_eq!(refused(go_on.clone(), json!({})), "hob.continue", "there is no conversation");
    cut_short(&world, 7);
    cut_short(&world, 7);
    let after = |id: u64| json!({"append": true, "continue": true, "after": id});
    for id in [0, 1, 2, 3] {
        assert_eq!(refused(after(id), json!({})), "hob.continue", "{id}");
    }
    assert_eq!(refused(after(99), json!({})), "hob.after");
    assert_eq!(refused(go_on.clone(), json!({"messages": [user("x")]})), "hob.continue");
    assert_eq!(refused(go_on.clone(), json!({"n": 2})), "hob.continue");
    for limit in ["max_tokens", "max_completion_tokens", "n_predict"] {
        assert_eq!(refused(go_on.clone(), json!({limit: 0})), "hob.continue", "{limit}");
    }
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": {}}});
    let forced = json!({"tools": [tool], "tool_choice": "required"});
    assert_eq!(refused(go_on, forced), "tool_choice");
    let said = roles_and_texts(&world.conversation("room"));
    assert_eq!(said.iter().filter(|(_, text)| text == "one two").count(), 2, "nothing changed");
}

#[cfg(feature = "llama")]
mod llama {
    use hob_testkit::{Client, Launch, wait};
    use serde_json::{Value, json};

    use crate::common::home::saved;

    const QUESTION: &str = "My locker code is 48213.";

    fn ask(client: &Client, conversation: &str, hob: Value, limit: usize) -> Value {
        let messages = match hob["continue"] {
            Value::Null => json!([{"role": "user", "content": QUESTION}]),
            _ => json!([]),
        };
        client.chat(&json!({"conversation": conversation, "hob": hob, "temperature": 0,
            "max_tokens": limit, "messages": messages}))
    }

    #[test]
    fn a_greedy_answer_in_parts_equals_one_in_a_piece_and_each_part_computes_one_token() {
        let directory = tempfile::tempdir().unwrap();
        let hobd = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
        let hobd = hobd.args(["--threads", "1", "--voice-command", "off"]);
        let started = hobd.start();
        let append = json!({"append": true});
        let whole = ask(&started.client, "whole", append.clone(), 100);
        let whole = whole["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
        let go_on = json!({"append": true, "continue": true});

        ask(&started.client, "parts", append, 3);
        let mut answer = Value::Null;
        for part in 0..100 {
            answer = ask(&started.client, "parts", go_on.clone(), 2);
            assert_eq!(answer["hob"]["tokens"]["computed"], 1, "part {part}: {}", answer["hob"]);
            if answer["choices"][0]["finish_reason"] == "stop" {
                break;
            }
        }
        assert_eq!(answer["choices"][0]["message"]["content"], whole);
        let stored = started.client.get("/v1/conversations/parts");
        assert_eq!(stored["messages"].as_array().unwrap().len(), 2);
        assert_eq!(stored["messages"][1]["content"], whole);

        // After a restart the beginning comes from disk.
        ask(&started.client, "restart", json!({"append": true}), 4);
        wait::until("it is saved", || saved(&started.client, "restart"));
        drop(started);
        let started = hobd.start();
        let answer = ask(&started.client, "restart", go_on, 100);
        assert_eq!(answer["choices"][0]["message"]["content"], whole);
        assert!(answer["hob"]["tokens"]["disk"].as_u64().unwrap() > 0, "{}", answer["hob"]);
    }
}
