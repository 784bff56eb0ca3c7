//! Conversations are listed, renamed, classed and deleted.

use std::time::Duration;

use hob_slots::{Layer, TtlClass};
use hob_testkit::files;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::common::{Plan, World, chat_body, user};

#[test]
fn conversations_are_listed_renamed_and_deleted() {
    let world = World::new();
    let long = format!("  A question\nthat is {} long", "very ".repeat(30));
    world.chat(json!([user(&long)]), json!({"conversation": "a"}));
    let listed = world.get("/v1/conversations").json();
    let title = listed["data"][0]["title"].as_str().unwrap();
    assert!(title.starts_with("A question that is very") && title.chars().count() <= 60);
    assert_eq!(listed["data"][0]["message_count"], 2);
    assert_eq!(listed["data"][0]["place"], "slot");
    world.until("a slot file exists", |world| !slot_files(world).is_empty());

    let rename = |id: &str, title: Value| {
        world
            .call("PATCH", &format!("/v1/conversations/{id}"))
            .json(&json!({"title": title}))
            .send()
    };
    assert_eq!(rename("a", json!("Mine")).json()["title"], "Mine");
    assert_eq!(rename("a", json!("")).error()["param"], "title");
    assert_eq!(rename("b", json!("Mine")).status, 404);
    world.chat(json!([user("Other")]), json!({"conversation": "a"}));
    assert_eq!(world.get("/v1/conversations/a").json()["title"], "Mine");

    assert_eq!(world.call("DELETE", "/v1/conversations/a").send().json()["deleted"], true);
    assert_eq!(world.call("DELETE", "/v1/conversations/a").send().status, 404);
    assert_eq!(world.get("/v1/conversations").json()["data"], json!([]));
    world.until("no slot file is left", |world| slot_files(world).is_empty());
}

#[test]
fn the_status_counts_changes_of_conversations_besides_answers() {
    let world = World::new();
    let changes = || world.get("/v1/status").json()["changes"].as_u64().unwrap();
    world.chat(json!([user("Hello")]), json!({"conversation": "a"}));
    assert_eq!(changes(), 0);

    let patch = |path: &str, body: Value| world.call("PATCH", path).json(&body).send();
    let delete = |path: &str| world.call("DELETE", path).send();
    let message = |id: u64| format!("/v1/conversations/a/messages/{id}");
    let renamed = patch("/v1/conversations/a", json!({"title": "Mine"}));
    assert_eq!((renamed.status, changes()), (200, 1));
    let edited = patch(&message(2), json!({"content": "Hi"}));
    assert_eq!((edited.status, changes()), (200, 2));
    assert_eq!((delete(&message(3)).status, changes()), (200, 3));
    assert_eq!(patch(&message(99), json!({"content": "Hi"})).status, 404);
    assert_eq!(changes(), 3);
    assert_eq!((delete("/v1/conversations/a").status, changes()), (200, 4));
}

fn slot_files(world: &World) -> Vec<std::path::PathBuf> {
    files::with_extension(&world.directory.join("slots"), "bin")
}

#[test]
fn a_saved_conversation_has_segments_and_a_class() {
    let mut world = World::new();
    let messages = json!([{"role": "system", "content": "Be brief."}, user("Hello")]);
    let extra = json!({"conversation": "a", "hob": {"ttl": "kept"}});
    world.chat(messages.clone(), extra);
    world.chat(messages.clone(), json!({"conversation": "b", "prompt_cache_retention": "24h"}));
    world.chat(messages.clone(), json!({"conversation": "d"}));
    world.chat(messages.clone(), json!({"conversation": "e", "hob": {"ttl": "short"}}));
    let answered = json!({"role": "assistant", "content": "Hello"});
    let longer = json!([messages[0], messages[1], answered, user("And now?")]);
    world.chat(longer, json!({"conversation": "e"}));
    world.chat(messages, json!({"promptCacheKey": "v5:f"}));
    let wrong = json!({"conversation": "c", "hob": {"ttl": "forever"}});
    let refused = world.post("/v1/chat/completions", chat_body(json!([user("Hello")]), wrong));
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("short, long, extended or permanent"), "{}", refused.text());
    world.stop();

    let store = hob_slots::StoreReader::open(world.directory.join("slots")).unwrap();
    let record = |id: &str| {
        let model = store.models().unwrap()[0];
        store.get_slot(model, &id.parse().unwrap()).unwrap()
    };
    assert_eq!(record("a").class, TtlClass::Permanent);
    assert_eq!(record("b").class, TtlClass::Extended);
    assert_eq!(record("d").class, TtlClass::Permanent, "the default of what has text");
    assert_eq!(record("e").class, TtlClass::Short, "a class that was asked for stays");
    assert_eq!(record("__key__:v5:f").class, TtlClass::Extended, "the default of what has no text");
    let segments = record("a").segments;
    let layers: Vec<_> = segments.iter().map(|segment| segment.layer).collect();
    assert_eq!(layers, [Layer::Identity, Layer::User, Layer::Assistant]);
    assert_eq!(segments[2].end as usize, record("a").tokens.len());
}

#[test]
fn the_removal_of_a_document_ends_a_turn_of_which_no_message_is_stored() {
    let world = Plan::new().pace(Duration::from_millis(2)).start();
    let text = "The castle has seven doors.";
    let added = world.call("POST", "/v1/documents?name=castle.txt").body(text).send().json();
    let document = format!("/v1/documents/{}", added["id"].as_str().unwrap());
    let mut question = user("Hello");
    question["hob"] = json!({"documents": [added["id"]]});
    let extra = json!({"promptCacheKey": "v5:castle", "max_tokens": 4000, "ignore_eos": true});
    let mut stream = world.stream(json!([question]), extra);
    stream.next().unwrap();
    assert_eq!(world.call("DELETE", &document).send().status, 200);
    let last = stream.collect().pop().unwrap();
    assert_eq!(last["error"]["code"], "conversation_deleted");
    world.until("no slot holds the text", |world| {
        world.status().slots.iter().all(|slot| slot.conversation.is_none())
    });
}

#[test]
fn deletion_cancels_a_running_answer_and_leaves_nothing() {
    let world = Plan::new().pace(Duration::from_millis(2)).start();
    let extra = json!({"conversation": "a", "max_tokens": 4000, "ignore_eos": true});
    let mut stream = world.stream(json!([user("Hello")]), extra);
    stream.next().unwrap();
    assert_eq!(world.call("DELETE", "/v1/conversations/a").send().status, 200);
    let last = stream.collect().pop().unwrap();
    assert_eq!(last["error"]["code"], "conversation_deleted");
    world.until("no slot holds the conversation", |world| {
        world.status().slots.iter().all(|s| s.conversation.is_none())
    });
    let database = Connection::open(world.directory.join("transcripts.sqlite")).unwrap();
    let left = |table: &str| -> i64 {
        database.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    assert_eq!((left("conversations"), left("messages"), left("tokens")), (0, 0, 0));
}
