//! Labels of messages: a key groups, a pin holds, a weight delays what leaves the cells. On the fake backend, a token a byte.

use std::fs;

use hob_testkit::Hobd;
use serde_json::{Value, json};

use crate::budget::{BUDGET, moved, start, start_with};
use crate::common::{chat_body, merged};

#[test]
fn a_label_is_known_in_the_later_turns_of_an_appended_conversation() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let say = |message: Value| {
        let extra = json!({"conversation": "chat", "hob": {"append": true}});
        let body = chat_body(json!([message]), extra);
        let answer = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    let label = json!({"key": "a.rs", "weight": 90, "pin": true});
    say(json!({"role": "user", "content": "fn main() {}", "hob": label}));
    say(json!({"role": "user", "content": "Thanks", "evoke_keep": "prefer"}));
    let stored = hobd.client.get("/v1/conversations/chat");
    let hob: Vec<&Value> =
        stored["messages"].as_array().unwrap().iter().map(|message| &message["hob"]).collect();
    assert_eq!(hob, [&label, &Value::Null, &json!({"weight": 100}), &Value::Null]);
}

#[test]
fn messages_with_one_key_come_back_together() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let say = |text: &str, label: Value| {
        let messages = json!([{"role": "user", "content": text, "hob": label}]);
        let hob = json!({"append": true, "budget": 640});
        hobd.client.chat(&json!({"conversation": "chat", "hob": hob, "messages": messages,
            "temperature": 0, "max_tokens": 24, "ignore_eos": true}))
    };
    for n in 0..16 {
        match n {
            2 => say("the locker has the number 48213", json!({"key": "notes.md"})),
            6 => say("a purple umbrella hangs beside it", json!({"key": "notes.md"})),
            n => {
                let subject = "a long and winding road of words";
                say(&format!("let us talk about subject number {n}, {subject}"), json!({}))
            }
        };
    }
    let answer = say("which number has the locker?", json!({}));
    let back = moved(std::slice::from_ref(&answer), "back");
    let is_of_group = |moved: &&Value| moved["key"] == "notes.md" && moved["why"] == "group";
    assert!(back.iter().any(is_of_group), "{answer}");
}

/// Makes 14 statements, of which the third has these fields. Returns the answers.
fn state(hobd: &Hobd, fields: &Value) -> Vec<Value> {
    let say = |n: usize| {
        let text = format!("Statement {n}: there are {} of them in all.", n * 7919);
        let mut message = json!({"role": "user", "content": text});
        if n == 2 {
            message = merged(message, fields);
        }
        let extra = json!({"conversation": "chat", "hob": {"append": true, "budget": BUDGET}});
        hobd.client.chat(&chat_body(json!([message]), extra))
    };
    (0..14).map(say).collect()
}

/// The number of the answer in which what has the key first left its cells.
pub fn left_in(answers: &[Value], key: &str) -> Option<usize> {
    let is_it = |moved: &&Value| moved["key"] == key;
    answers.iter().position(|answer| moved(std::slice::from_ref(answer), "out").iter().any(is_it))
}

#[test]
fn a_pinned_message_stays() {
    let unpinned = json!({"key": "it", "weight": 0});
    for (fields, stays) in [
        (json!({"hob": {"key": "it", "weight": 0, "pin": true}}), true),
        (json!({"hob": unpinned, "evoke_keep": "pin"}), true),
        (json!({"hob": unpinned, "evoke_pinned": true}), true),
        (json!({"hob": unpinned}), false),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let answers = state(&start(directory.path()), &fields);
        assert!(moved(&answers, "out").len() > 4, "{fields}: {answers:?}");
        assert_eq!(left_in(&answers, "it").is_none(), stays, "{fields}: {answers:?}");
    }
}

#[test]
fn a_message_that_is_pinned_after_it_left_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let label = json!({"hob": {"key": "it", "weight": 0}});
    let answers = state(&hobd, &label);
    assert!(left_in(&answers, "it").is_some(), "{answers:?}");
    let stored = hobd.client.get("/v1/conversations/chat");
    let mut messages: Vec<Value> = stored["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| json!({"role": it["role"], "content": it["content"], "hob": it["hob"]}))
        .collect();
    let pinned = messages.iter_mut().find(|it| it["hob"]["key"] == "it").unwrap();
    pinned["hob"]["pin"] = true.into();
    // It shares no word with the statement.
    messages.push(json!({"role": "user", "content": "Thank you"}));
    let extra = json!({"conversation": "chat", "hob": {"budget": BUDGET}});
    let answer = hobd.client.chat(&chat_body(json!(messages), extra));
    let back = moved(std::slice::from_ref(&answer), "back");
    let is_it = |moved: &&Value| moved["key"] == "it" && moved["why"] == "stays";
    assert!(back.iter().any(is_it), "{answer}");
    assert!(answer["hob"]["cells"]["peak"].as_u64().unwrap() <= BUDGET, "{answer}");
}

/// As Mistral's templates: questions end with no end-of-turn token, so their ends are found by their texts.
const INST: &str = "{% for message in messages %}{% if message.role == 'user' %}\
    [INST] {{ message.content }} [/INST]{% else %}{{ message.content }}{{ eos_token }}{% endif %}\
    {% endfor %}";

#[test]
fn a_pinned_message_stays_where_its_turn_has_no_end_of_turn_token() {
    for pin in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let template = directory.path().join("inst.jinja");
        fs::write(&template, INST).unwrap();
        let hobd = start_with(directory.path(), &["--chat-template", template.to_str().unwrap()]);
        let request = json!({"messages": [{"role": "user", "content": "Hello"}]});
        assert_eq!(hobd.client.post("/apply-template", &request)["prompt"], "[INST] Hello [/INST]");
        let answers = state(&hobd, &json!({"hob": {"key": "it", "pin": pin}}));
        assert!(moved(&answers, "out").len() > 4, "{answers:?}");
        assert_eq!(left_in(&answers, "it").is_none(), pin, "pinned: {pin}: {answers:?}");
        for answer in &answers {
            let peak = answer["hob"]["cells"]["peak"].as_u64().unwrap();
            assert!(peak <= BUDGET, "{answer}");
        }
    }
}

#[test]
fn a_message_of_more_weight_leaves_later() {
    let leaves = |fields: Value| {
        let directory = tempfile::tempdir().unwrap();
        let answers = state(&start(directory.path()), &fields);
        left_in(&answers, "it").unwrap_or(usize::MAX)
    };
    let of_hob = [0, 100].map(|weight| json!({"hob": {"key": "it", "weight": weight}}));
    // A factor of the score: twice EVOKE's default is Hob's greatest weight.
    let of_evoke = [0, 2].map(|factor| json!({"hob": {"key": "it"}, "evoke_priority": factor}));
    for fields in [of_hob, of_evoke] {
        let [least, most] = fields.clone().map(leaves);
        assert!(least < most, "{fields:?}: the lighter in answer {least}, the other in {most}");
        assert_ne!(least, usize::MAX, "{fields:?}: it leaves");
    }
}
