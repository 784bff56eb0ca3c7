//! Verifying, on a real directory. The command line's tests cover the rest.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::block::{BLOCK_TOKENS, Block, Timeline};
use crate::format::{BlockRef, Object, ObjectKind};
use crate::id::{BlockId, Token};
use crate::lineage::{Lineage, View};
use crate::store::{ObjectName, Store};
use crate::sweep::{LiveRefs, NoEngine};
use crate::time::Timestamp;
use crate::ttl::TtlClass;

const MODEL: ModelHash = ModelHash([7; 8]);

#[test]
fn a_damaged_object_costs_the_tokens_from_it_on_and_goes_into_quarantine() {
    let world = World::with(["one", "other"]);
    let damaged = world.damage(&objects("one")[1]);
    let files = all_files(&world.store, &[MODEL]).unwrap();
    let mut reading = world.read(&files);
    let costs = reading.costs(&world.store);
    assert_eq!((costs.len(), costs[0].lost_tokens, costs[0].damaged), (1, 2, 1));
    assert_eq!(reading.faults[0].file.path, damaged);

    let engine = Engine::default();
    let faults: Vec<StoredFile> = reading.faults.into_iter().map(|fault| fault.file).collect();
    assert_eq!(condemn(&world.store, &engine, &faults), 1);
    assert!(!damaged.exists());
    assert_eq!(engine.lost.into_inner(), [world.store.name(objects("one")[1].id())].into());
    let rejected = &world.store.quarantined(MODEL).unwrap()[0];
    assert!(rejected.since.is_some() && rejected.reason.contains("not a Hob object"));
    assert_eq!(condemn(&world.store, &NoEngine, &faults), 0, "it is gone");
}

#[test]
fn a_file_replaced_meanwhile_stays() {
    let world = World::with(["one"]);
    let object = &objects("one")[0];
    let path = world.damage(object);
    let files = all_files(&world.store, &[MODEL]).unwrap();
    let faults: Vec<StoredFile> =
        world.read(&files).faults.into_iter().map(|fault| fault.file).collect();
    fs::remove_file(&path).unwrap();
    world.store.put_object(MODEL, object.id(), object).unwrap();
    assert_eq!((faults.len(), condemn(&world.store, &NoEngine, &faults)), (1, 0));
    assert!(world.read(&files).is_whole(&[]));
}

#[test]
fn objects_of_tokens_that_did_not_see_everything_are_whole() {
    let world = World::with([]);
    let mut timeline = Timeline::new(MODEL);
    timeline.push(&[Token(1); 2 * BLOCK_TOKENS], |_| false);
    timeline.push_seeing(&[Token(1); 80], View::without([0..BLOCK_TOKENS]), |_| false);
    let object = |block: &Block| Object {
        kind: ObjectKind::Block,
        model: MODEL,
        parent: block.named_after(),
        start: block.range.start as u32,
        tokens: timeline.tokens()[block.range.clone()].to_vec(),
        payload: vec![7; 100].into(),
    };
    let saved = |block: &Block| {
        let (object, end) = (object(block), block.range.end as u32);
        assert_eq!(object.id(), block.id);
        world.store.put_object(MODEL, block.id, &object).unwrap();
        BlockRef { end, id: block.id, bytes: object.file_bytes() }
    };
    let blocks = timeline.blocks().iter().map(saved).collect();
    let lineage = Lineage { views: timeline.views(), away: vec![0..BLOCK_TOKENS as u32] };
    let record =
        SlotRecord { tokens: timeline.tokens().to_vec(), lineage, ..record("impure", blocks) };
    world.store.put_slot(MODEL, &record).unwrap();
    let files = files_of(&world.store, &[MODEL], &id("impure")).unwrap().unwrap();
    let mut reading = world.read(&files);
    let costs = reading.costs(&world.store);
    assert_eq!((files.len(), reading.is_whole(&costs)), (5, true));
    assert_eq!(reading.records, [(MODEL, record)]);
}

#[test]
fn a_conversation_is_verified_with_its_files_and_no_others() {
    let world = World::with(["one", "other"]);
    let one = files_of(&world.store, &[MODEL], &id("one")).unwrap().unwrap();
    assert_eq!(one.len(), 4);
    assert!(files_of(&world.store, &[MODEL], &id("nobody")).unwrap().is_none());
}

#[test]
fn reading_can_be_stopped() {
    let world = World::with(["one", "other"]);
    let files = all_files(&world.store, &[MODEL]).unwrap();
    let read = AtomicUsize::new(0);
    Reading::of(&world.store, &files, 1, &|_| match read.fetch_add(1, Ordering::Relaxed) {
        2.. => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert_eq!((read.into_inner(), files.len()), (3, 8));
}

#[derive(Default)]
struct Engine {
    lost: RefCell<BTreeSet<ObjectName>>,
}

impl LiveRefs for Engine {
    fn objects_lost(&self, _: &Store, _: ModelHash, objects: &BTreeSet<ObjectName>) {
        self.lost.borrow_mut().extend(objects);
    }

    crate::as_without_engine!(
        is_open,
        is_stopping,
        slot_file_removed,
        slot_file_replaced,
        while_none_reads,
        can_round,
        rounded,
        block_renamed
    );

    fn with_unreferenced(
        &self,
        _: &Store,
        _: ModelHash,
        _: BTreeSet<ObjectName>,
        _: &mut dyn FnMut(&BTreeSet<ObjectName>),
    ) {
    }
}

/// A directory of conversations of three one-token blocks.
struct World {
    store: Store,
    _directory: tempfile::TempDir,
}

impl World {
    fn with<const N: usize>(conversations: [&str; N]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("slots")).unwrap();
        for name in conversations {
            let objects = objects(name);
            for object in &objects {
                store.put_object(MODEL, object.id(), object).unwrap();
            }
            let end = |object: &Object| object.start + 1;
            let blocks = objects.iter().map(|object| BlockRef {
                end: end(object),
                id: object.id(),
                bytes: object.file_bytes(),
            });
            let tokens = objects.iter().flat_map(|object| object.tokens.clone()).collect();
            let record = SlotRecord { tokens, ..record(name, blocks.collect()) };
            store.put_slot(MODEL, &record).unwrap();
        }
        Self { store, _directory: directory }
    }

    fn read(&self, files: &[StoredFile]) -> Reading {
        Reading::of(&self.store, files, 2, &|_| ControlFlow::Continue(()))
    }

    fn damage(&self, object: &Object) -> PathBuf {
        let path = self.store.object_path(MODEL, object.id());
        fs::write(&path, "not an object").unwrap();
        path
    }
}

/// Without tokens.
fn record(name: &str, blocks: Vec<BlockRef>) -> SlotRecord {
    SlotRecord { turns: 1, blocks, ..SlotRecord::empty(id(name), TtlClass::Long, Timestamp(0)) }
}

/// The objects of a conversation of this name.
fn objects(name: &str) -> Vec<Object> {
    let mut parent = BlockId::root(MODEL);
    let object = |start: u32| {
        let object = Object {
            kind: ObjectKind::Block,
            model: MODEL,
            parent,
            start,
            tokens: vec![Token(i32::try_from(name.len()).unwrap())],
            payload: vec![start as u8; 100].into(),
        };
        parent = object.id();
        object
    };
    (0..3).map(object).collect()
}

fn id(name: &str) -> ConversationId {
    ConversationId::new(name).unwrap()
}
