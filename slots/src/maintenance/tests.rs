//! What is promised of pruning, removing and classes, on a real directory.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::format::{BlockRef, Object, ObjectKind, SlotRecord};
use crate::id::{BlockId, Token};
use crate::prune::Selection;
use crate::store::{ObjectName, Store};
use crate::sweep::{LiveRefs, NoEngine};
use crate::time::Timestamp;

const MODEL: ModelHash = ModelHash([7; 8]);

#[test]
fn a_plan_promises_what_doing_it_frees() {
    let world = World::new();
    world.save("a", 3, &[1, 2]);
    world.save("b", 0, &[1, 3]);
    world.put(9);
    let old = Selection { older_than: Some(Duration::from_secs(3_600)), ..Selection::default() };
    let plan = plan_prune(&world.store, &old, world.context(), &|_, _| false).unwrap();
    let before = world.bytes();
    let done = prune(&world.store, &NoEngine, &old, world.context()).unwrap();
    assert!(plan.dry_run && !done.dry_run);
    assert_eq!((&plan.slots, plan.freed_bytes), (&done.slots, done.freed_bytes));
    assert_eq!(before - world.bytes(), done.freed_bytes);
    assert!(done.unneeded_bytes > 0);
    assert_eq!(world.objects(), [1, 3], "b needs them");
}

#[test]
fn what_is_open_is_told_and_left_alone() {
    let world = World::new();
    world.save("a", 3, &[1]);
    world.save("b", 3, &[2]);
    let engine = Engine::holding("a");
    let all = Selection { fingerprint: Some(MODEL), ..Selection::default() };
    let done = prune(&world.store, &engine, &all, world.context()).unwrap();
    assert_eq!(done.skipped, [Skipped::open(MODEL, &id("a"))]);
    assert_eq!(done.slots[0].conversation, "b");

    let names = ["a", "b", "a"].map(str::to_owned);
    let done = remove(&world.store, &engine, &names, None, &world.moment).unwrap();
    assert_eq!((done.removed.len(), &done.missing[..]), (0, &["b".to_owned()][..]));
    assert_eq!(done.skipped.len(), 1);

    let done = set_class(&world.store, &engine, &id("a"), TtlClass::Kept, None).unwrap();
    assert_eq!((done.changed.len(), done.skipped.len()), (0, 1));
    assert_eq!(world.objects(), [1]);
}

#[test]
fn what_memory_still_names_stays_on_disk() {
    let world = World::new();
    world.save("a", 3, &[1, 2]);
    let engine = Engine { needs: [world.store.name(object(1).id())].into(), ..Engine::default() };
    remove(&world.store, &engine, &["a".to_owned()], None, &world.moment).unwrap();
    assert_eq!(world.objects(), [1]);
    assert_eq!(*engine.left.lock().unwrap(), ["a"]);
}

#[test]
fn young_objects_without_a_name_have_their_grace() {
    let world = World::new();
    world.put(1);
    let graceful = Context { grace: Duration::from_secs(600), ..world.context() };
    assert_eq!(collect(&world.store, &NoEngine, None, graceful).unwrap().models, []);
    let plan = plan_collect(&world.store, None, world.context()).unwrap();
    let done = collect(&world.store, &NoEngine, None, world.context()).unwrap();
    assert_eq!((plan.models.len(), plan.freed_bytes), (1, done.freed_bytes));
    assert!(world.objects().is_empty());
}

#[test]
fn a_class_is_changed_without_making_anything_younger() {
    let world = World::new();
    world.save("a", 3, &[1]);
    let before = world.store.get_slot(MODEL, &id("a")).unwrap();
    let done = set_class(&world.store, &NoEngine, &id("a"), TtlClass::Kept, None).unwrap();
    assert_eq!((done.changed[0].from, done.changed[0].to), (TtlClass::Long, TtlClass::Kept));
    let after = world.store.get_slot(MODEL, &id("a")).unwrap();
    assert_eq!(after, SlotRecord { class: TtlClass::Kept, ..before });
    let nobody = set_class(&world.store, &NoEngine, &id("x"), TtlClass::Kept, None).unwrap();
    assert_eq!(nobody, Reclassed::default());
}

fn id(name: &str) -> ConversationId {
    name.parse().unwrap()
}

fn object(number: i32) -> Object {
    Object {
        kind: ObjectKind::Block,
        model: MODEL,
        parent: BlockId::root(MODEL),
        start: 0,
        tokens: vec![Token(number)],
        payload: vec![number as u8; 100].into(),
    }
}

/// An engine that holds what it is told to.
#[derive(Default)]
struct Engine {
    open: Option<ConversationId>,
    needs: BTreeSet<ObjectName>,
    left: Mutex<Vec<String>>,
}

impl Engine {
    fn holding(name: &str) -> Self {
        Self { open: Some(id(name)), ..Self::default() }
    }
}

impl LiveRefs for Engine {
    fn is_open(&self, _: ModelHash, conversation: &ConversationId) -> bool {
        self.open.as_ref() == Some(conversation)
    }

    fn slot_left(&self, _: ModelHash, conversation: &ConversationId) {
        self.left.lock().unwrap().push(conversation.to_string());
    }

    fn with_unreferenced(
        &self,
        _: &Store,
        _: ModelHash,
        objects: BTreeSet<ObjectName>,
        remove: &mut dyn FnMut(&BTreeSet<ObjectName>),
    ) {
        remove(&objects.difference(&self.needs).copied().collect());
    }
}

struct World {
    store: Store,
    moment: AdjustedTime,
    lifetimes: Lifetimes,
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let now = Timestamp::from(std::time::SystemTime::now());
        let (moment, lifetimes) = (AdjustedTime::from(now), Lifetimes::default());
        Self { store: Store::open(dir.path()).unwrap(), moment, lifetimes, dir }
    }

    fn context(&self) -> Context<'_> {
        Context { moment: &self.moment, lifetimes: &self.lifetimes, grace: Duration::ZERO }
    }

    fn put(&self, number: i32) -> BlockRef {
        let object = object(number);
        self.store.put_object(MODEL, object.id(), &object).unwrap();
        BlockRef { end: number as u32, id: object.id(), bytes: object.file_bytes() }
    }

    /// A conversation that was silent for some hours and needs these objects.
    fn save(&self, name: &str, hours: u64, objects: &[i32]) {
        let used_at = Timestamp(self.moment.now().0 - hours * 3_600_000);
        let record = SlotRecord {
            conversation: id(name),
            class: TtlClass::Long,
            created_at: used_at,
            used_at,
            turns: 1,
            tokens: vec![Token(0); 10],
            blocks: objects.iter().map(|&number| self.put(number)).collect(),
            snapshots: Vec::new(),
            segments: Vec::new(),
        };
        self.store.put_slot(MODEL, &record).unwrap();
    }

    /// Those of the first ten objects that are there.
    fn objects(&self) -> Vec<i32> {
        (0..10).filter(|&number| self.store.has_object(MODEL, object(number).id())).collect()
    }

    fn bytes(&self) -> u64 {
        let files = self.store.stored_files(MODEL).unwrap();
        assert!(self.dir.path().exists());
        files.iter().map(|file| file.bytes).sum()
    }
}
