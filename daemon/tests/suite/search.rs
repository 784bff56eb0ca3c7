//! Search finds conversations by their titles and messages.

use std::time::{Duration, Instant};

use hob_daemon::clock::wall_clock;
use hob_daemon::conversations::transcript::{Listing, SaveIf, SearchQuery, Transcript, TurnEnd};
use hob_daemon::wire::message::{Message, Role};
use hob_slots::format::SlotRecord;
use hob_slots::store::Store;
use hob_slots::{ConversationId, Timestamp, Token, TtlClass};
use serde_json::{Value, json};

use crate::common::{Plan, World, user};

fn say(world: &World, conversation: &str, text: &str) -> Value {
    let extra = json!({"conversation": conversation, "hob": {"append": true}});
    world.chat(json!([user(text)]), extra)["hob"].clone()
}

fn search(world: &World, query: &str) -> Vec<(String, Value)> {
    let list = world.get(&format!("/v1/conversations?q={query}")).json();
    let list = list["data"].as_array().unwrap().iter();
    list.map(|c| (c["id"].as_str().unwrap().to_owned(), c["snippet"].clone())).collect()
}

fn names(world: &World, query: &str) -> Vec<String> {
    search(world, query).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn a_search_finds_text_in_every_branch() {
    let world = World::new();
    say(&world, "a", "Hello");
    let answer = say(&world, "a", "My LOCKER code is 48213, and more");
    say(&world, "b", "Something else");
    // A new branch. Search still finds the messages of the old one.
    let edit = json!({"conversation": "a", "hob": {"append": true, "after": 0}});
    world.chat(json!([user("Hallo")]), edit);

    let found = search(&world, "locker%20code");
    assert_eq!(found.len(), 1);
    let (name, snippet) = &found[0];
    assert_eq!((name.as_str(), &snippet["message"]), ("a", &answer["parent"]));
    assert_eq!(snippet["text"], "My LOCKER code is 48213, and more");
    assert_eq!((&snippet["start"], &snippet["end"]), (&json!(3), &json!(9)));
    assert_eq!(names(&world, "8213"), ["a"]);
    assert_eq!(names(&world, "locker%20else"), [""; 0]);
    assert_eq!(names(&world, "%22locker%22%20OR%20*"), [""; 0]);
    assert_eq!(names(&world, "").len(), 2, "an empty query lists all conversations");
}

#[test]
fn titles_are_found_too_and_short_words_in_them_alone() {
    let world = World::new();
    say(&world, "a", "Up and away");
    say(&world, "b", "Down, not up");
    for (name, title) in [("a", "Über alles"), ("b", "Nothing")] {
        let rename = json!({"title": title});
        world.call("PATCH", &format!("/v1/conversations/{name}")).json(&rename).send();
    }
    let found = search(&world, "%C3%9CBER");
    assert_eq!(found, [("a".to_owned(), Value::Null)]);
    assert_eq!(names(&world, "al"), ["a"]);
    assert_eq!(names(&world, "up"), [""; 0]);
    assert_eq!(names(&world, "not%20up"), ["b"]);
}

#[test]
fn a_search_does_not_find_deleted_or_trashed_conversations() {
    let world = World::new();
    say(&world, "a", "The locker");
    say(&world, "b", "The locker");
    world.call("PATCH", "/v1/conversations/a").json(&json!({"trashed": true})).send();
    assert_eq!(names(&world, "locker"), ["b"]);
    assert_eq!(names(&world, "locker&trashed=true"), ["a"]);
    world.call("DELETE", "/v1/conversations/b").send();
    assert_eq!(names(&world, "locker"), [""; 0]);
    let long = "x".repeat(201);
    assert_eq!(world.get(&format!("/v1/conversations?q={long}")).error()["param"], "q");
}

/// 10,000 conversations, each with KV on disk: several years of use.
#[test]
#[ignore = "measures: --ignored --nocapture, with optimisation"]
fn ten_thousand_conversations_are_listed_and_searched_at_once() {
    let directory = tempfile::tempdir().unwrap();
    fill(directory.path(), 10_000, 10);
    let text =
        Transcript::open(&directory.path().join("transcripts.sqlite"), wall_clock()()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for query in ["everywhere", "rareword4242"] {
        let began = Instant::now();
        let query = SearchQuery::of(query).unwrap();
        let hits = runtime.block_on(text.search(query, Listing::Current).done()).unwrap().len();
        println!("the text alone: {hits} found in {:?}", began.elapsed());
    }
    let world = Plan::new().directory(directory.path()).start();
    let took = |query: &str| {
        let path = format!("/v1/conversations{query}");
        world.get(&path);
        let mut times: Vec<Duration> = (0..9)
            .map(|_| {
                let began = Instant::now();
                assert_eq!(world.get(&path).status, 200);
                began.elapsed()
            })
            .collect();
        times.sort();
        let found = world.get(&path).json()["data"].as_array().unwrap().len();
        println!("{path}: {found} found in {:?}, at most {:?}", times[4], times[8]);
        assert!(times[4] < Duration::from_secs(1), "{path}");
    };
    for query in ["", "?q=everywhere", "?q=rareword4242", "?q=nowhereatall", "?q=ev"] {
        took(query);
    }
}

/// Writes conversations with `turns` questions and answers each, and their slot files.
fn fill(directory: &std::path::Path, conversations: usize, turns: usize) {
    let (clock, model) = (wall_clock(), crate::common::model());
    let transcript = Transcript::open(&directory.join("transcripts.sqlite"), clock()).unwrap();
    let store = Store::open(directory.join("slots")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for number in 0..conversations {
        let id = ConversationId::new(&format!("conversation-{number}")).unwrap();
        let text = |turn: usize| {
            let filler = "It is said that words of all kinds come and go. ".repeat(6);
            format!("rareword{number} in turn {turn}: everywhere a word of {number}. {filler}")
        };
        let mut messages: Vec<Message> = (0..turns)
            .flat_map(|turn| [Role::User, Role::Assistant].map(|role| (role, text(turn))))
            .map(|(role, text)| Message::plain(role, &text))
            .collect();
        let answer = messages.pop().unwrap();
        let mut open = transcript.sync(&id, messages, clock());
        runtime.block_on(open.stored()).unwrap();
        let answer = Some(open.complete(&answer, &json!({})));
        let (timeline, explanation) = (None, None);
        transcript.end_turn(TurnEnd {
            fingerprint: model,
            answer,
            timeline,
            explanation,
            is_private: false,
            save_if: SaveIf::HasText,
            now: clock(),
        });
        let record = SlotRecord {
            turns: 1,
            tokens: vec![Token(1); 4000],
            ..SlotRecord::empty(id, TtlClass::Permanent, Timestamp(1))
        };
        store.put_slot(model, &record).unwrap();
    }
}
