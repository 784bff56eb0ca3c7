//! Pruning, collecting, removing and classes, on a real directory.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::format::{BlockRef, Object, ObjectKind, SlotRecord};
use crate::id::{BlockId, Token};
use crate::store::{ObjectName, Store};
use crate::sweep::opens_meanwhile::OpensMeanwhile;
use crate::sweep::{LiveRefs, NoEngine};
use crate::time::Timestamp;

const MODEL: ModelHash = ModelHash([7; 8]);

#[test]
fn a_plan_frees_what_it_promises() {
    let world = World::new();
    world.save("a", 3, &[1, 2]);
    world.save("b", 0, &[1, 3]);
    world.put(9);
    let old = Prune { older_than_secs: Some(3_600), ..Prune::default() };
    let plan = world.prune(&NoEngine, old.clone());
    let before = world.bytes();
    let done = world.prune(&NoEngine, Prune { dry_run: false, ..old });
    assert!(plan.dry_run && !done.dry_run);
    assert_eq!((&plan.slots, plan.freed_bytes), (&done.slots, done.freed_bytes));
    assert_eq!(before - world.bytes(), done.freed_bytes);
    assert!(done.unneeded_bytes > 0);
    assert_eq!(world.objects(), [1, 3], "b needs them");
}

#[test]
fn an_open_conversation_is_skipped_and_reported() {
    let world = World::new();
    world.save("a", 3, &[1]);
    world.save("b", 3, &[2]);
    let engine = Engine::holding("a");
    let all = Prune { fingerprint: Some(MODEL), dry_run: false, ..Prune::default() };
    let done = world.prune(&engine, all);
    assert_eq!(done.skipped, [Skipped::in_use(MODEL, &id("a"))]);
    assert_eq!(done.slots[0].conversation, "b");

    let done = world.remove(&engine, &["a", "b", "a"]);
    assert_eq!((done.removed.len(), &done.missing[..]), (0, &["b".to_owned()][..]));
    assert_eq!(done.skipped.len(), 1);

    let done = world.set_class(&engine, "a", TtlClass::Permanent);
    assert_eq!((done.changed.len(), done.skipped.len()), (0, 1));
    assert_eq!(world.objects(), [1]);
}

#[test]
fn a_conversation_that_is_opened_after_the_plan_is_skipped_and_keeps_its_objects() {
    let world = World::new();
    world.save("a", 3, &[1, 2]);
    world.save("b", 3, &[2, 3]);
    let all = Prune { fingerprint: Some(MODEL), dry_run: false, ..Prune::default() };
    let done = world.prune(&OpensMeanwhile::new("a"), all);
    let skipped = [Skipped::in_use(MODEL, &id("a"))];
    assert_eq!(done.skipped, skipped);
    assert_eq!(done.slots.iter().map(|slot| &*slot.conversation).collect::<Vec<_>>(), ["b"]);
    assert_eq!(world.objects(), [1, 2]);

    let done = world.remove(&OpensMeanwhile::new("a"), &["a"]);
    assert_eq!((done.removed.len(), done.missing.len(), &done.skipped[..]), (0, 0, &skipped[..]));
    let done = world.set_class(&OpensMeanwhile::new("a"), "a", TtlClass::Permanent);
    assert_eq!((done.changed.len(), &done.skipped[..]), (0, &skipped[..]));
    assert_eq!(world.store.get_slot(MODEL, &id("a")).unwrap().class, TtlClass::Long);
    assert_eq!(world.objects(), [1, 2]);
}

#[test]
fn an_object_that_the_engine_references_stays_on_disk() {
    let world = World::new();
    world.save("a", 3, &[1, 2]);
    let engine = Engine { needs: [world.store.name(object(1).id())].into(), ..Engine::default() };
    world.remove(&engine, &["a"]);
    assert_eq!(world.objects(), [1]);
    assert_eq!(*engine.left.lock().unwrap(), ["a"]);
}

#[test]
fn young_unreferenced_objects_stay_for_their_grace() {
    let world = World::new();
    world.put(1);
    let graceful = Context { grace: Duration::from_secs(600), ..world.context() };
    assert_eq!(world.collect(false, &graceful).models, []);
    let plan = world.collect(true, &world.context());
    let done = world.collect(false, &world.context());
    assert_eq!((plan.models.len(), plan.freed_bytes), (1, done.freed_bytes));
    assert!(world.objects().is_empty());
}

