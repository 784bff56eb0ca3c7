use std::cell::RefCell;
use std::collections::BTreeSet;

use tempfile::TempDir;

use super::opens_meanwhile::OpensMeanwhile;
use super::*;
use crate::format::{BlockRef, Object, ObjectKind, SlotRecord};
use crate::id::Token;
use crate::id::{BlockId, ConversationId};
use crate::payload::Payload;
use crate::store::Miss;
use crate::time::Timestamp;
use crate::ttl::TtlClass;

mod lossy;

const MODEL: ModelHash = ModelHash([1; 8]);
const OTHER_MODEL: ModelHash = ModelHash([2; 8]);
const HOUR_MS: u64 = 3_600_000;

/// A directory of conversations that were all just used.
struct World {
    store: Store,
    now: Timestamp,
    _dir: TempDir,
}

impl World {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let store = Store::open(dir.path().join("slots")).unwrap();
        Self { store, now: std::time::SystemTime::now().into(), _dir: dir }
    }

    /// Saves a conversation with a block for each word. Equal first words share blocks.
    fn save(&self, name: &str, class: TtlClass, model: ModelHash, words: &[i32]) {
        let mut parent = BlockId::root(model);
        let mut blocks = Vec::new();
        for (at, &word) in words.iter().enumerate() {
            let object = Object {
                kind: ObjectKind::Block,
                model,
                parent,
                start: at as u32 * 64,
                tokens: vec![Token(word); 64],
                payload: Payload::from(vec![word as u8; 10_000]),
            };
            parent = object.id();
            self.store.put_object(model, parent, &object).unwrap();
            let end = (at as u32 + 1) * 64;
            blocks.push(BlockRef { end, id: parent, bytes: object.file_bytes() });
        }
        let record = SlotRecord {
            turns: 1,
            tokens: vec![Token(1); words.len() * 64],
            blocks,
            ..SlotRecord::empty(id(name), class, self.now)
        };
        self.store.put_slot(model, &record).unwrap();
    }

    fn sweep_after_hours(&self, hours: u64, rules: Rules, live_refs: &dyn LiveRefs) -> Swept {
        let now = AdjustedTime::from(Timestamp(self.now.0 + hours * HOUR_MS + 1));
        let swept = Sweeper::new(rules).sweep(&self.store, &now, live_refs);
        assert!(swept.errors.is_empty(), "{:?}", swept.errors);
        swept
    }

    fn conversations(&self) -> Vec<String> {
        let listing = self.store.all_conversations().unwrap();
        listing.slots.iter().map(|slot| slot.conversation.to_string()).collect()
    }

    fn objects(&self) -> usize {
        let models = self.store.models().unwrap().into_iter();
        models.map(|model| self.store.object_files(model).unwrap().len()).sum()
    }
}

fn id(name: &str) -> ConversationId {
    name.parse().unwrap()
}

fn no_compression() -> Rules {
    Rules { compress_after: None, ..Rules::without_quota() }
}

/// An engine with one open conversation that records removals.
#[derive(Default)]
struct Engine {
    open: Option<&'static str>,
    needs: BTreeSet<ObjectName>,
    left: RefCell<Vec<String>>,
    stops: bool,
}

impl LiveRefs for Engine {
    fn is_stopping(&self) -> bool {
        self.stops
    }

    fn is_open(&self, _: ModelHash, conversation: &ConversationId) -> bool {
        self.open == Some(conversation.as_str())
    }

    fn slot_file_removed(&self, _: ModelHash, conversation: &ConversationId) {
        self.left.borrow_mut().push(conversation.to_string());
    }

