//! A home directory with saved conversations.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use hob_slots::{
    BlockId, BlockRef, ConversationId, ModelHash, Object, ObjectKind, SlotRecord, Store, Timestamp,
    Token, TtlClass,
};

use super::common::Home;

pub const MODEL: ModelHash = ModelHash([0xab; 8]);
const HOUR: u64 = 3_600;

/// Three saved conversations: room-1 and room-3 share 640 tokens, room-2 has expired.
pub fn saved_home() -> Home {
    let home = Home::new();
    let store = Store::open(home.path("data/slots")).unwrap();
    let common: Vec<i32> = (0..640).collect();
    let own = |from: i32| common.iter().copied().chain(from..from + 640).collect::<Vec<_>>();
    save(&store, "room-1", TtlClass::Extended, 2 * HOUR, &own(10_000));
    save(&store, "room-2", TtlClass::Short, 3 * HOUR, &(5_000..5_064).collect::<Vec<_>>());
    save(&store, "room-3", TtlClass::Long, 0, &own(20_000));
    home
}

pub fn save(store: &Store, name: &str, class: TtlClass, unused_secs: u64, tokens: &[i32]) {
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
        tokens,
        blocks,
        ..SlotRecord::empty(ConversationId::new(name).unwrap(), class, used_at)
    };
    store.put_slot(MODEL, &record).unwrap();
}

/// Every file of the slots directory with its length, sorted.
pub fn files(home: &Home) -> Vec<(String, u64)> {
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

pub fn objects(home: &Home) -> Vec<PathBuf> {
    objects_of(home, "room-1")
}

pub fn objects_of(home: &Home, conversation: &str) -> Vec<PathBuf> {
    let shown = home.hob(&["slots", "show", "--json", conversation]).json();
    let blocks = shown[0]["blocks"].as_array().unwrap().clone();
    let file = |block: &serde_json::Value| {
        let id = block["id"].as_str().unwrap().to_owned();
        let all = files(home).into_iter().map(|(path, _)| path);
        all.into_iter().find(|path| path.contains(&id)).unwrap().into()
    };
    blocks.iter().map(file).collect()
}

pub fn bytes(files: &[(String, u64)]) -> u64 {
    files.iter().map(|(_, bytes)| bytes).sum()
}
