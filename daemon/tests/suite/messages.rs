//! Single messages: another text, deletion with what follows, and copies of a beginning.

use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Plan, World, roles_and_texts, user};

fn say(world: &World, text: &str) -> Value {
    let extra = json!({"conversation": "room", "hob": {"append": true}, "max_tokens": 100});
    world.chat(json!([user(&format!("Say this: {text}"))]), extra)
}

fn texts(world: &World, id: &str) -> Vec<String> {
    let conversation = world.get(&format!("/v1/conversations/{id}")).json();
    roles_and_texts(&conversation).into_iter().map(|(_, text)| text).collect()
}

fn delete(world: &World, message: u64) -> Value {
    let answer = world.call("DELETE", &format!("/v1/conversations/room/messages/{message}")).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn restore(world: &World, message: u64) -> (u16, Value) {
    let path = format!("/v1/conversations/room/messages/{message}/restore");
    let answer = world.post(&path, json!({}));
    (answer.status, answer.json())
}

fn hits(world: &World, words: &str) -> usize {
    let found = world.get(&format!("/v1/conversations?q={words}")).json();
    found["data"].as_array().unwrap().len()
}

#[test]
fn an_edited_answer_is_a_branch_and_the_next_prompt_has_its_text() {
    let world = World::new();
    say(&world, "first");
    say(&world, "second");
    let path = "/v1/conversations/room/messages/2";
    let edited = world.call("PATCH", path).json(&json!({"content": "FIRST"})).send().json();

    assert_eq!(edited["message"], 5);
    assert_eq!(texts(&world, "room"), ["Say this: first", "FIRST"]);
    say(&world, "third");
    assert_eq!(texts(&world, "room")[1..], ["FIRST", "Say this: third", "third"]);
    let model = world.engine.model().clone();
    let written = model.vocabulary().bytes(&world.timeline("room"));
    assert!(String::from_utf8(written).unwrap().contains("assistant\nFIRST<|im_end|>"));
    // The branch from before is complete.
    let back = world.call("PATCH", "/v1/conversations/room").json(&json!({"head": 2})).send();
    assert_eq!(back.json()["head"], 4);
    assert_eq!(texts(&world, "room")[2..], ["Say this: second", "second"]);
}

#[test]
fn a_deleted_message_takes_what_follows_it_and_both_come_back() {
    let world = World::new();
    for text in ["first", "second", "third"] {
        say(&world, text);
    }
    let deleted = delete(&world, 3);

    assert_eq!((&deleted["deleted"], &deleted["head"]), (&json!(4), &json!(2)));
    assert_eq!(texts(&world, "room"), ["Say this: first", "first"]);
    assert_eq!((hits(&world, "second"), hits(&world, "third")), (0, 0));
    assert_eq!(world.get("/v1/conversations").json()["data"][0]["message_count"], 2);

    let (status, restored) = restore(&world, 3);
    assert_eq!((status, &restored["restored"], &restored["head"]), (200, &json!(4), &json!(6)));
    assert_eq!(texts(&world, "room").len(), 6);
    assert_eq!(world.get("/v1/conversations").json()["data"][0]["message_count"], 6);
    assert_eq!(hits(&world, "second"), 1);
    assert_eq!(restore(&world, 3).0, 404, "it is there");
    say(&world, "fourth");
    assert_eq!(texts(&world, "room").len(), 8);
}

#[test]
fn the_branch_beside_a_deleted_one_is_shown() {
    let world = World::new();
    say(&world, "first");
    let again = json!({"conversation": "room", "hob": {"append": true}, "max_tokens": 100});
    let second = world.chat(json!([]), again);
    assert_eq!(second["hob"]["message"], 3);
    say(&world, "more");

    let deleted = delete(&world, 3);

    assert_eq!((&deleted["deleted"], &deleted["head"]), (&json!(3), &json!(2)));
    assert_eq!(delete(&world, 1)["head"], Value::Null);
    assert_eq!(texts(&world, "room"), [""; 0]);
    assert_eq!(restore(&world, 3).0, 404, "what it belongs to is deleted");
    assert_eq!(restore(&world, 1).1["restored"], 2);
    assert_eq!(restore(&world, 3).1["restored"], 3);
    say(&world, "on");
    assert_eq!(texts(&world, "room").len(), 6);
}

#[test]
fn an_hour_after_its_deletion_neither_text_nor_kv_of_a_message_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = Plan::new().directory(directory.path()).start();
    say(&world, "first");
    say(&world, "a secret");
    delete(&world, 3);
    world.settle();
    let now = world.parts.conversations.storage.adjusted_now();
    world.empty_trash(&now);
    assert_eq!(restore(&world, 3).0, 200, "an hour is not over");
    delete(&world, 3);

    let later = hob_slots::AdjustedTime::from(hob_slots::Timestamp(
        now.now().0 + Duration::from_secs(3601).as_millis() as u64,
    ));
    world.empty_trash(&later);

    assert_eq!(restore(&world, 3).0, 404);
    assert_eq!(world.timeline("room"), []);
    assert_eq!(world.get("/v1/conversations/room").json()["place"], "none");
    assert_eq!(texts(&world, "room"), ["Say this: first", "first"]);
    say(&world, "on");
    assert_eq!(texts(&world, "room").len(), 4);
    world.stop();
}