    crate::as_without_engine!(
        slot_file_replaced,
        while_none_reads,
        objects_lost,
        can_round,
        rounded,
        block_renamed
    );

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

#[test]
fn each_class_expires_with_its_objects() {
    let world = World::new();
    for (class, word) in TtlClass::ALL.into_iter().zip(1..) {
        world.save(class.as_str(), class, MODEL, &[word]);
    }
    world.save("elsewhere", TtlClass::Long, OTHER_MODEL, &[1]);
    let swept = world.sweep_after_hours(1, no_compression(), &NoEngine);
    assert_eq!(world.conversations(), ["extended", "permanent"]);
    assert_eq!((swept.expired, swept.collected, world.objects()), (3, 3, 2));
    assert!(swept.freed_bytes > 30_000);
    world.sweep_after_hours(24, no_compression(), &NoEngine);
    assert_eq!(world.conversations(), ["permanent"]);
    assert_eq!(world.sweep_after_hours(9_000, no_compression(), &NoEngine).expired, 0);
}

#[test]
fn young_objects_are_not_collected() {
    let world = World::new();
    world.save("chat", TtlClass::Short, MODEL, &[1]);
    let rules = Rules {
        lifetimes: Lifetimes { short: Duration::ZERO, ..Lifetimes::default() },
        ..no_compression()
    };
    let swept = world.sweep_after_hours(0, rules, &NoEngine);
    assert_eq!((swept.expired, swept.collected, world.objects()), (1, 0, 1));
    assert_eq!(world.sweep_after_hours(1, rules, &NoEngine).collected, 1);
}

#[test]
fn shared_objects_stay_until_the_last_conversation_expires() {
    let world = World::new();
    world.save("long", TtlClass::Long, MODEL, &[1, 2]);
    world.save("kept", TtlClass::Permanent, MODEL, &[1, 3]);
    assert_eq!(world.objects(), 3);
    world.sweep_after_hours(2, no_compression(), &NoEngine);
    assert_eq!((world.conversations(), world.objects()), (vec!["kept".to_owned()], 2));
}

#[test]
fn an_open_conversation_is_never_touched() {
    let world = World::new();
    world.save("open", TtlClass::Short, MODEL, &[1]);
    world.save("closed", TtlClass::Short, MODEL, &[2]);
    let engine = Engine { open: Some("open"), ..Engine::default() };
    let rules = Rules { quota: Quota::Bytes(0), ..Rules::without_quota() };
    let swept = world.sweep_after_hours(5, rules, &engine);
    assert_eq!(world.conversations(), ["open"]);
    assert_eq!((swept.compressed, world.objects()), (0, 1));
    assert_eq!(*engine.left.borrow(), ["closed"]);
}

#[test]
fn a_conversation_that_is_opened_after_the_sweep_has_chosen_it_stays() {
    for (class, quota) in [(TtlClass::Short, u64::MAX), (TtlClass::Permanent, 0)] {
        let world = World::new();
        world.save("chat", class, MODEL, &[1]);
        let rules = Rules { quota: Quota::Bytes(quota), ..no_compression() };
        let swept = world.sweep_after_hours(1, rules, &OpensMeanwhile::new("chat"));
        assert_eq!((swept.expired, swept.evicted, swept.collected), (0, 0, 0), "{class}");
        assert_eq!((world.conversations(), world.objects()), (vec!["chat".to_owned()], 1));
    }
}

#[test]
fn an_object_that_the_engine_references_stays_on_disk() {
    let world = World::new();
    world.save("chat", TtlClass::Short, MODEL, &[1, 2]);
    let needed = world.store.object_files(MODEL).unwrap()[0];
    let engine = Engine { needs: [needed].into(), ..Engine::default() };
    world.sweep_after_hours(1, no_compression(), &engine);
    assert_eq!(world.store.object_files(MODEL).unwrap(), [needed]);
}

#[test]
fn over_quota_the_cheapest_to_rebuild_per_byte_is_removed_first() {
    let world = World::new();
    world.save("short-prompt", TtlClass::Permanent, MODEL, &[1]);
    world.save("long-prompt", TtlClass::Permanent, MODEL, &[10, 11, 12, 13, 14, 15, 16, 17]);
    let rules = |bytes| Rules { quota: Quota::Bytes(bytes), ..no_compression() };
    let swept = world.sweep_after_hours(1, rules(100_000), &NoEngine);
    assert_eq!((swept.evicted, swept.used_bytes <= 100_000), (0, true));
    let swept = world.sweep_after_hours(1, rules(90_000), &NoEngine);
    assert_eq!(world.conversations(), ["long-prompt"]);
    assert_eq!((swept.evicted, swept.collected, world.objects()), (1, 1, 8));
    assert!(swept.used_bytes <= 90_000, "{}", swept.used_bytes);
    let swept = world.sweep_after_hours(1, rules(0), &NoEngine);
    assert_eq!((swept.used_bytes, world.objects()), (0, 0));
}

#[test]
fn over_quota_the_bytes_of_a_conversation_that_was_just_saved_are_freed_at_once() {
    let world = World::new();
    world.save("chat", TtlClass::Permanent, MODEL, &[1, 2]);
    let rules = Rules { quota: Quota::Bytes(0), ..no_compression() };
    let swept = world.sweep_after_hours(0, rules, &NoEngine);
    assert_eq!((swept.evicted, swept.collected, swept.used_bytes), (1, 2, 0));
    assert_eq!(world.objects(), 0);
}

#[test]
fn shared_bytes_free_nothing() {
    let world = World::new();
    let shared = [1, 2, 3, 4];
    world.save("one", TtlClass::Permanent, MODEL, &shared);
    world.save("two", TtlClass::Permanent, MODEL, &shared);
    world.save("own", TtlClass::Permanent, MODEL, &[9]);
    let rules = Rules { quota: Quota::Bytes(46_000), ..no_compression() };
    world.sweep_after_hours(1, rules, &NoEngine);
    // Shared bytes cost each half, so the conversation that shares nothing costs most.
    assert_eq!(world.conversations(), ["one", "two"]);
}

#[test]
fn a_sweep_is_bounded_and_reports_unfinished_work() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        world.save(name, TtlClass::Short, MODEL, &[name.as_bytes()[0].into()]);
    }
    let rules = Rules { max_removals: 2, ..no_compression() };
    let sweeps: Vec<_> = (0..4).map(|_| world.sweep_after_hours(1, rules, &NoEngine)).collect();
    let removed = |swept: &Swept| swept.expired + swept.collected;
    assert!(sweeps.iter().all(|swept| removed(swept) <= 2));
    assert_eq!(
        sweeps.iter().map(|swept| swept.left).collect::<Vec<_>>(),
        [true, true, false, false]
    );
    assert_eq!((world.conversations().len(), world.objects()), (0, 0));
}

