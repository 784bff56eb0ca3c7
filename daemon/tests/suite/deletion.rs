//! `kill -9` right after a deletion was answered: neither text nor KV of the conversation comes
//! back, whatever its turns did at that moment.
//!
//! Runs 10 rounds on the bundled model, or `HOB_TEST_KILL_ROUNDS`.

#![cfg(feature = "llama")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use hob_slots::store::{ObjectName, StoreReader};
use hob_testkit::{Client, Hobd};
use serde_json::{Value, json};

use crate::common::chance::{Chance, from_env};
use crate::kill::hobd::{launch, model};

const SEED: u64 = 1357;

/// Requests that run on a conversation when it is deleted.
const RUNNING: usize = 4;

#[test]
fn a_deletion_that_was_answered_never_comes_back() {
    let rounds = from_env("HOB_TEST_KILL_ROUNDS", 10);
    let directory = tempfile::tempdir().unwrap();
    let mut chance = Chance(SEED);
    let mut deleted = BTreeSet::new();
    for round in 0..rounds {
        let hobd = launch(directory.path()).start();
        check(directory.path(), &hobd, &deleted);
        let name = format!("gone-{round}");
        delete_and_kill(hobd, &name, &mut chance);
        deleted.insert(name);
    }
    let hobd = launch(directory.path()).start();
    check(directory.path(), &hobd, &deleted);
}

fn check(directory: &Path, hobd: &Hobd, deleted: &BTreeSet<String>) {
    for path in ["/v1/conversations", "/v1/conversations?trashed=true"] {
        let listed = hobd.client.get(path);
        let back: Vec<&Value> = listed["data"].as_array().unwrap().iter().collect();
        let back = back.iter().find(|known| deleted.contains(known["id"].as_str().unwrap()));
        assert_eq!(back, None, "{path}");
    }
    let reader = StoreReader::open(directory.join("slots")).unwrap();
    let slots = reader.contents(model(hobd)).unwrap().slots;
    let saved = slots.iter().map(|slot| slot.entry.conversation.as_str());
    assert_eq!(saved.filter(|name| deleted.contains(*name)).collect::<Vec<_>>(), [] as [&str; 0]);
    // Every conversation of this test was deleted: no object is left beside those of prefixes.
    let named = slots.iter().flat_map(|slot| &slot.objects).map(|(id, _)| id);
    let named: BTreeSet<ObjectName> = reader.names(named);
    let objects = reader.object_files(model(hobd)).unwrap();
    let left: Vec<_> = objects.into_iter().filter(|name| !named.contains(name)).collect();
    assert_eq!(left, []);
}

/// Deletes a conversation while turns of it begin and run, and kills hobd when the deletion is
/// answered.
fn delete_and_kill(hobd: Hobd, name: &str, chance: &mut Chance) {
    let first = hobd.client.say(name, "My locker code is 4711.");
    let answer = first["choices"][0]["message"]["content"].clone();
    let sends = Arc::new(Barrier::new(RUNNING + 1));
    let turns: Vec<_> = (0..RUNNING)
        .map(|number| {
            let (client, body) = (hobd.client.clone(), request(name, number, &answer));
            let sends = sends.clone();
            thread::spawn(move || {
                sends.wait();
                run(&client, &body);
            })
        })
        .collect();
    sends.wait(); // No turn is sent after the deletion.
    thread::sleep(Duration::from_millis(chance.within(1..30) as u64));
    let answered = hobd.client.call("DELETE", &format!("/v1/conversations/{name}")).send();
    assert_eq!(answered.status, 200, "{}", answered.text());
    drop(hobd);
    turns.into_iter().for_each(|turn| turn.join().unwrap());
}

/// An append, or a request with the whole history.
fn request(name: &str, number: usize, answer: &Value) -> Value {
    let new = json!({"role": "user", "content": format!("What is {number} plus 4?")});
    let append = number.is_multiple_of(2);
    let messages = if append {
        json!([new])
    } else {
        json!([
            {"role": "user", "content": "My locker code is 4711."},
            {"role": "assistant", "content": answer},
            new,
        ])
    };
    json!({"conversation": name, "messages": messages, "hob": {"append": append},
        "temperature": 0, "max_tokens": 48, "stream": true})
}

/// Reads an answer until it ends, is refused, or hobd dies.
fn run(client: &Client, body: &Value) {
    let call = client.call("POST", "/v1/chat/completions").json(body);
    if let Ok(mut stream) = call.try_stream() {
        while let Ok(Some(_)) = stream.try_next_data() {}
    }
}
