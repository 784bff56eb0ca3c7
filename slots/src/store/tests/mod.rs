//! The store on a real directory. One file per subject; the shared world is here.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::*;
use crate::ageing::AdjustedTime;
use crate::fingerprint::{FileDigest, Rope};
use crate::format::{BlockRef, FormatError, SnapshotRef};
use crate::id::Token;
use crate::payload::Payload;
use crate::time::Timestamp;
use crate::ttl::{Lifetimes, TtlClass};

mod crash_marks;
mod directory;
mod garbage;
mod objects;
mod replaced;
mod sealing;
mod slot_files;

const MODEL: ModelHash = ModelHash([0xaa; 8]);
const OTHER_MODEL: ModelHash = ModelHash([0xbb; 8]);

/// A store in a temporary directory.
struct World {
    store: Store,
    dir: TempDir,
}

impl World {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        Self { store: Store::open(dir.path().join("slots")).unwrap(), dir }
    }

    /// Another process opens the directory.
    fn restarted(self) -> Self {
        let Self { store, dir } = self;
        drop(store);
        Self { store: Store::open(dir.path().join("slots")).unwrap(), dir }
    }

    fn path(&self, within: &str) -> PathBuf {
        self.dir.path().join("slots").join(within)
    }

    fn object_path(&self, object: &Object) -> PathBuf {
        self.store.layout.object(object.model, name_of(object))
    }

    fn put(&self, object: &Object) -> u64 {
        self.store.put_object(object.model, object.id(), object).unwrap()
    }

    fn get(&self, object: &Object) -> Result<Object, Miss> {
        self.store.get_object(object.model, object.id(), object.kind)
    }

    fn collect(&self, now: &AdjustedTime, grace: Duration) -> Result<Garbage, StoreError> {
        let garbage = self.store.find_garbage(MODEL, now, grace)?;
        for &name in &garbage.objects {
            self.store.collect(MODEL, name, now, grace)?;
        }
        Ok(garbage)
    }

    /// Every file below the directory except the lock.
    fn files(&self) -> BTreeSet<String> {
        let mut files = BTreeSet::new();
        let mut dirs = vec![self.path("")];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    dirs.push(path);
                } else {
                    let name = path.strip_prefix(self.path("")).unwrap().to_str().unwrap();
                    files.insert(name.replace('\\', "/"));
                }
            }
        }
        files.remove("owner.lock");
        files
    }

    fn quarantined(&self) -> Vec<String> {
        let files = self.files().into_iter();
        files.filter_map(|file| Some(file.split_once("/quarantine/")?.1.to_owned())).collect()
    }
}

fn block(first: i32) -> Object {
    Object {
        kind: ObjectKind::Block,
        model: MODEL,
        parent: BlockId::root(MODEL),
        start: 0,
        tokens: (first..first + 64).map(Token).collect(),
        payload: Payload::from(vec![first as u8; 1_000]),
    }
}

fn snapshot() -> Object {
    let parent = block(1).id();
    Object { kind: ObjectKind::Snapshot, parent, start: 64, tokens: Vec::new(), ..block(9) }
}

fn slot(name: &str, objects: &[&Object]) -> SlotRecord {
    let blocks = objects.iter().filter(|object| object.kind == ObjectKind::Block);
    let snapshots = objects.iter().filter(|object| object.kind == ObjectKind::Snapshot);
    let block = |(o, end): (&&Object, _)| BlockRef { end, id: o.id(), bytes: o.file_bytes() };
    let snapshot = |o: &&Object| SnapshotRef { position: 64, id: o.id(), bytes: o.file_bytes() };
    SlotRecord {
        created_at: Timestamp(1_000),
        tokens: vec![Token(7); 128],
        blocks: blocks.zip([64, 128]).map(block).collect(),
        snapshots: snapshots.map(snapshot).collect(),
        ..SlotRecord::empty(name.parse().unwrap(), TtlClass::Long, Timestamp(2_000))
    }
}

fn name_of(object: &Object) -> ObjectName {
    ObjectName(object.id().0)
}

fn id(name: &str) -> ConversationId {
    name.parse().unwrap()
}

fn now() -> Timestamp {
    SystemTime::now().into()
}

fn flip_a_bit(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}