#[test]
fn a_sweep_leaves_the_rest_to_the_next_one_when_the_engine_stops() {
    let world = World::new();
    world.save("expired", TtlClass::Short, MODEL, &[1]);
    world.save("aged", TtlClass::Permanent, MODEL, &[2]);
    let stops = Engine { stops: true, ..Engine::default() };
    let swept = world.sweep_after_hours(2, Rules::without_quota(), &stops);
    assert_eq!((swept.expired, swept.collected, swept.compressed), (0, 0, 0));
    assert!(swept.left);
    assert_eq!((world.conversations().len(), world.objects()), (2, 2));
}

#[test]
fn aged_objects_are_compressed_once_and_read_the_same() {
    let world = World::new();
    world.save("aged", TtlClass::Extended, MODEL, &[1, 2]);
    let rules = Rules::without_quota();
    let mut sweeper = Sweeper::new(rules);
    let now = AdjustedTime::from(Timestamp(world.now.0 + 2 * HOUR_MS));
    let swept = sweeper.sweep(&world.store, &now, &NoEngine);
    assert_eq!(swept.compressed, 2);
    assert!(swept.freed_bytes > 15_000 && swept.used_bytes > 0);
    assert_eq!(sweeper.sweep(&world.store, &now, &NoEngine).compressed, 0);
    assert_eq!(Sweeper::new(rules).sweep(&world.store, &now, &NoEngine).compressed, 0);
    let record = world.store.get_slot(MODEL, &id("aged")).unwrap();
    for (block, word) in record.blocks.iter().zip([1, 2]) {
        let object = world.store.get_object(MODEL, block.id, ObjectKind::Block).unwrap();
        assert_eq!(*object.payload, [word; 10_000]);
        assert!(world.store.object_bytes(MODEL, block.id).unwrap() < 2_000);
    }
    world.save("again", TtlClass::Extended, MODEL, &[1]);
    let first = record.blocks[0].id;
    assert!(world.store.object_bytes(MODEL, first).unwrap() < 2_000, "it is there already");
}

#[test]
fn of_two_files_of_one_conversation_the_older_is_removed_whatever_its_name() {
    let mut world = World::new();
    let dir = world.store.dir().join(MODEL.to_string());
    world.save("chat", TtlClass::Long, MODEL, &[1]);
    let older = std::fs::read(dir.join("chat.long.bin")).unwrap();
    world.now = Timestamp(world.now.0 + 60_000);
    world.save("chat", TtlClass::Long, MODEL, &[1, 2]);
    std::fs::write(dir.join("chat.bin"), older).unwrap(); // Without a class: a long one too.
    world.sweep_after_hours(0, no_compression(), &NoEngine);
    assert!(!dir.join("chat.bin").exists());
    assert_eq!(world.store.get_slot(MODEL, &id("chat")).unwrap().tokens.len(), 128);
}

#[test]
fn settled_objects_are_remembered_while_they_exist() {
    let world = World::new();
    world.save("aged", TtlClass::Short, MODEL, &[1, 2]);
    let mut sweeper = Sweeper::new(Rules { grace: Duration::ZERO, ..Rules::without_quota() });
    sweeper.rules.compress_after = Some(Duration::ZERO);
    let sweep = |sweeper: &mut Sweeper, after_ms: u64| {
        sweeper.sweep(&world.store, &Timestamp(world.now.0 + after_ms).into(), &NoEngine)
    };
    sweep(&mut sweeper, 1_000);
    assert_eq!(sweeper.settled.len(), 2);
    assert_eq!(sweep(&mut sweeper, HOUR_MS).expired, 1);
    assert!(sweeper.settled.is_empty());
}

