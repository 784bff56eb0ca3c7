//! Conversations: hobd loses no text, and a turn computes only its new tokens.

mod common;

use std::time::Duration;

use common::{Plan, World, assistant, chat_body, text, user};
use hob_slots::{Layer, TtlClass};
use rusqlite::Connection;
use serde_json::{Value, json};

fn roles_and_texts(conversation: &Value) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let messages = conversation["messages"].as_array().unwrap();
    messages.iter().map(|m| (word(&m["role"]), word(&m["content"]))).collect()
}

fn computed(answer: &Value) -> u64 {
    answer["hob"]["tokens"]["computed"].as_u64().unwrap()
}

#[test]
fn a_follow_up_computes_only_its_own_tokens() {
    let world = World::new();
    let first = world.chat(json!([user("Hello")]), json!({"conversation": "a"}));
    let said = text(&first);
    let history = json!([user("Hello"), assistant(&said), user("Go on")]);
    let second = world.chat(history, json!({"conversation": "a"}));
    let new = "\n<|im_start|>user\nGo on<|im_end|>\n<|im_start|>assistant\n";
    let new =
        world.post("/tokenize", json!({"content": new})).json()["tokens"].as_array().unwrap().len();
    // Two more: a cut-off answer lacks its end-of-turn mark, which is computed now.
    assert!(computed(&second) <= new as u64 + 2, "{second}");
    assert_eq!(second["hob"]["miss"], Value::Null);
}

#[test]
fn an_append_sends_only_new_messages_and_gets_the_same_answer() {
    let world = World::new();
    let append = |conversation: &str, message: &str| {
        let extra = json!({"conversation": conversation, "hob": {"append": true}});
        world.chat(json!([user(message)]), extra)
    };
    let first = append("a", "Hello");
    let second = append("a", "Go on");
    let history = json!([user("Hello"), assistant(&text(&first)), user("Go on")]);
    let whole = world.chat(history, json!({"conversation": "b"}));
    assert_eq!(text(&second), text(&whole));
    assert_eq!(second["usage"]["prompt_tokens"], whole["usage"]["prompt_tokens"]);
    let stored = roles_and_texts(&world.get("/v1/conversations/a").json());
    assert_eq!(stored.len(), 4);
    assert_eq!(stored[3], ("assistant".to_owned(), text(&second)));
}

