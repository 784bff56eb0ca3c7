//! A conversation of which parts are away is edited, answered once more, and given more cells. On the fake backend,
//! where an answer shows all that its tokens attended to.

use hob_testkit::{Hobd, Launch};
use serde_json::{Value, json};

use crate::budget::{BUDGET, moved, start};
use crate::common::{chat_body, computed, merged, text, user};

fn ask(hobd: &Hobd, messages: Value, hob: &Value, extra: &Value) -> Value {
    let hob = merged(json!({"append": true}), hob);
    let body = chat_body(messages, json!({"conversation": "chat", "hob": hob}));
    hobd.client.chat(&merged(body, extra))
}

/// Says so much that most of it leaves the cells. The first two turns are over before anything does. Returns the
/// answers.
fn talk(hobd: &Hobd) -> Vec<Value> {
    let say = |n: usize| {
        let statement = format!("Say this: statement {n} is about number {} alone", n * 7919);
        let hob = json!({"budget": BUDGET});
        ask(hobd, json!([user(&statement)]), &hob, &json!({"max_tokens": 80}))
    };
    (0..12).map(say).collect()
}

fn away(answer: &Value) -> &Vec<Value> {
    answer["hob"]["cells"]["away"].as_array().unwrap()
}

fn peak(answer: &Value) -> u64 {
    answer["hob"]["cells"]["peak"].as_u64().unwrap()
}

#[test]
fn an_edit_within_what_is_away_is_answered_as_if_nothing_had_left() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let before = talk(&hobd);
    let is_early = |part: &Value| {
        ["message 2", "message 3", "message 4"].map(Value::from).contains(&part["key"])
    };
    assert!(away(before.last().unwrap()).iter().any(is_early), "{before:?}");

    let edit = user("What was the first statement about?");
    let hob = json!({"after": before[1]["hob"]["message"], "budget": BUDGET});
    let answer = ask(&hobd, json!([edit]), &hob, &json!({"ignore_eos": true}));
    assert!(peak(&answer) <= BUDGET, "{answer}");
    assert!(away(&answer).is_empty(), "there is room for all before it: {answer}");
    assert!(computed(&answer) < 80, "what was saved is not computed: {answer}");

    // A hobd that has read the same text once, and all of it.
    let stored = hobd.client.get("/v1/conversations/chat");
    let messages: Vec<Value> = stored["messages"].as_array().unwrap()[..5]
        .iter()
        .map(|message| json!({"role": message["role"], "content": message["content"]}))
        .collect();
    assert_eq!(messages[4], edit);
    let elsewhere = tempfile::tempdir().unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), elsewhere.path());
    let alone = launch.args(["--model", "fake", "--ctx", "4096", "--slots", "1"]).start();
    let expected = alone.client.chat(&chat_body(json!(messages), json!({"ignore_eos": true})));
    assert_eq!(text(&answer), text(&expected), "{answer}");
}

#[test]
fn another_answer_stays_within_the_budget_and_computes_the_end_of_its_prompt_alone() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    talk(&hobd);
    let answer = ask(&hobd, json!([]), &json!({"budget": BUDGET}), &json!({"max_tokens": 80}));
    assert_eq!(text(&answer), "statement 11 is about number 87109 alone", "{answer}");
    assert!(peak(&answer) <= BUDGET, "{answer}");
    assert!(answer["hob"]["tokens"]["away"].as_u64().unwrap() > 0, "{answer}");
    assert!(computed(&answer) <= 64, "a block at most: {answer}");
}

#[test]
fn all_that_is_away_comes_back_where_a_larger_budget_has_room_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    talk(&hobd);
    let answer = ask(&hobd, json!([user("Go on.")]), &json!({}), &json!({}));
    assert_eq!(answer["hob"]["tokens"]["away"], 0, "{answer}");
    assert!(away(&answer).is_empty(), "{answer}");
    assert!(computed(&answer) < 80, "nothing is computed again: {answer}");
    let answers = [answer];
    let back = moved(&answers, "back");
    assert!(back.iter().any(|moved| moved["why"] == "room"), "{back:?}");

    // With the budget as before, parts leave again before the next message is computed.
    let answer = ask(&hobd, json!([user("And on.")]), &json!({"budget": BUDGET}), &json!({}));
    assert!(peak(&answer) <= BUDGET, "{answer}");
    assert!(answer["hob"]["tokens"]["away"].as_u64().unwrap() > 0, "{answer}");
    assert!(computed(&answer) < 80, "{answer}");
}