#[test]
fn an_unreadable_object_is_compressed_by_a_later_sweep() {
    let world = World::new();
    world.save("aged", TtlClass::Extended, MODEL, &[1]);
    let name = world.store.object_files(MODEL).unwrap()[0].to_string();
    let shelf = world.store.dir().join(format!("{MODEL}/objects/{}", &name[..2]));
    let (here, away) = (shelf.join(format!("{name}.kv")), shelf.join("away"));
    std::fs::rename(&here, &away).unwrap();
    let mut sweeper = Sweeper::new(Rules::without_quota());
    let now = AdjustedTime::from(Timestamp(world.now.0 + 2 * HOUR_MS));
    assert_eq!(sweeper.sweep(&world.store, &now, &NoEngine).compressed, 0);
    std::fs::rename(&away, &here).unwrap();
    assert_eq!(sweeper.sweep(&world.store, &now, &NoEngine).compressed, 1);
}

#[test]
fn a_sleeping_laptop_and_a_clock_that_is_set_expire_nothing_early() {
    let world = World::new();
    world.save("chat", TtlClass::Short, MODEL, &[1]);
    let mut tracker = crate::ageing::ClockTracker::default();
    let minute = Duration::from_secs(60);
    tracker.observe(world.now, Duration::ZERO);
    let mut sweeper = Sweeper::new(no_compression());
    for (wall_ms, ran) in
        [(8 * HOUR_MS, minute), (900 * HOUR_MS, 2 * minute), (180_000, 3 * minute)]
    {
        let now = tracker.observe(Timestamp(world.now.0 + wall_ms), ran);
        assert_eq!(sweeper.sweep(&world.store, &now, &NoEngine).expired, 0);
    }
    let now = tracker.observe(Timestamp(world.now.0 + 13 * 60_000), 13 * minute);
    assert_eq!(sweeper.sweep(&world.store, &now, &NoEngine).expired, 1);
}

#[test]
fn beside_a_slot_file_of_a_later_version_what_is_younger_leaves_until_it_expires() {
    let world = World::new();
    world.save("old", TtlClass::Permanent, MODEL, &[1]);
    world.save("later", TtlClass::Long, MODEL, &[2]);
    let path = world.store.dir().join(format!("{MODEL}/later.long.bin"));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 9;
    std::fs::write(&path, bytes).unwrap();
    let written = std::fs::metadata(&path).unwrap().modified().unwrap();
    world.save("young", TtlClass::Permanent, MODEL, &[3]);
    for block in world.store.get_slot(MODEL, &id("young")).unwrap().blocks {
        let object = world.store.object_path(MODEL, block.id);
        let object = std::fs::File::options().write(true).open(object).unwrap();
        object.set_modified(written + Duration::from_secs(1)).unwrap();
    }

    let rules = Rules { quota: Quota::Bytes(0), ..no_compression() };
    let swept = world.sweep_after_hours(0, rules, &NoEngine);
    assert_eq!((swept.later, swept.evicted, swept.collected), (1, 1, 1));
    assert_eq!(world.conversations(), ["old"], "its removal would free nothing");
    assert_eq!(world.objects(), 2);
    let swept = world.sweep_after_hours(2, no_compression(), &NoEngine);
    assert_eq!((swept.later, swept.expired, swept.collected), (0, 1, 1));
    assert_eq!((world.conversations(), world.objects()), (vec!["old".to_owned()], 1));
}

#[test]
fn a_damaged_slot_file_goes_to_quarantine_and_its_objects_are_collected() {
    let world = World::new();
    world.save("chat", TtlClass::Permanent, MODEL, &[1]);
    let path = world.store.dir().join(format!("{MODEL}/chat.kept.bin"));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[60] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let swept = world.sweep_after_hours(1, no_compression(), &NoEngine);
    assert_eq!((swept.rejected, swept.collected, world.objects()), (1, 1, 0));
    let reason = world.store.rejected(MODEL, &id("chat")).unwrap();
    assert!(reason.contains("checksum"), "{reason}");
    assert_eq!(world.store.rejected(MODEL, &id("other")), None);
    let rejected = world.store.quarantined(MODEL).unwrap();
    assert_eq!(rejected.len(), 1);
    assert!(rejected[0].reason.contains("checksum"), "{}", rejected[0].reason);
    assert!(matches!(world.store.get_slot(MODEL, &id("chat")), Err(Miss::Absent)));
}