#[test]
fn a_turn_that_has_begun_keeps_deleted_messages_until_it_ends() {
    let world = World::new();
    say(&world, "first");
    say(&world, "a secret");
    delete(&world, 3);
    let now = world.parts.conversations.storage.adjusted_now().now();
    let two_hours = Duration::from_secs(7200).as_millis() as u64;
    let later = hob_slots::AdjustedTime::from(hob_slots::Timestamp(now.0 + two_hours));
    let id = hob_slots::ConversationId::new("room").unwrap();
    // It has neither written its messages nor reached the engine.
    let turn = world.parts.conversations.transcript.ticket(&id).unwrap();
    world.empty_trash(&later);
    turn.check().unwrap();
    assert_eq!(restore(&world, 3).0, 200);
    delete(&world, 3);
    drop(turn);
    world.empty_trash(&later);
    assert_eq!(restore(&world, 3).0, 404);
}

#[test]
fn nothing_is_changed_while_the_conversation_is_answered() {
    let world = World::new();
    say(&world, "first");
    let slow = format!("Say this slowly: {}", "one two ".repeat(300)); // 24 s.
    let extra = json!({"conversation": "room", "hob": {"append": true}, "max_tokens": 3000});
    let mut stream = world.stream(json!([user(&slow)]), extra);
    stream.try_next_data().unwrap();
    for (method, path) in [("DELETE", "messages/1"), ("PATCH", "messages/2")] {
        let call = world.call(method, &format!("/v1/conversations/room/{path}"));
        let answer = call.json(&json!({"content": "x"})).send();
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (409, &json!("answering")));
    }
    drop(stream);
}

#[test]
fn a_fork_shares_the_kv_of_its_beginning() {
    let world = World::new();
    for text in ["first", "second", "third"] {
        say(&world, text);
    }
    world.call("PATCH", "/v1/conversations/room").json(&json!({"title": "My room"})).send();
    let fork = json!({"message": 4, "id": "copy", "title": "Another room"});
    let copy = world.post("/v1/conversations/room/fork", fork).json();
    assert_eq!((&copy["id"], &copy["title"]), (&json!("copy"), &json!("Another room")));
    assert_eq!(texts(&world, "copy").len(), 4);

    let extra = json!({"conversation": "copy", "hob": {"append": true}, "max_tokens": 100});
    let answer = world.chat(json!([user("Say this: other")]), extra);

    let tokens = &answer["hob"]["tokens"];
    let new = "\n<|im_start|>user\nSay this: other<|im_end|>\n<|im_start|>assistant\n";
    let new = world.post("/tokenize", json!({"content": new})).json();
    let new = new["tokens"].as_array().unwrap().len() as u64;
    assert!(tokens["computed"].as_u64().unwrap() <= new, "{tokens}");
    assert_eq!(texts(&world, "room").len(), 6, "the original is as it was");

    let turns = world.get("/v1/turns").json();
    assert_eq!(turns["data"].as_array().unwrap().len(), 4, "the copies are no turns: {turns}");

    let named = world.post("/v1/conversations/room/fork", json!({"message": 2})).json();
    assert_eq!((&named["id"], &named["title"]), (&json!("room-2"), &json!("My room")));
    let unknown = world.post("/v1/conversations/room/fork", json!({"message": 99}));
    assert_eq!(unknown.status, 404);
}