#[test]
fn a_header_and_the_eliza_options_name_a_conversation_too() {
    let world = World::new();
    let body = chat_body(json!([user("Hi")]), json!({}));
    let call = world.call("POST", "/v1/chat/completions").header("x-session-id", "by-header");
    assert_eq!(call.json(&body).send().json()["hob"]["conversation"], "by-header");
    world.chat(json!([user("Hi")]), json!({"eliza": {"conversationId": "by-option"}}));
    world.chat(json!([user("Hi")]), json!({"conversation": {"id": "by/object"}}));
    let list = world.get("/v1/conversations").json();
    let ids: Vec<_> =
        list["data"].as_array().unwrap().iter().map(|c| c["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 3);
    assert!(["by-header", "by-option", "by/object"].iter().all(|id| ids.contains(id)));
    assert_eq!(world.get("/v1/conversations/by%2Fobject").json()["title"], "Hi");
}

#[test]
fn every_other_key_is_a_hint_that_pins_and_stores_no_text() {
    let world = World::new();
    let keys = [json!({"promptCacheKey": "v5:abc"}), json!({"prompt_cache_key": "abc"})];
    for (extra, key) in keys.into_iter().zip(["v5:abc", "conv:abc"]) {
        let answer = world.chat(json!([user("Hi")]), extra.clone());
        assert_eq!(answer["hob"]["conversation"], Value::Null);
        assert_eq!(answer["hob"]["cache_key"], key);
        assert_eq!(world.get("/v1/conversations").json()["data"], json!([]));
        let again = world.chat(json!([user("Hi")]), extra);
        assert!(computed(&again) <= 1, "{again}");
        assert_eq!(again["hob"]["slot"], answer["hob"]["slot"]);
    }
}

#[test]
fn edits_and_second_answers_are_branches() {
    let world = World::new();
    let ask = |messages: Value, seed: u64| {
        let extra =
            json!({"conversation": "a", "seed": seed, "temperature": 1.5, "max_tokens": 20});
        text(&world.chat(messages, extra))
    };
    let first = ask(json!([user("Hello")]), 1);
    let other = ask(json!([user("Hello")]), 2);
    let edited = ask(json!([user("Hallo")]), 3);
    assert_ne!(first, other);

    let stored = roles_and_texts(&world.conversation("a"));
    let expected = [
        ("user", "Hello"),
        ("assistant", &first),
        ("assistant", &other),
        ("user", "Hallo"),
        ("assistant", &edited),
    ];
    assert_eq!(stored, expected.map(|(role, text)| (role.to_owned(), text.to_owned())));
    let shown = roles_and_texts(&world.get("/v1/conversations/a").json());
    assert_eq!(shown[0].1, "Hallo");
    assert_eq!(shown.len(), 2);

    // A history with the first answer continues its branch, although two newer ones exist.
    ask(json!([user("Hello"), assistant(&first), user("More")]), 4);
    let shown = roles_and_texts(&world.get("/v1/conversations/a").json());
    assert_eq!((shown.len(), &shown[1].1), (4, &first));
    assert_eq!(roles_and_texts(&world.conversation("a")).len(), 7);
}

#[test]
fn an_append_of_nothing_answers_again() {
    let world = World::new();
    let extra = json!({"conversation": "a", "hob": {"append": true}, "temperature": 1.0});
    world.chat(json!([user("Hello")]), extra.clone());
    world.chat(json!([]), extra);
    let conversation = world.conversation("a");
    let parents: Vec<_> =
        conversation["messages"].as_array().unwrap().iter().map(|m| m["parent"].clone()).collect();
    assert_eq!(parents, [Value::Null, json!(1), json!(1)]);
}

#[test]
fn an_append_continues_behind_any_message() {
    let world = World::new();
    let say = |messages: Value, hob: Value| {
        let extra = json!({"conversation": "a", "hob": hob, "temperature": 1.0});
        world.chat(messages, extra)
    };
    let ids = |answer: &Value| {
        (answer["hob"]["message"].as_i64().unwrap(), answer["hob"]["parent"].as_i64().unwrap())
    };
    let append = json!({"append": true});
    let (first, hello) = ids(&say(json!([user("Hello")]), append.clone()));
    let (second, more) = ids(&say(json!([user("More")]), append));

    // Edit: the new message gets the parent of the edited one.
    let (edited, instead) =
        ids(&say(json!([user("Less")]), json!({"append": true, "after": first})));
    // Regenerate: a second answer to the same message.
    let (again, asked) = ids(&say(json!([]), json!({"append": true, "after": more})));
    assert_eq!(asked, more);
    // Edit of the first message: it has no parent.
    let (other, greeting) = ids(&say(json!([user("Hallo")]), json!({"append": true, "after": 0})));

    let stored = world.conversation("a");
    let tree = stored["messages"].as_array().unwrap().iter();
    let tree: Vec<_> = tree.map(|m| (m["id"].clone(), m["parent"].clone())).collect();
    let expected = [
        (hello, None),
        (first, Some(hello)),
        (more, Some(first)),
        (second, Some(more)),
        (instead, Some(first)),
        (edited, Some(instead)),
        (again, Some(more)),
        (greeting, None),
        (other, Some(greeting)),
    ];
    assert_eq!(tree, expected.map(|(id, parent)| (json!(id), json!(parent))));
    assert_eq!(stored["head"], other);
}

#[test]
fn a_place_that_is_not_there_is_refused_and_stores_nothing() {
    let world = World::new();
    let answer = world.chat(json!([user("Hello")]), json!({"conversation": "a"}));
    world.chat(json!([user("Hello")]), json!({"conversation": "b"}));
    let refused = |conversation: &str, messages: Value, after: Value| {
        let extra = json!({"conversation": conversation, "hob": {"append": true, "after": after}});
        let refused = world.post("/v1/chat/completions", chat_body(messages, extra));
        assert_eq!(refused.status, 400);
        refused.error()["param"].clone()
    };
    let theirs = answer["hob"]["message"].clone();
    assert_eq!(refused("b", json!([user("More")]), theirs.clone()), "hob.after");
    assert_eq!(refused("c", json!([user("More")]), json!(77)), "hob.after");
    assert_eq!(
        refused("a", json!([]), theirs),
        "messages",
        "an empty append after an answer is refused"
    );
    assert_eq!(refused("a", json!([]), json!(0)), "messages");
    assert_eq!(world.conversation("a")["message_count"], 2);
    assert_eq!(world.conversation("b")["message_count"], 2);
    assert_eq!(world.get("/v1/conversations/c").status, 404);
}

#[test]
fn text_is_on_the_disk_before_the_first_word_is_shown() {
    let world = Plan::new().pace(Duration::from_millis(2)).start();
    for round in 0..5 {
        let said = format!("Message {round}");
        let extra = json!({"conversation": "a", "hob": {"append": true}});
        let mut stream = world.stream(json!([user(&said)]), extra);
        stream.next().unwrap();
        let database = Connection::open(world.directory.join("transcripts.sqlite")).unwrap();
        let stored: i64 = database
            .query_row(
                "SELECT count(*) FROM messages WHERE content LIKE ?1",
                [format!("%{said}%")],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(stored, 1);
        stream.collect();
    }
}

#[test]
fn an_answer_whose_client_disconnected_is_saved_as_far_as_it_came() {
    let world = Plan::new().pace(Duration::from_millis(5)).start();
    let extra = json!({"conversation": "a", "max_tokens": 2000, "ignore_eos": true});
    let mut stream = world.stream(json!([user("Hello")]), extra);
    let mut received = String::new();
    while received.chars().count() < 5 {
        let chunk = stream.next().unwrap();
        received.push_str(chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
    }
    drop(stream);
    world.until("the answer is interrupted", |world| {
        world.conversation("a")["messages"][1]["status"] == "interrupted"
    });
    let conversation = world.conversation("a");
    let stored = conversation["messages"][1]["content"].as_str().unwrap().to_owned();
    assert!(stored.starts_with(&received), "{stored:?} must start with {received:?}");

    // The conversation continues after the partial answer, whose tokens are still recorded.
    let next =
        world.chat(json!([user("Go on")]), json!({"conversation": "a", "hob": {"append": true}}));
    assert!(
        next["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap() as usize
            > stored.len()
    );
}

#[test]
fn the_same_question_after_a_lost_answer_is_no_second_message() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = Plan::new().directory(directory.path()).start();
    world.chat(json!([user("Hello")]), json!({"conversation": "a"}));
    world.stop();
    drop(world);
    let database = Connection::open(directory.path().join("transcripts.sqlite")).unwrap();
    let lost = json!({"role": "assistant", "content": ""}).to_string();
    database
        .execute("UPDATE messages SET status = 'streaming', content = ?1 WHERE id = 2", [lost])
        .unwrap();
    drop(database);

    let world = Plan::new().directory(directory.path()).start();
    let append = || json!({"conversation": "a", "hob": {"append": true}});
    world.chat(json!([user("Hello")]), append());
    let stored = world.conversation("a");
    assert_eq!(stored["messages"][1]["status"], "interrupted");
    let users = roles_and_texts(&stored).into_iter().filter(|(role, _)| role == "user").count();
    assert_eq!(users, 1);
    assert_eq!(stored["messages"][2]["parent"], 1);
}

#[test]
fn the_next_turn_after_a_restart_computes_only_new_tokens() {
    let directory = tempfile::tempdir().unwrap();
    let start = || Plan::new().directory(directory.path()).start();
    let append = || json!({"conversation": "a", "hob": {"append": true}});
    let mut world = start();
    let first = world.chat(json!([user(&"Remember this. ".repeat(20))]), append());
    world.stop();
    drop(world);

    let world = start();
    let listed = world.get("/v1/conversations").json();
    assert_eq!(listed["data"][0]["place"], "disk", "{listed}");
    let second = world.chat(json!([user("Go on")]), append());
    let tokens = &second["hob"]["tokens"];
    assert!(tokens["disk"].as_u64() > first["usage"]["prompt_tokens"].as_u64(), "{second}");
    assert!(computed(&second) < 60, "{second}");
    assert_eq!(roles_and_texts(&world.conversation("a")).len(), 4);
    assert!(world.get("/metrics").text().contains("hob_restore_full_prefill_total 0"));
}

#[test]
fn losing_every_kv_file_loses_no_text() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = Plan::new().directory(directory.path()).start();
    let append = || json!({"conversation": "a", "hob": {"append": true}});
    world.chat(json!([user("Hello")]), append());
    world.stop();
    drop(world);
    std::fs::remove_dir_all(directory.path().join("slots")).unwrap();

    let world = Plan::new().directory(directory.path()).start();
    let second = world.chat(json!([user("Go on")]), append());
    assert_eq!(second["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    assert_eq!(roles_and_texts(&world.conversation("a")).len(), 4);
}

#[test]
fn more_conversations_than_slots_come_back_from_memory() {
    let world = Plan::new().slots(1).start();
    let say = |id: &str, message: &str| {
        world.chat(json!([user(message)]), json!({"conversation": id, "hob": {"append": true}}))
    };
    say("a", &"Long enough to matter. ".repeat(10));
    say("b", "Other");
    let back = say("a", "Go on");
    assert!(back["hob"]["tokens"]["memory"].as_u64().unwrap() > 200, "{back}");
    assert!(computed(&back) < 60);
}

#[test]
fn a_silent_conversation_is_parked() {
    let world = Plan::new().parks_after(Duration::from_millis(50)).start();
    world.chat(json!([user("Hello")]), json!({"conversation": "a"}));
    world.until("the conversation is parked", |world| {
        world.status().slots.iter().all(|slot| slot.conversation.is_none())
    });
    assert_eq!(world.get("/v1/conversations/a").json()["place"], "memory");
}

#[test]
fn lists_and_status_tell_the_tier_that_a_restore_reads() {
    let directory = tempfile::tempdir().unwrap();
    let start = || Plan::new().slots(1).directory(directory.path());
    let say = |world: &World, id: &str| {
        let long = user(&format!("I am {id}. {}", "Long enough to matter. ".repeat(20)));
        world.chat(json!([long]), json!({"conversation": id, "hob": {"append": true}}));
        world.settle();
    };
    let tier = |world: &World| {
        let listed = world.get("/v1/conversations/a").json();
        let status = world.get("/v1/status").json();
        let parked = status["parked"].as_array().unwrap().iter();
        let parked = parked.clone().find(|parked| parked["conversation"] == "a").cloned();
        let slots = world.get("/v1/slots").json();
        let saved = slots["data"].as_array().unwrap().iter();
        let saved = saved.clone().find(|saved| saved["conversation"] == "a").cloned().unwrap();
        (listed, parked, saved["state"].as_str().unwrap().to_owned())
    };

    let mut world = start().start();
    say(&world, "a");
    let (listed, parked, state) = tier(&world);
    assert_eq!((&listed["place"], &listed["tier"]), (&json!("slot"), &json!("hot")), "{listed}");
    assert_eq!((parked, state.as_str()), (None, "hot"));
    say(&world, "b");
    let (listed, parked, state) = tier(&world);
    assert_eq!((&listed["place"], &listed["tier"]), (&json!("memory"), &json!("warm")), "{listed}");
    assert_eq!((&parked.unwrap()["tier"], state.as_str()), (&json!("warm"), "warm"));
    world.stop();
    drop(world);

    // Restored from disk and parked: only the newest turn is in memory.
    let mut world = start().start();
    say(&world, "a");
    say(&world, "b");
    let (listed, parked, state) = tier(&world);
    assert_eq!((&listed["place"], &listed["tier"]), (&json!("disk"), &json!("cold")), "{listed}");
    assert!(listed["memory_tokens"].as_u64() > Some(0), "{listed}");
    assert!(listed["disk_tokens"].as_u64() > Some(300), "{listed}");
    assert_eq!((&parked.unwrap()["tier"], state.as_str()), (&json!("cold"), "cold"));
    world.stop();
    drop(world);

    // Without memory for KV all of it is on disk.
    let world = start().memory_budget(0).start();
    say(&world, "a");
    say(&world, "b");
    let (listed, parked, state) = tier(&world);
    assert_eq!((&listed["place"], &listed["memory_tokens"]), (&json!("disk"), &json!(0)));
    assert_eq!((&parked.unwrap()["tier"], state.as_str()), (&json!("cold"), "cold"));
}

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

fn slot_files(world: &World) -> Vec<std::path::PathBuf> {
    let models = std::fs::read_dir(world.directory.join("slots")).unwrap().flatten();
    let files = models.filter_map(|model| std::fs::read_dir(model.path()).ok()).flatten().flatten();
    files
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|e| e == "bin"))
        .collect()
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
