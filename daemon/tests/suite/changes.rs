//! Changes to a conversation other than new messages: pin, trash, branch selection.

use std::time::Duration;

use hob_daemon::clock::wall_clock;
use hob_daemon::wire::document::DocumentId;
use hob_slots::{AdjustedTime, ConversationId};
use serde_json::{Value, json};

use crate::common::{World, user};

fn say(world: &World, conversation: &str, text: &str, hob: Value) -> Value {
    let extra = json!({"conversation": conversation, "hob": hob, "temperature": 1.0});
    let messages = if text.is_empty() { json!([]) } else { json!([user(text)]) };
    world.chat(messages, extra)["hob"].clone()
}

fn change(world: &World, conversation: &str, change: Value) -> crate::common::Answer {
    world.call("PATCH", &format!("/v1/conversations/{conversation}")).json(&change).send()
}

/// The conversation ids of the list, in its order.
fn listed(world: &World, path: &str) -> Vec<String> {
    let list = world.get(path).json();
    let list = list["data"].as_array().unwrap().iter();
    list.map(|conversation| conversation["id"].as_str().unwrap().to_owned()).collect()
}

/// The message ids of the selected branch.
fn branch(world: &World, conversation: &str) -> Vec<i64> {
    let conversation = world.get(&format!("/v1/conversations/{conversation}")).json();
    let messages = conversation["messages"].as_array().unwrap().iter();
    messages.map(|message| message["id"].as_i64().unwrap()).collect()
}

#[test]
fn choosing_a_branch_shows_its_latest_end() {
    let world = World::new();
    let append = || json!({"append": true});
    let first = say(&world, "a", "Hello", append());
    let second = say(&world, "a", "More", append());
    let again = say(&world, "a", "", json!({"append": true, "after": second["parent"]}));
    let other = say(&world, "a", "Hallo", json!({"append": true, "after": 0}));
    let id = |hob: &Value, field: &str| hob[field].as_i64().unwrap();
    assert_eq!(branch(&world, "a"), [id(&other, "parent"), id(&other, "message")]);

    let hello = id(&first, "parent");
    assert_eq!(change(&world, "a", json!({"head": hello})).status, 200);
    let latest = [hello, id(&first, "message"), id(&second, "parent"), id(&again, "message")];
    assert_eq!(branch(&world, "a"), latest);
    assert_eq!(change(&world, "a", json!({"head": second["message"]})).status, 200);
    assert_eq!(branch(&world, "a")[3], id(&second, "message"));

    // The next message continues the selected branch.
    let next = say(&world, "a", "On", append());
    assert_eq!(
        branch(&world, "a")[3..],
        [id(&second, "message"), id(&next, "parent"), id(&next, "message")]
    );

    let elsewhere = say(&world, "b", "Hello", append());
    let refused = change(&world, "a", json!({"head": elsewhere["message"]}));
    assert_eq!((refused.status, refused.error()["param"].clone()), (400, json!("head")));
    assert_eq!(change(&world, "nobody", json!({"head": 1})).status, 404);
}

#[test]
fn the_order_of_the_list_is_that_of_use_alone() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        say(&world, name, "Hello", json!({"append": true}));
        std::thread::sleep(Duration::from_millis(5));
    }
    let updated = |name: &str| world.conversation(name)["updated_at"].clone();
    let before = updated("a");
    let pinned = change(&world, "a", json!({"pinned": true, "title": "Mine"})).json();
    assert_eq!((&pinned["pinned"], &pinned["title"]), (&json!(true), &json!("Mine")));
    change(&world, "a", json!({"trashed": true}));
    change(&world, "a", json!({"trashed": false}));
    assert_eq!(listed(&world, "/v1/conversations"), ["c", "b", "a"]);
    assert_eq!(updated("a"), before);
    assert_eq!(world.conversation("a")["pinned"], true);
    assert_eq!(change(&world, "a", json!({"pinned": false})).json()["pinned"], false);
    assert_eq!(change(&world, "a", json!({})).error()["code"], "missing");
    assert_eq!(change(&world, "a", json!({"pinned": 1})).error()["param"], "pinned");
}