#[test]
fn requests_and_reports_survive_json() {
    let prune = Prune { older_than_secs: Some(9), class: Some(TtlClass::Long), ..Prune::default() };
    let json = serde_json::to_string(&Request::from(prune.clone())).unwrap();
    assert_eq!(serde_json::from_str::<Prune>(&json).unwrap(), prune);
    assert!(serde_json::from_str::<Prune>(r#"{"dryrun": false}"#).is_err());
    assert!(serde_json::from_str::<Prune>("{}").unwrap().dry_run);
    assert!(serde_json::from_str::<Collect>("{}").unwrap().dry_run);
    let reports = [
        Report::Pruned(Pruned::default()),
        Report::Collected(Collected::default()),
        Report::Removed(Removed::default()),
        Report::Reclassed(Reclassed::default()),
    ];
    for report in reports {
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
    }
}

#[test]
fn a_conversation_whose_slot_file_cannot_be_read_is_removed_by_name() {
    let world = World::new();
    for (name, at) in [("damaged", 60), ("later", 8)] {
        world.save(name, 0, &[1]);
        let paths = world.store.slot_paths(MODEL, &id(name));
        let path = paths.into_iter().find(|path| path.exists()).unwrap();
        let mut file = std::fs::read(&path).unwrap();
        file[at] ^= 8;
        std::fs::write(&path, &file).unwrap();
        let engine = Engine::holding(name);
        let done = world.remove(&engine, &[name]);
        assert_eq!((done.removed.len(), done.missing.len(), done.skipped.len()), (0, 0, 1));
        assert!(path.exists());
        let done = world.remove(&NoEngine, &[name, "nobody"]);
        assert_eq!(
            (done.removed, done.missing),
            (vec![name.to_owned()], vec!["nobody".to_owned()])
        );
        assert_eq!(done.freed_bytes, file.len() as u64);
        assert!(!path.exists());
    }
}

#[test]
fn changing_a_class_changes_nothing_else() {
    let world = World::new();
    world.save("a", 3, &[1, 3]);
    let mut before = world.store.get_slot(MODEL, &id("a")).unwrap();
    before.lineage.away = vec![0..1];
    world.store.put_slot(MODEL, &before).unwrap();
    let done = world.set_class(&NoEngine, "a", TtlClass::Permanent);
    assert_eq!((done.changed[0].from, done.changed[0].to), (TtlClass::Long, TtlClass::Permanent));
    let after = world.store.get_slot(MODEL, &id("a")).unwrap();
    assert_eq!(after, SlotRecord { class: TtlClass::Permanent, ..before });
    let missing = world.set_class(&NoEngine, "x", TtlClass::Permanent);
    assert_eq!(missing, Reclassed::default());
}

#[test]
fn no_reader_looks_for_a_slot_file_while_its_class_changes() {
    let world = World::new();
    world.save("a", 3, &[1]);
    let engine = Engine::default();
    world.set_class(&engine, "a", TtlClass::Permanent);
    assert_eq!(engine.replaced.get(), 1);
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

/// An engine with one open conversation and references to objects.
#[derive(Default)]
struct Engine {
    open: Option<ConversationId>,
    needs: BTreeSet<ObjectName>,
    left: Mutex<Vec<String>>,
    none_reads: Cell<bool>,
    replaced: Cell<usize>,
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

    fn slot_file_removed(&self, _: ModelHash, conversation: &ConversationId) {
        self.left.lock().unwrap().push(conversation.to_string());
    }

    fn slot_file_replaced(&self, _: ModelHash, _: &ConversationId) {
        assert!(self.none_reads.get(), "a reader may miss it");
        self.replaced.set(self.replaced.get() + 1);
    }

    fn while_none_reads(&self, _: ModelHash, change: &mut dyn FnMut()) {
        self.none_reads.set(true);
        change();
        self.none_reads.set(false);
    }

    crate::as_without_engine!(is_stopping, objects_lost, can_round, rounded, block_renamed);

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
    now: AdjustedTime,
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let now = Timestamp::from(std::time::SystemTime::now()).into();
        Self { store: Store::open(dir.path()).unwrap(), now, dir }
    }

    fn context(&self) -> Context {
        let (now, lifetimes) = (self.now.clone(), Lifetimes::default());
        Context { now, lifetimes, grace: Duration::ZERO }
    }

    fn run(&self, engine: &dyn LiveRefs, request: impl Into<Request>) -> Report {
        run(&self.store, engine, &request.into(), &self.context()).unwrap()
    }

    fn prune(&self, engine: &dyn LiveRefs, prune: Prune) -> Pruned {
        let Report::Pruned(report) = self.run(engine, prune) else { panic!("not pruned") };
        report
    }

    fn collect(&self, dry_run: bool, context: &Context) -> Collected {
        let request = Collect { dry_run, ..Collect::default() }.into();
        let report = run(&self.store, &NoEngine, &request, context).unwrap();
        let Report::Collected(report) = report else { panic!("not collected") };
        report
    }

    fn remove(&self, engine: &dyn LiveRefs, names: &[&str]) -> Removed {
        let conversations = names.iter().map(|&name| name.to_owned()).collect();
        let request = Remove { conversations, fingerprint: None };
        let Report::Removed(report) = self.run(engine, request) else { panic!("not removed") };
        report
    }

    fn set_class(&self, engine: &dyn LiveRefs, name: &str, class: TtlClass) -> Reclassed {
        let request = SetClass { conversation: id(name), class, fingerprint: None };
        let Report::Reclassed(report) = self.run(engine, request) else { panic!("no class set") };
        report
    }

    fn put(&self, number: i32) -> BlockRef {
        let object = object(number);
        self.store.put_object(MODEL, object.id(), &object).unwrap();
        BlockRef { end: number as u32, id: object.id(), bytes: object.file_bytes() }
    }

    /// A conversation last used some hours ago, with these objects.
    fn save(&self, name: &str, hours: u64, objects: &[i32]) {
        let used_at = Timestamp(self.now.now().0 - hours * 3_600_000);
        let record = SlotRecord {
            turns: 1,
            tokens: vec![Token(0); 10],
            blocks: objects.iter().map(|&number| self.put(number)).collect(),
            ..SlotRecord::empty(id(name), TtlClass::Long, used_at)
        };
        self.store.put_slot(MODEL, &record).unwrap();
    }

    /// The first ten objects that the store has.
    fn objects(&self) -> Vec<i32> {
        (0..10).filter(|&number| self.store.has_object(MODEL, object(number).id())).collect()
    }

    fn bytes(&self) -> u64 {
        let files = self.store.stored_files(MODEL).unwrap();
        assert!(self.dir.path().exists());
        files.iter().map(|file| file.bytes).sum()
    }
}