#[test]
fn the_title_of_a_fork_is_one_line_and_without_words_that_of_the_original() {
    let world = World::new();
    say(&world, "first");
    let titled = |title: &str| {
        let fork = json!({"message": 2, "title": title});
        world.post("/v1/conversations/room/fork", fork).json()["title"].clone()
    };
    assert_eq!(titled("  Another\nroom "), "Another room");
    let original = world.get("/v1/conversations/room").json()["title"].clone();
    assert!(original.is_string());
    assert_eq!(titled(" \n"), original);
}

#[test]
fn a_fork_has_no_tokens_of_what_follows_it() {
    let world = World::new();
    for text in ["first", "second", "a secret"] {
        say(&world, text);
    }
    let fork = |from: &str, message: u64, id: &str| {
        let path = format!("/v1/conversations/{from}/fork");
        let copy = world.post(&path, json!({"message": message, "id": id}));
        assert_eq!(copy.status, 200, "{}", copy.text());
        let written = world.engine.model().vocabulary().bytes(&world.timeline(id));
        String::from_utf8(written).unwrap()
    };
    let of_answer = fork("room", 4, "answer");
    assert!(
        of_answer.contains("assistant\nsecond") && !of_answer.contains("secret"),
        "{of_answer}"
    );
    let of_question = fork("room", 5, "question");
    assert!(of_question.contains("assistant\nsecond") && !of_question.contains("secret"));
    let first = world.get("/v1/conversations/answer").json()["messages"][1]["id"].as_u64().unwrap();
    let of_copy = fork("answer", first, "copy");
    assert!(of_copy.contains("assistant\nfirst") && !of_copy.contains("second"), "{of_copy}");
}

#[test]
fn a_private_conversation_is_edited_in_memory_and_not_copied() {
    let world = World::new();
    let extra = json!({"conversation": "secret", "hob": {"append": true, "private": true}});
    world.chat(json!([user("Say this: x")]), extra);
    let path = "/v1/conversations/secret/messages/2";
    let edited = world.call("PATCH", path).json(&json!({"content": "y"})).send();
    assert_eq!(edited.status, 200);
    assert_eq!(texts(&world, "secret")[1], "y");
    let fork = world.post("/v1/conversations/secret/fork", json!({"message": 2}));
    assert_eq!((fork.status, &fork.json()["error"]["code"]), (400, &json!("private")));
}

#[test]
fn neither_a_copy_nor_an_import_gets_the_id_of_a_private_conversation() {
    let world = World::new();
    let private = json!({"conversation": "room-2", "hob": {"append": true, "private": true}});
    world.chat(json!([user("Say this: x")]), private);
    say(&world, "first");

    let copy = world.post("/v1/conversations/room/fork", json!({"message": 2})).json();
    assert_eq!(copy["id"], "room-3", "{copy}");
    let export = json!({"format": "hob conversation", "version": 1, "id": "room",
        "messages": [{"id": 1, "message": user("From elsewhere")}]});
    let imported = world.import("application/json", export.to_string()).json();
    assert_eq!(imported["id"], "room-4", "{imported}");
    assert_eq!(texts(&world, "room-2"), ["Say this: x", "x"]);
    assert_eq!(texts(&world, "room-3"), ["Say this: first", "first"]);
    assert_eq!(texts(&world, "room-4"), ["From elsewhere"]);
}
