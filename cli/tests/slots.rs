//! `hob slots` on directories of kept KV.

mod common;

use std::fs;
use std::time::{Duration, SystemTime};

use common::Home;
use hob_slots::{
    BlockId, BlockRef, ConversationId, ModelHash, Object, ObjectKind, SlotRecord, Store, Timestamp,
    Token, TtlClass,
};

const MODEL: ModelHash = ModelHash([0xab; 8]);
const HOUR: u64 = 3_600;

#[test]
fn an_empty_or_missing_directory_keeps_nothing() {
    let home = Home::new();
    let list = home.hob(&["slots", "ls"]).ok();
    assert!(list.contains("0 conversations, 0 tokens, 0 B"), "{list}");
    assert!(home.hob(&["slots", "prune", "--yes"]).ok().contains("0 conversations"));
    home.hob(&["slots", "show", "room-1"]).fails(4, &["room-1", "hob slots ls"]);
    home.hob(&["slots", "rm", "room-1"]).fails(4, &["room-1"]);
    assert!(!home.path("data").exists(), "looking makes no directory");
}

#[test]
fn what_is_kept_is_listed_in_bytes_and_tokens() {
    let home = kept();
    let list = home.hob(&["slots", "ls"]).ok();
    for words in ["room-1", "abababababababab", "extended", "2 h ago", "expired", "1,280"] {
        assert!(list.contains(words), "{words} is missing: {list}");
    }
    let listed = home.hob(&["slots", "ls", "--json"]).json();
    let room = listed["slots"].as_array().unwrap().iter().find(|s| s["conversation"] == "room-1");
    assert_eq!(room.unwrap()["tokens"], 1280);
    assert!(listed["disk_bytes"].as_u64().unwrap() > 30_000);
    let other = home.hob(&["slots", "ls", "--json", "--fingerprint", "0000000000000000"]).json();
    assert_eq!(other["slots"].as_array().unwrap().len(), 0);
}

#[test]
fn a_directory_can_be_named() {
    let home = kept();
    let dir = home.path("data/slots");
    fs::rename(&dir, home.path("elsewhere")).unwrap();
    let words =
        ["slots", "ls", "--slots-dir", home.path("elsewhere").to_str().unwrap()].map(str::to_owned);
    let words = words.each_ref().map(String::as_str);
    assert!(home.hob(&words).ok().contains("room-1"));
}

#[test]
fn one_conversation_is_shown_and_verified() {
    let home = kept();
    assert!(home.hob(&["slots", "show", "room-1"]).ok().contains("all there"));
    let shown = home.hob(&["slots", "show", "room-1", "--verify"]).ok();
    assert!(shown.contains("every byte verified") && shown.contains("1,280"), "{shown}");

    let object = objects(&home).remove(0);
    let mut bytes = fs::read(&object).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&object, bytes).unwrap();
    assert_eq!(home.hob(&["slots", "show", "room-1"]).code, 0, "its files are all there");
    home.hob(&["slots", "show", "room-1", "--verify"]).fails(5, &["room-1", "computed again"]);
    assert!(object.exists(), "looking moves nothing");
}

#[test]
fn prune_changes_nothing_unless_told() {
    let home = kept();
    let before = files(&home);
    let ran = home.hob(&["slots", "prune"]).ok();
    assert!(ran.contains("room-2") && !ran.contains("room-1"), "only room-2 has expired: {ran}");
    assert!(ran.contains("would remove 1 conversation") && ran.contains("--yes"), "{ran}");
    assert_eq!(files(&home), before);

    let promised = home.hob(&["slots", "prune", "--json"]).json();
    let done = home.hob(&["slots", "prune", "--json", "--yes"]).json();
    assert_eq!(promised["freed_bytes"], done["freed_bytes"]);
    assert_eq!((&promised["dry_run"], &done["dry_run"]), (&true.into(), &false.into()));
    let freed = bytes(&before) - bytes(&files(&home));
    assert_eq!(done["freed_bytes"].as_u64().unwrap(), freed);
    assert!(!home.hob(&["slots", "ls"]).ok().contains("room-2"));
}

