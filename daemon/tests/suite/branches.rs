//! Earlier branches through the built hobd, on llama.cpp and the bundled model: going back to one
//! days later restores it from disk, and a deletion takes all of them with it.

#![cfg(feature = "llama")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hob_slots::store::StoreReader;
use hob_slots::{ConversationId, ModelHash, SlotRecord};
use hob_testkit::{Client, Hobd, Launch, files, wait};
use serde_json::{Value, json};

const CHAT: &str = "chat";
const SOME_DAYS: Duration = Duration::from_secs(3 * 24 * 60 * 60);

fn launch(directory: &Path) -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory).separate_slots();
    launch.args(["--threads", "1", "--slots", "2", "--log", "warn", "--ttl-long", "30d"])
}

fn number(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

/// Answers `text` after a message; 0 is the beginning.
fn say_after(client: &Client, after: u64, text: &str) -> Value {
    client.chat(&json!({
        "conversation": CHAT, "hob": {"append": true, "after": after}, "temperature": 0,
        "max_tokens": 40, "messages": [{"role": "user", "content": text}],
    }))
}

/// Waits until the timeline of the last answer is on disk.
fn saved(directory: &Path, hobd: &Hobd, answer: &Value) -> SlotRecord {
    let model: ModelHash = hobd.ready["fingerprint"].as_str().unwrap().parse().unwrap();
    let reader = StoreReader::open(directory.join("slots")).unwrap();
    let timeline = number(&answer["usage"]["total_tokens"]);
    wait::until("the timeline is on disk", || {
        let record = reader.get_slot(model, &ConversationId::new(CHAT).unwrap()).ok()?;
        (record.tokens.len() == timeline).then_some(record)
    })
}

/// The tokens of the last block with more than a few, as its object has them.
fn secret_of(record: &SlotRecord) -> Vec<u8> {
    let ends: Vec<usize> = record.blocks.iter().map(|block| block.end as usize).collect();
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let blocks: Vec<_> = starts.zip(&ends).map(|(start, &end)| start..end).collect();
    let last = blocks.into_iter().rfind(|block| block.len() > 6).unwrap();
    record.tokens[last].iter().flat_map(|token| token.0.to_le_bytes()).collect()
}

/// Lets every object be some days old, with one that no slot file names.
fn let_days_pass(directory: &Path, hobd: &Hobd) -> PathBuf {
    let model = hobd.ready["fingerprint"].as_str().unwrap();
    let objects = directory.join("slots").join(model).join("objects/00");
    fs::create_dir_all(&objects).unwrap();
    let orphan = objects.join(format!("{}.kv", "0".repeat(64)));
    fs::write(&orphan, "nobody's").unwrap();
    for file in files::with_extension(&directory.join("slots"), "kv") {
        let file = File::options().write(true).open(file).unwrap();
        file.set_modified(SystemTime::now() - SOME_DAYS).unwrap();
    }
    orphan
}

/// Stops hobd, lets days pass and starts it again, until its first sweep is over.
fn some_days_later(directory: &Path, mut hobd: Hobd) -> Hobd {
    hobd.process.terminate(wait::PATIENCE);
    let orphan = let_days_pass(directory, &hobd);
    let hobd = launch(directory).start();
    wait::until("the sweep at start has collected", || (!orphan.exists()).then_some(()));
    hobd
}

#[test]
fn going_back_to_an_earlier_branch_days_later_restores_it_from_disk() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let hobd = launch(directory).start();
    let first = hobd.client.say(CHAT, "My locker code is 4711. What is the capital of Peru?");
    let second = hobd.client.say(CHAT, "My door code is 8315. What is my locker code?");
    let branch = saved(directory, &hobd, &second);
    // An edit of the second message, and a longer talk from there on.
    let base = first["hob"]["message"].as_u64().unwrap();
    say_after(&hobd.client, base, "My badge number is 60. What is the opposite of hot?");
    let edited = hobd.client.say(CHAT, "What is my badge number?");
    let edited = saved(directory, &hobd, &edited);
    assert!(!edited.branches.is_empty());
    let hobd = some_days_later(directory, hobd);
    let tip = second["hob"]["message"].as_u64().unwrap();
    let back = say_after(&hobd.client, tip, "What is my door code?");
    let (tokens, prompt) = (&back["hob"]["tokens"], number(&back["usage"]["prompt_tokens"]));
    assert!(number(&tokens["disk"]) > 0, "{back}");
    assert_eq!(number(&tokens["computed"]), prompt - branch.tokens.len(), "{back}");
    // And from there back to the branch of the edit.
    saved(directory, &hobd, &back);
    let hobd = some_days_later(directory, hobd);
    let messages = hobd.client.get(&format!("/v1/conversations/{CHAT}?branches=true"));
    let messages = messages["messages"].as_array().unwrap().clone();
    let asked = messages.iter().find(|said| said["content"] == "What is my badge number?").unwrap();
    let tip = messages.iter().find(|said| said["parent"] == asked["id"]).unwrap();
    let back = say_after(&hobd.client, tip["id"].as_u64().unwrap(), "Thank you.");
    let (tokens, prompt) = (&back["hob"]["tokens"], number(&back["usage"]["prompt_tokens"]));
    assert!(number(&tokens["disk"]) > 0, "{back}");
    assert_eq!(number(&tokens["computed"]), prompt - edited.tokens.len(), "{back}");
}

#[test]
fn after_a_deletion_no_file_has_tokens_of_any_branch() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let hobd = launch(directory).start();
    let mut timelines = Vec::new();
    let first = hobd.client.say(CHAT, "My locker code is 4711. What is the capital of Peru?");
    timelines.push(saved(directory, &hobd, &first));
    let base = first["hob"]["message"].as_u64().unwrap();
    for text in ["What is my locker code?", "Tell me a joke.", "What is 3 plus 4?"] {
        let answer = say_after(&hobd.client, base, text);
        timelines.push(saved(directory, &hobd, &answer));
    }
    let edited = say_after(&hobd.client, 0, "My badge number is 60. What is the opposite of hot?");
    timelines.push(saved(directory, &hobd, &edited));
    let secrets: Vec<Vec<u8>> = timelines.iter().map(secret_of).collect();
    let known = |secret: &Vec<u8>| {
        let has = |file: &PathBuf| {
            let holds = |bytes: Vec<u8>| bytes.windows(secret.len()).any(|part| part == secret);
            fs::read(file).is_ok_and(holds)
        };
        files::below(&directory.join("slots")).iter().any(has)
    };
    assert!(secrets.iter().all(known), "every branch is on disk");

    let deleted = hobd.client.call("DELETE", &format!("/v1/conversations/{CHAT}")).send();
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    assert!(!secrets.iter().any(known));
    let slot_file = |path: &&PathBuf| path.to_string_lossy().contains("/chat.");
    assert_eq!(files::below(&directory.join("slots")).iter().find(slot_file), None);
}
