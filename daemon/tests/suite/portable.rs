//! Export of conversations to files, and import.

use hob_slots::archive::export;
use hob_slots::{ConversationId, StoreReader, Timestamp};
use serde_json::{Value, json};
use tar::{Builder, Header};

use crate::common::{Answer, Plan, World, user};

const JSON: &str = "application/json";
const TAR: &str = "application/x-tar";

fn say(world: &World, conversation: &str, text: &str, hob: Value) -> Value {
    let extra = json!({"conversation": conversation, "hob": hob, "temperature": 1.0});
    let messages = if text.is_empty() { json!([]) } else { json!([user(text)]) };
    world.chat(messages, extra)
}

/// Two branches: of the first message, and of the second answer.
fn talk(world: &World, conversation: &str) {
    say(world, conversation, "Hello there", json!({"append": true}));
    let second = say(world, conversation, "My locker code is 48213.", json!({"append": true}));
    let parent = second["hob"]["parent"].clone();
    say(world, conversation, "", json!({"append": true, "after": parent}));
    say(world, conversation, "Hallo", json!({"append": true, "after": 0}));
}

fn exported(world: &World, conversation: &str, format: &str) -> Answer {
    let path = format!("/v1/conversations/{conversation}/export?format={format}");
    let answer = world.get(&path);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

/// The message tree. Ids count from the conversation's first message.
fn tree(world: &World, conversation: &str) -> Vec<Value> {
    let conversation = world.conversation(conversation);
    let messages = conversation["messages"].as_array().unwrap();
    let first = messages[0]["id"].as_i64().unwrap();
    let counted = |id: &Value| id.as_i64().map(|id| id - first);
    let message = |message: &Value| {
        let mut message = message.clone();
        message["id"] = counted(&message["id"]).into();
        message["parent"] = counted(&message["parent"]).into();
        message
    };
    let head = json!({"head": counted(&conversation["head"]), "title": conversation["title"]});
    messages.iter().map(message).chain([head]).collect()
}

/// The texts of documents are in it.
#[test]
fn the_text_of_an_archive_may_be_larger_than_another_body() {
    let (here, there) = (World::new(), World::new());
    let message = json!({"role": "user", "content": "a word ".repeat(20_000)});
    let file = json!({"format": "hob conversation", "version": 1, "id": "long", "head": 1,
        "messages": [{"id": 1, "message": message}]});
    assert_eq!(here.import(JSON, file.to_string()).json()["id"], "long");
    let archive = exported(&here, "long", "archive");
    let received = there.import(TAR, archive.body.clone()).json();
    assert_eq!(received["id"], "long", "{received}");
    assert_eq!(tree(&there, "long"), tree(&here, "long"));
}

#[test]
fn json_has_all_branches_and_comes_back_as_it_was() {
    let (here, there) = (World::new(), World::new());
    say(&there, "other", "Ids begin elsewhere", json!({"append": true}));
    talk(&here, "locker");
    let file = exported(&here, "locker", "json");
    assert_eq!(file.header("content-type"), Some(JSON));
    let name = "attachment; filename=\"locker.json\"";
    assert_eq!(file.header("content-disposition"), Some(name));
    let received = there.import(JSON, file.body.clone()).json();
    assert_eq!((&received["id"], &received["was_here"]), (&json!("locker"), &json!(false)));
    assert_eq!(received["conversation"]["message_count"], 7);
    assert_eq!(tree(&there, "locker"), tree(&here, "locker"));
    assert_eq!(there.get("/v1/conversations?q=48213").json()["data"][0]["id"], "locker");

    // An equal file adds nothing. A file that differs is imported as another conversation.
    let again = there.import(JSON, file.body.clone()).json();
    assert_eq!((&again["id"], &again["was_here"]), (&json!("locker"), &json!(true)));
    let mut changed: Value = file.json();
    changed["messages"][0]["message"]["content"] = "Hello you".into();
    let renamed = there.import(JSON, changed.to_string()).json();
    assert_eq!((&renamed["id"], &renamed["renamed_from"]), (&json!("locker-2"), &json!("locker")));
    assert_eq!(
        tree(&there, "locker"),
        tree(&here, "locker"),
        "the import must not change the existing conversation"
    );
}

#[test]
fn an_archive_has_the_kv_of_a_conversation_that_was_only_computed_ahead() {
    let (here, there) = (World::new(), World::new());
    let said = "My locker code is 48213, and there is much more to say about it. ".repeat(4);
    let text = json!({"format": "hob conversation", "version": 1, "id": "locker", "messages": [
        {"id": 1, "message": user(&said)},
        {"id": 2, "parent": 1, "message": {"role": "assistant", "content": "I know."}},
    ]});
    here.import(JSON, text.to_string());
    let warmed = here.post("/v1/prewarm", json!({"conversation": "locker"}));
    assert_eq!(warmed.status, 200, "{}", warmed.text());

    let file = exported(&here, "locker", "archive");

    let received = there.import(TAR, file.body).json();
    assert_eq!(received["kv"]["imported"], true, "{received}");
    assert_eq!(received["conversation"]["ready"], true, "{received}");
}

#[test]
fn every_format_has_the_instructions_and_the_sampling_of_the_conversation() {
    for (format, kind) in [("json", JSON), ("markdown", "text/markdown"), ("archive", TAR)] {
        let (here, there) = (World::new(), World::new());
        talk(&here, "locker");
        let sampling = json!({"temperature": 0.5, "max_tokens": 40});
        let set = json!({"instructions": "Be brief.", "sampling": sampling});
        here.call("PATCH", "/v1/conversations/locker").json(&set).send();
        let file = exported(&here, "locker", format);
        there.import(kind, file.body.clone());
        let imported = there.conversation("locker");
        assert_eq!(imported["instructions"], "Be brief.", "{format}");
        assert_eq!(imported["sampling"], sampling, "{format}");
    }
    let world = World::new();
    let message = json!({"id": 1, "message": {"role": "user", "content": "Hi"}});
    let file =
        json!({"format": "hob conversation", "sampling": {"heat": 1}, "messages": [message]});
    assert_eq!(world.import(JSON, file.to_string()).error()["param"], "sampling.heat");
}

#[test]
fn a_file_of_many_equal_messages_is_taken_in_and_known_again() {
    let world = World::new();
    let said = json!({"role": "user", "content": "a"});
    let message = |id: i64| json!({"id": id, "parent": if id <= 300 { None } else { Some(1 + id % 300) }, "message": said});
    let messages: Vec<Value> = (1..=600).map(message).collect();
    let file =
        json!({"format": "hob conversation", "version": 1, "id": "many", "messages": messages});
    let file = file.to_string();
    assert_eq!(world.import(JSON, file.clone()).json()["conversation"]["message_count"], 600);
    assert_eq!(world.import(JSON, file).json()["was_here"], true);
    assert_eq!(world.get("/v1/conversations").json()["data"].as_array().unwrap().len(), 1);
}

#[test]
fn a_conversation_that_was_imported_under_another_name_is_known_again() {
    let world = World::new();
    let import = |text: &str| {
        let message = json!({"id": 1, "message": {"role": "user", "content": text}});
        let file = json!({"format": "hob conversation", "id": "c", "messages": [message]});
        let imported = world.import(JSON, file.to_string()).json();
        (imported["id"].as_str().unwrap().to_owned(), imported["was_here"].as_bool().unwrap())
    };
    for (text, id) in [("One", "c"), ("Two", "c-2"), ("Three", "c-3")] {
        assert_eq!(import(text), (id.to_owned(), false));
    }
    world.call("PATCH", "/v1/conversations/c-2").json(&json!({"trashed": true})).send();
    for (text, id) in [("Three", "c-3"), ("Two", "c-2"), ("One", "c")] {
        assert_eq!(import(text), (id.to_owned(), true));
    }
    assert_eq!(world.get("/v1/conversations").json()["data"].as_array().unwrap().len(), 3);
}

#[test]
fn an_import_takes_a_conversation_out_of_the_trash() {
    let world = World::new();
    talk(&world, "locker");
    let file = exported(&world, "locker", "json");
    world.call("PATCH", "/v1/conversations/locker").json(&json!({"trashed": true})).send();
    assert_eq!(world.import(JSON, file.body).json()["was_here"], true);
    assert_eq!(world.conversation("locker")["trashed_at"], Value::Null);
}

#[test]
fn markdown_is_the_branch_that_was_used_last_and_can_be_read_back() {
    let world = World::new();
    talk(&world, "locker");
    let file = exported(&world, "locker", "markdown");
    assert_eq!(file.header("content-type"), Some("text/markdown; charset=utf-8"));
    let markdown = file.text();
    assert!(markdown.contains("## User\n") && markdown.contains("\nHallo\n"), "{markdown}");
    assert!(!markdown.contains("48213"), "the file must not contain another branch");
    let again = world.import("text/markdown; charset=utf-8", file.body).json();
    assert_eq!(again["was_here"], true);
    let edited = markdown.replace("\nHallo\n", "\nGuten Tag\n");
    let received = world.import("text/markdown", edited).json();
    assert_eq!((&received["id"], &received["was_here"]), (&json!("locker-2"), &json!(false)));
    let read = world.conversation("locker-2");
    assert_eq!(read["messages"][0]["content"], "Guten Tag");
    assert_eq!(read["message_count"], 2);
}

#[test]
fn an_archive_brings_the_kv_along() {
    let (here, there) = (World::new(), World::new());
    let long = "My locker code is 48213, and there is much more to say about it. ".repeat(4);
    let long = format!("Say this: {long}"); // The fake's own answers need not be UTF-8 text.
    let first = say(&here, "locker", &long, json!({"append": true}));
    let saved_count =
        |world: &World| world.get("/v1/slots").json()["data"].as_array().unwrap().len();
    here.until("the conversation is saved", |world| saved_count(world) == 1);
    let file = exported(&here, "locker", "archive");
    assert_eq!(file.header("content-type"), Some(TAR));
    let received = there.import(TAR, file.body.clone()).json();
    assert_eq!(received["kv"]["imported"], true, "{received}");
    assert_eq!(received["conversation"]["place"], "disk");
    assert_eq!(tree(&there, "locker"), tree(&here, "locker"));
    let next = say(&there, "locker", "Go on", json!({"append": true}));
    let reused = next["hob"]["tokens"]["disk"].as_u64().unwrap();
    let timeline = received["kv"]["tokens"].as_u64().unwrap();
    assert_eq!(reused, timeline, "the whole timeline must be reused: {next}");
    assert!(timeline > first["usage"]["prompt_tokens"].as_u64().unwrap());

    // The KV serves the conversation under another name, too.
    let third = World::new();
    say(&third, "locker", "Something else", json!({"append": true}));
    let received = third.import(TAR, file.body).json();
    assert_eq!((&received["id"], &received["kv"]["imported"]), (&json!("locker-2"), &json!(true)));
    let next = say(&third, "locker-2", "Go on", json!({"append": true}));
    let cached = &next["usage"]["prompt_tokens_details"]["cached_tokens"];
    assert_eq!(
        *cached, timeline,
        "the whole timeline must be cached, from disk or from a slot: {next}"
    );
}

#[test]
fn kv_of_another_model_is_left_out_and_the_text_comes_in() {
    let here = Plan::new().cache_type_k("f16").start();
    let there = Plan::new().cache_type_k("q8_0").start();
    say(&here, "locker", "My locker code is 48213.", json!({"append": true}));
    here.until("the conversation is saved", |world| {
        !world.get("/v1/slots").json()["data"].as_array().unwrap().is_empty()
    });
    let file = exported(&here, "locker", "archive");
    let received = there.import(TAR, file.body).json();
    assert_eq!(received["kv"]["imported"], false);
    assert!(received["kv"]["reason"].as_str().unwrap().contains("cache_type_k"), "{received}");
    assert_eq!(tree(&there, "locker"), tree(&here, "locker"));
    assert_eq!(there.conversation("locker")["place"], "none");
}

#[test]
fn a_body_that_is_no_export_is_refused_and_changes_nothing() {
    let mut here = World::new();
    for name in ["locker", "other"] {
        say(&here, name, "My locker code is 48213.", json!({"append": true}));
    }
    let document = exported(&here, "locker", "json").text();
    here.stop();
    let mut foreign = Vec::new();
    let reader = StoreReader::open(here.directory.join("slots")).unwrap();
    let other = ConversationId::new("other").unwrap();
    export(&reader, &[other], None, Timestamp(0), &mut foreign).unwrap();

    let there = World::new();
    let archive = |entries: &[(&str, &[u8])]| {
        let mut builder = Builder::new(Vec::new());
        for (name, bytes) in entries {
            let mut header = Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_path(name).unwrap();
            header.set_cksum();
            builder.append(&header, *bytes).unwrap();
        }
        builder.into_inner().unwrap()
    };
    let document = document.as_bytes();
    let text = ("conversation.json", document);
    let many_values = format!("[{}0]", "0,".repeat(8 << 20));
    for (kind, body, code) in [
        (JSON, b"{".to_vec(), "invalid_json"),
        (JSON, b"{}".to_vec(), "invalid_document"),
        (JSON, br#"{"format": "hob conversation"}"#.to_vec(), "missing"),
        ("text/markdown", b"# Hello\n\nthere".to_vec(), "invalid_document"),
        ("text/markdown", vec![0xff; 9], "invalid_document"),
        ("text/plain", b"Hello".to_vec(), "unsupported_media_type"),
        (TAR, b"no archive".to_vec(), "invalid_archive"),
        (TAR, archive(&[]), "invalid_archive"),
        (TAR, archive(&[text, ("elsewhere", b"x")]), "invalid_archive"),
        (TAR, archive(&[text, ("slots/bundle.tar", b"x")]), "invalid_archive"),
        (TAR, archive(&[text, ("slots/bundle.tar", &foreign)]), "invalid_archive"),
        (TAR, archive(&[("conversation.json", b"{}")]), "missing"),
        (TAR, archive(&[("conversation.json", many_values.as_bytes())]), "body_too_large"),
    ] {
        let refused = there.import(kind, body);
        assert_eq!(refused.error()["code"], code, "{}", refused.text());
    }
    assert_eq!(there.get("/v1/conversations").json()["data"], json!([]));
    assert_eq!(there.get("/v1/slots").json()["data"], json!([]));

    let wrong = there.get("/v1/conversations/locker/export?format=word");
    assert_eq!((wrong.status, wrong.error()["param"].clone()), (400, json!("format")));
    for format in ["json", "markdown", "archive"] {
        let path = format!("/v1/conversations/locker/export?format={format}");
        assert_eq!(there.get(&path).status, 404);
    }
    assert_eq!(there.call("POST", "/v1/conversations/locker").send().status, 405);
}

#[test]
fn the_latest_answers_are_listed_over_all_conversations() {
    let world = World::new();
    let first = say(&world, "a", "Hello", json!({"append": true}));
    let second = say(&world, "b", "Hello", json!({"append": true, "cold": true}));
    say(&world, "c", "Hello", json!({"append": true}));
    world.call("PATCH", "/v1/conversations/c").json(&json!({"trashed": true})).send();
    let turns = world.get("/v1/turns").json();
    let turns = turns["data"].as_array().unwrap();
    let of = |turn: &Value| (turn["conversation"].clone(), turn["message"].clone());
    let expected = [("b", &second), ("a", &first)];
    let expected = expected.map(|(name, message)| (json!(name), message["hob"]["message"].clone()));
    assert_eq!(turns.iter().map(of).collect::<Vec<_>>(), expected);
    assert_eq!((&turns[0]["cold"], &turns[1]["cold"]), (&json!(true), &json!(false)));
    assert_eq!(turns[1]["ttft_ms"], first["hob"]["ttft_ms"]);
    assert_eq!(turns[1]["tokens"], first["hob"]["tokens"]);
    assert_eq!(turns[1]["title"], "Hello");
    assert_eq!(world.get("/v1/turns?limit=1").json()["data"].as_array().unwrap().len(), 1);
    for limit in ["0", "1001", "x"] {
        assert_eq!(world.get(&format!("/v1/turns?limit={limit}")).error()["param"], "limit");
    }
}