#[test]
fn prune_takes_criteria() {
    let home = kept();
    let names = |words: &[&str]| {
        let words = [&["slots", "prune", "--json"], words].concat();
        let found = home.hob(&words).json();
        let slots = found["slots"].as_array().unwrap().iter();
        slots.map(|slot| slot["conversation"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&["--older-than", "90m"]), ["room-1", "room-2"]);
    assert_eq!(names(&["--older-than", "90m", "--class", "extended"]), ["room-1"]);
    assert_eq!(names(&["--larger-than", "1GiB"]), Vec::<String>::new());
    assert_eq!(names(&["--conversation", "room-3"]), ["room-3"]);
    assert_eq!(home.hob(&["slots", "prune", "--older-than", "soon"]).code, 2);
    assert_eq!(home.hob(&["slots", "prune", "--class", "forever"]).code, 2);
}

#[test]
fn removing_a_conversation_frees_what_it_alone_needs() {
    let home = kept();
    let before = bytes(&files(&home));
    let ran = home.hob(&["slots", "rm", "--json", "nobody", "room-1"]);
    let done: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(done["removed"], serde_json::json!(["room-1"]));
    ran.fails(4, &["nobody"]);
    assert!(bytes(&files(&home)) < before);
    home.hob(&["slots", "show", "room-1"]).fails(4, &["room-1"]);
    home.hob(&["slots", "show", "room-3", "--verify"]).ok();
}

#[test]
fn nothing_is_changed_while_somebody_owns_the_directory() {
    let home = kept();
    let dir = home.path("data/slots");
    let store = Store::open(&dir).unwrap();
    fs::write(home.path("data/hobd.json"), running(&home)).unwrap();
    let before = files(&home);
    for words in [&["slots", "rm", "room-1"][..], &["slots", "prune", "--yes"]] {
        let pid = format!("pid {}", std::process::id());
        home.hob(words).fails(6, &["in use by", &pid, "127.0.0.1:9", "hob conversations rm"]);
    }
    assert_eq!(files(&home), before);
    assert!(home.hob(&["slots", "ls"]).ok().contains("room-1"), "looking is always possible");
    home.hob(&["slots", "prune"]).ok();
    drop(store);
}

#[test]
fn a_file_that_cannot_be_used_is_named_and_the_rest_is_listed() {
    let home = kept();
    let slot = files(&home).into_iter().map(|(path, _)| path);
    let slot = slot.into_iter().find(|path| path.contains("room-2")).unwrap();
    fs::write(&slot, "not a slot file").unwrap();
    let ran = home.hob(&["slots", "ls"]);
    assert!(ran.err.contains("room-2"), "{ran:?}");
    assert!(ran.ok().contains("room-1"));
    home.hob(&["slots", "show", "room-2"]).fails(5, &["room-2"]);
}

/// room-1 and room-3 share a beginning; room-2 has expired.
fn kept() -> Home {
    let home = Home::new();
    let store = Store::open(home.path("data/slots")).unwrap();
    let common: Vec<i32> = (0..640).collect();
    let own = |from: i32| common.iter().copied().chain(from..from + 640).collect::<Vec<_>>();
    save(&store, "room-1", TtlClass::Extended, 2 * HOUR, &own(10_000));
    save(&store, "room-2", TtlClass::Short, 3 * HOUR, &(5_000..5_064).collect::<Vec<_>>());
    save(&store, "room-3", TtlClass::Long, 0, &own(20_000));
    home
}

fn save(store: &Store, name: &str, class: TtlClass, unused_secs: u64, tokens: &[i32]) {
    let tokens: Vec<Token> = tokens.iter().copied().map(Token).collect();
    let mut blocks = Vec::new();
    let mut parent = BlockId::root(MODEL);
    for (n, chunk) in tokens.chunks(64).enumerate() {
        let object = Object {
            kind: ObjectKind::Block,
            model: MODEL,
            parent,
            start: n as u32 * 64,
            tokens: chunk.to_vec(),
            payload: vec![n as u8; 1024].into(),
        };
        let id = object.id();
        store.put_object(MODEL, id, &object).unwrap();
        let end = object.start + chunk.len() as u32;
        blocks.push(BlockRef { end, id, bytes: object.file_bytes() });
        parent = id;
    }
    let used_at = Timestamp::from(SystemTime::now() - Duration::from_secs(unused_secs));
    let record = SlotRecord {
        conversation: ConversationId::new(name).unwrap(),
        class,
        created_at: used_at,
        used_at,
        turns: 0,
        tokens,
        blocks,
        snapshots: Vec::new(),
        segments: Vec::new(),
    };
    store.put_slot(MODEL, &record).unwrap();
}

fn running(home: &Home) -> String {
    serde_json::json!({
        "address": "127.0.0.1:9", "token_file": "/t", "pid": 1, "model": "m",
        "fingerprint": MODEL.to_string(), "slots_dir": home.path("data/slots"),
    })
    .to_string()
}

/// Every kept file and its length, in order.
fn files(home: &Home) -> Vec<(String, u64)> {
    let mut files = Vec::new();
    let mut dirs = vec![home.path("data/slots")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            match entry.metadata().unwrap() {
                facts if facts.is_dir() => dirs.push(entry.path()),
                _ if entry.file_name() == "owner.lock" => {}
                facts => files.push((entry.path().to_string_lossy().into_owned(), facts.len())),
            }
        }
    }
    files.sort();
    files
}

/// The objects of room-1.
fn objects(home: &Home) -> Vec<std::path::PathBuf> {
    let shown = home.hob(&["slots", "show", "--json", "room-1"]).json();
    let blocks = shown[0]["blocks"].as_array().unwrap().clone();
    let file = |block: &serde_json::Value| {
        let id = block["id"].as_str().unwrap().to_owned();
        let all = files(home).into_iter().map(|(path, _)| path);
        all.into_iter().find(|path| path.contains(&id)).unwrap().into()
    };
    blocks.iter().map(file).collect()
}

fn bytes(files: &[(String, u64)]) -> u64 {
    files.iter().map(|(_, bytes)| bytes).sum()
}
