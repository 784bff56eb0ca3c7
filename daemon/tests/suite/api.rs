//! The daemon's answers have the types of `hob-api`: no field is missing or unknown.

use hob_api::{Conversation, ConversationText, Explained, List, Status, Turn};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::common::{Answer, World, user};

#[test]
fn the_status_has_the_type_of_the_api() {
    let world = World::new();
    world.profile("ember", "[[segment]]\nlayer = 'identity'\nkey = 'ember'\ntext = 'Be brief.'\n");
    world.profile("broken", "nonsense");
    world.reload();
    world.chat(json!([user("Hello")]), json!({"conversation": "a"}));

    let status: Status = exact(&world.get("/v1/status"));

    assert_eq!(status.model, "fake");
    assert_eq!(status.fingerprint, Some(world.engine.fingerprint()));
    let slot = status.slots.iter().find(|slot| slot.conversation.is_some()).unwrap();
    assert_eq!(slot.conversation.as_ref().unwrap().as_str(), "a");
    assert!(!slot.is_busy());
    assert_eq!(status.profiles.len(), 2);
    assert!(status.profiles.iter().any(|profile| profile.error.is_some()));
    assert!(status.counters.turns > 0);
}

#[test]
fn conversations_have_the_type_of_the_api() {
    let world = World::new();
    world.chat(json!([user("Hello")]), json!({"conversation": "a"}));

    let list: List<Conversation<'_>> = exact(&world.get("/v1/conversations"));
    let whole: ConversationText = world.get("/v1/conversations/a").json_as();
    let explained: Explained = world.get("/v1/conversations/a/explain").json_as();

    assert_eq!(list.data.len(), 1);
    assert_eq!(list.data[0].message_count, 2);
    assert_eq!(whole.conversation, list.data[0]);
    assert_eq!(whole.messages[0].text(), "Hello");
    assert_eq!(explained.explanation, None);
}

#[test]
fn the_report_of_a_turn_has_the_type_of_the_api() {
    let world = World::new();
    let system = |time: &str| {
        let text = format!("It is {time}. {}", "Be good. ".repeat(60));
        json!([{"role": "system", "content": text}, user("Hello")])
    };
    world.chat(system("10:41"), json!({"conversation": "a"}));
    let answer = world.chat(system("10:52"), json!({"conversation": "a"}));

    let turn: Turn = serde_json::from_value(answer["hob"].clone()).unwrap();

    assert_eq!(serde_json::to_string(&turn).unwrap(), answer["hob"].to_string());
    assert_eq!(turn.explanation.as_ref().unwrap().reason, "clock");
    assert!(turn.tokens.unwrap().computed > 0);
    let explained: Explained = world.get("/v1/conversations/a/explain").json_as();
    assert_eq!(explained.explanation, turn.explanation);
    assert!(explained.explained_at.is_some());
}

/// Parses the answer as `T` and asserts that `T` serializes to the same fields in the same order.
fn exact<T: DeserializeOwned + Serialize>(answer: &Answer) -> T {
    let value: T = answer.json_as();
    // Compares parsed JSON: serde_json parses some floats with an error of one unit in the last
    // place, so the raw text would differ.
    assert_eq!(serde_json::to_string(&value).unwrap(), answer.json().to_string());
    value
}

trait JsonAs {
    fn json_as<T: DeserializeOwned>(&self) -> T;
}

impl JsonAs for Answer {
    fn json_as<T: DeserializeOwned>(&self) -> T {
        assert_eq!(self.status, 200, "{}", self.text());
        let value: Value = self.json();
        serde_json::from_value(value).unwrap()
    }
}