#[test]
fn a_trashed_conversation_is_hidden_but_not_deleted() {
    let world = World::new();
    say(&world, "a", "Hello", json!({"append": true}));
    say(&world, "b", "Hello", json!({"append": true}));
    let trashed = change(&world, "a", json!({"trashed": true})).json();
    assert!(trashed["trashed_at"].is_u64());
    assert_eq!(listed(&world, "/v1/conversations"), ["b"]);
    assert_eq!(listed(&world, "/v1/conversations?trashed=true"), ["a"]);
    assert_eq!(world.conversation("a")["message_count"], 2);
    let refused = world.get("/v1/conversations?trashed=maybe");
    assert_eq!((refused.status, refused.error()["param"].clone()), (400, json!("trashed")));

    let back = change(&world, "a", json!({"trashed": false})).json();
    assert_eq!((&back["trashed_at"], &back["place"]), (&Value::Null, &json!("slot")));
    assert_eq!(listed(&world, "/v1/conversations").len(), 2);

    // A new message restores a conversation from the trash.
    change(&world, "a", json!({"trashed": true}));
    say(&world, "a", "More", json!({"append": true}));
    assert_eq!(listed(&world, "/v1/conversations"), ["a", "b"]);
}

#[test]
fn a_turn_that_has_begun_keeps_its_conversation_when_the_trash_is_emptied() {
    let world = World::new();
    say(&world, "a", "Hello", json!({"append": true}));
    change(&world, "a", json!({"trashed": true}));
    let later = AdjustedTime::from(wall_clock()().after(Duration::from_secs(3660)));
    // It has neither restored the conversation nor reached the engine.
    let id = ConversationId::new("a").unwrap();
    let turn = world.parts.conversations.transcript.ticket(&id).unwrap();
    world.empty_trash(&later);
    turn.check().unwrap();
    assert_eq!(listed(&world, "/v1/conversations?trashed=true"), ["a"]);
    drop(turn);
    world.empty_trash(&later);
    assert_eq!(world.get("/v1/conversations/a").status, 404);
}

#[test]
fn a_deletion_goes_on_when_its_client_disconnects() {
    let world = World::new();
    say(&world, "a", "Hello", json!({"append": true}));
    world.begin_to_delete("a");
    world.until("the text is gone", |world| world.get("/v1/conversations/a").status == 404);
}

#[test]
fn a_removal_of_a_document_goes_on_when_its_client_disconnects() {
    let world = World::new();
    let removals: [fn(&World, &DocumentId); 2] =
        [World::begin_to_remove, World::begin_to_remove_unused];
    for begin_to_remove in removals {
        let added = world.call("POST", "/v1/documents?keep=chat").body("The mill is old.").send();
        assert_eq!(added.status, 201, "{}", added.text());
        let id: DocumentId = added.json()["id"].as_str().unwrap().parse().unwrap();
        begin_to_remove(&world, &id);
        let path = format!("/v1/documents/{id}");
        world.until("the text is gone", |world| world.get(&path).status == 404);
    }
}

#[test]
fn a_conversation_is_deleted_with_its_kv_after_an_hour_in_the_trash() {
    let world = World::new();
    for name in ["a", "b"] {
        say(&world, name, "Hello", json!({"append": true}));
    }
    change(&world, "a", json!({"trashed": true}));
    let empty_at = |minutes: u64| {
        let now = wall_clock()().after(Duration::from_secs(60 * minutes));
        world.empty_trash(&AdjustedTime::from(now));
    };
    empty_at(59);
    assert_eq!(listed(&world, "/v1/conversations?trashed=true"), ["a"]);
    empty_at(61);
    assert_eq!(world.get("/v1/conversations/a").status, 404);
    assert_eq!(listed(&world, "/v1/conversations"), ["b"]);
    let slots = world.status().slots;
    assert!(
        slots.iter().all(|slot| slot.conversation.as_ref().is_none_or(|id| id.as_str() != "a"))
    );
}
