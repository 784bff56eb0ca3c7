//! What the store promises, on a real directory.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::*;
use crate::fingerprint::{FileDigest, Rope};
use crate::format::{BlockRef, FormatError, SnapshotRef};
use crate::id::Token;
use crate::payload::Payload;
use crate::time::Timestamp;
use crate::ttl::TtlClass;

const MODEL: ModelHash = ModelHash([0xaa; 8]);
const OTHER_MODEL: ModelHash = ModelHash([0xbb; 8]);

/// A store in a directory that goes when it does.
struct World {
    store: Store,
    dir: TempDir,
}

impl World {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        Self { store: Store::open(dir.path().join("slots")).unwrap(), dir }
    }

    /// The process dies and another one opens the directory.
    fn restarted(self) -> Self {
        let Self { store, dir } = self;
        drop(store);
        Self { store: Store::open(dir.path().join("slots")).unwrap(), dir }
    }

    fn path(&self, within: &str) -> PathBuf {
        self.dir.path().join("slots").join(within)
    }

    fn object_path(&self, object: &Object) -> PathBuf {
        self.store.layout.object(object.model, object.id())
    }

    fn put(&self, object: &Object) -> u64 {
        self.store.put_object(object.model, object.id(), object).unwrap()
    }

    fn get(&self, object: &Object) -> Result<Object, Miss> {
        self.store.get_object(object.model, object.id(), object.kind)
    }

    /// Every file below the directory, but the lock.
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
        conversation: name.parse().unwrap(),
        class: TtlClass::Long,
        created_at: Timestamp(1_000),
        used_at: Timestamp(2_000),
        tokens: vec![Token(7); 128],
        blocks: blocks.zip([64, 128]).map(block).collect(),
        snapshots: snapshots.map(snapshot).collect(),
    }
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

#[test]
fn what_was_put_is_got_back_also_after_a_restart() {
    let mut world = World::new();
    for object in [block(1), snapshot()] {
        assert_eq!(world.put(&object), object.file_bytes());
    }
    let record = slot("chat", &[&block(1), &snapshot()]);
    assert!(world.store.put_slot(MODEL, &record).unwrap() > 0);
    for _ in 0..2 {
        assert_eq!(world.get(&block(1)).unwrap(), block(1));
        assert_eq!(world.get(&snapshot()).unwrap(), snapshot());
        assert_eq!(world.store.get_slot(MODEL, &id("chat")).unwrap(), record);
        world = world.restarted();
    }
}

#[test]
fn what_was_never_put_is_absent() {
    let world = World::new();
    assert!(matches!(world.get(&block(1)), Err(Miss::Absent)));
    assert!(matches!(world.store.get_slot(MODEL, &id("chat")), Err(Miss::Absent)));
    assert!(world.store.slots(MODEL).unwrap().slots.is_empty());
    assert!(!world.store.remove_slot(MODEL, &id("chat")).unwrap());
    assert_eq!(world.store.collect_garbage(MODEL, now(), SAVE_GRACE).unwrap(), Garbage::default());
}

#[test]
fn files_are_called_as_the_format_says_and_nothing_else_is_left() {
    let world = World::new();
    world.put(&block(1));
    world.store.put_slot(MODEL, &slot("v1.2", &[&block(1)])).unwrap();
    let name = block(1).id().to_string();
    let object = format!("aaaaaaaaaaaaaaaa/objects/{}/{name}.kv", &name[..2]);
    assert_eq!(world.files(), [object, "aaaaaaaaaaaaaaaa/v1%2E2.long.bin".into()].into());
}

#[test]
fn putting_an_object_twice_writes_it_once() {
    let world = World::new();
    world.put(&block(1));
    assert_eq!(world.put(&block(1)), 0);
}

#[test]
fn an_object_whose_file_was_cut_short_is_written_again() {
    let world = World::new();
    world.put(&block(1));
    let file = fs::read(world.object_path(&block(1))).unwrap();
    fs::write(world.object_path(&block(1)), &file[..500]).unwrap();
    assert_eq!(world.put(&block(1)), block(1).file_bytes());
    assert_eq!(world.get(&block(1)).unwrap(), block(1));
}

#[test]
#[should_panic(expected = "under its own name")]
fn an_object_is_never_put_under_another_name() {
    let _ = World::new().store.put_object(MODEL, block(2).id(), &block(1));
}

#[test]
fn a_damaged_object_is_a_miss_with_a_reason_once_and_then_absent() {
    let world = World::new();
    world.put(&block(1));
    flip_a_bit(&world.object_path(&block(1)), 700);
    let miss = world.get(&block(1)).unwrap_err();
    assert_eq!(miss.to_string(), "its file is damaged: the checksum of its body is wrong");
    assert!(matches!(world.get(&block(1)), Err(Miss::Absent)));

    let name = format!("{}.kv", block(1).id());
    assert_eq!(world.quarantined(), [name.clone(), format!("{name}.txt")]);
    let why = world.path(&format!("{MODEL}/quarantine/{name}.txt"));
    assert_eq!(fs::read_to_string(why).unwrap().trim_end(), miss.to_string());
}

#[test]
fn a_quarantined_object_can_be_put_again() {
    let world = World::new();
    world.put(&block(1));
    flip_a_bit(&world.object_path(&block(1)), 700);
    world.get(&block(1)).unwrap_err();
    assert_eq!(world.put(&block(1)), block(1).file_bytes());
    assert_eq!(world.get(&block(1)).unwrap(), block(1));
}

#[test]
fn a_truncated_object_is_a_miss_that_tells_how_much_is_there() {
    let world = World::new();
    world.put(&block(1));
    let file = fs::read(world.object_path(&block(1))).unwrap();
    fs::write(world.object_path(&block(1)), &file[..1_000]).unwrap();
    let miss = world.get(&block(1)).unwrap_err();
    assert_eq!(miss.to_string(), "its file is damaged: it ends after 1000 of 1352 bytes");
    assert_eq!(world.quarantined().len(), 2);
}

#[test]
fn a_renamed_object_is_a_miss() {
    let world = World::new();
    world.put(&block(1));
    world.put(&block(2));
    fs::rename(world.object_path(&block(1)), world.object_path(&block(2))).unwrap();
    assert!(matches!(world.get(&block(2)), Err(Miss::Misnamed { .. })));
    assert_eq!(world.quarantined().len(), 2);
}

#[test]
fn an_object_of_another_model_is_a_miss() {
    let world = World::new();
    let foreign = Object { model: OTHER_MODEL, ..block(1) };
    world.put(&block(1));
    fs::write(world.object_path(&block(1)), foreign.encode()).unwrap();
    let miss = world.get(&block(1)).unwrap_err();
    assert_eq!(
        miss.to_string(),
        "its file belongs to model bbbbbbbbbbbbbbbb, not to aaaaaaaaaaaaaaaa"
    );
    assert_eq!(world.quarantined().len(), 2);
}

#[test]
fn an_object_of_another_kind_is_a_miss() {
    let world = World::new();
    world.put(&snapshot());
    let found = world.store.get_object(MODEL, snapshot().id(), ObjectKind::Block);
    assert!(matches!(found, Err(Miss::Misnamed { .. })));
}

#[test]
fn a_file_of_a_later_version_is_a_miss_and_stays_for_who_can_read_it() {
    let world = World::new();
    world.put(&block(1));
    let mut file = block(1).encode();
    file[8] = 9;
    fs::write(world.object_path(&block(1)), file).unwrap();
    assert!(matches!(world.get(&block(1)), Err(Miss::Newer { version: 9 })));
    assert!(world.object_path(&block(1)).exists());
}

#[test]
fn a_damaged_slot_file_is_a_miss_and_moves_to_quarantine() {
    let world = World::new();
    world.store.put_slot(MODEL, &slot("chat", &[])).unwrap();
    flip_a_bit(&world.path(&format!("{MODEL}/chat.long.bin")), 200);
    let miss = world.store.get_slot(MODEL, &id("chat")).unwrap_err();
    assert!(matches!(miss, Miss::Damaged { reason: FormatError::Checksum { part: "record" } }));
    assert_eq!(world.quarantined(), ["chat.long.bin", "chat.long.bin.txt"]);
}

#[test]
fn a_slot_file_under_another_conversations_name_is_a_miss() {
    let world = World::new();
    world.store.put_slot(MODEL, &slot("mine", &[])).unwrap();
    let path = |name: &str| world.path(&format!("{MODEL}/{name}.long.bin"));
    fs::rename(path("mine"), path("yours")).unwrap();
    let miss = world.store.get_slot(MODEL, &id("yours")).unwrap_err();
    assert_eq!(miss.to_string(), "its file holds conversation mine instead");
}

#[test]
fn a_reader_rejects_without_touching_the_file() {
    let world = World::new();
    world.put(&block(1));
    flip_a_bit(&world.object_path(&block(1)), 700);
    let reader = StoreReader::open(world.path("")).unwrap();
    let read = || reader.get_object(MODEL, block(1).id(), ObjectKind::Block);
    assert!(matches!(read(), Err(Miss::Damaged { .. })));
    assert!(matches!(read(), Err(Miss::Damaged { .. })));
    assert!(world.quarantined().is_empty());
}

#[test]
fn changing_its_class_leaves_a_conversation_one_file() {
    let world = World::new();
    world.store.put_slot(MODEL, &slot("chat", &[])).unwrap();
    let kept = SlotRecord { class: TtlClass::Kept, ..slot("chat", &[]) };
    world.store.put_slot(MODEL, &kept).unwrap();
    assert_eq!(world.files(), [format!("{MODEL}/chat.kept.bin")].into());
    assert_eq!(world.store.get_slot(MODEL, &id("chat")).unwrap(), kept);
}

#[test]
fn the_name_of_a_slot_file_decides_its_class_and_without_one_it_is_long() {
    let world = World::new();
    let short = SlotRecord { class: TtlClass::Short, ..slot("chat", &[]) };
    world.store.put_slot(MODEL, &short).unwrap();
    let path = |name: &str| world.path(&format!("{MODEL}/{name}"));
    let class = || {
        let listed = world.store.slots(MODEL).unwrap().slots[0].class;
        assert_eq!(world.store.get_slot(MODEL, &id("chat")).unwrap().class, listed);
        listed
    };
    fs::rename(path("chat.short.bin"), path("chat.kept.bin")).unwrap();
    assert_eq!(class(), TtlClass::Kept);
    fs::rename(path("chat.kept.bin"), path("chat.bin")).unwrap();
    assert_eq!(class(), TtlClass::Long);
    world.store.put_slot(MODEL, &slot("chat", &[])).unwrap();
    assert_eq!(world.files(), [format!("{MODEL}/chat.long.bin")].into());
}

#[test]
fn of_two_files_that_a_crash_left_the_newer_one_is_read() {
    let world = World::new();
    let old = slot("chat", &[]);
    let new = SlotRecord { class: TtlClass::Short, used_at: Timestamp(3_000), ..old.clone() };
    world.store.put_slot(MODEL, &new).unwrap();
    fs::write(world.path(&format!("{MODEL}/chat.long.bin")), old.encode(MODEL)).unwrap();
    assert_eq!(world.store.get_slot(MODEL, &id("chat")).unwrap(), new);
    assert_eq!(world.store.slots(MODEL).unwrap().slots.len(), 1);
    assert!(world.store.remove_slot(MODEL, &id("chat")).unwrap());
    assert!(world.files().is_empty());
}

#[test]
fn what_a_dead_writer_left_unfinished_vanishes_at_the_next_open() {
    let world = World::new();
    world.put(&block(1));
    let kept = world.files();
    fs::write(world.path(&format!("{MODEL}/tmp/1-1")), "half an object").unwrap();
    assert_eq!(world.restarted().files(), kept);
}

#[test]
fn a_write_that_fails_leaves_the_old_file_and_no_other() {
    let world = World::new();
    world.store.put_slot(MODEL, &slot("chat", &[])).unwrap();
    // A directory where the object's file should go: the rename fails.
    fs::create_dir_all(world.object_path(&block(1))).unwrap();
    assert!(world.store.put_object(MODEL, block(1).id(), &block(1)).is_err());
    assert_eq!(world.files(), [format!("{MODEL}/chat.long.bin")].into());
}

#[test]
fn a_second_owner_is_refused_and_told_who_the_first_is() {
    let world = World::new();
    let error = Store::open(world.path("")).unwrap_err();
    let StoreError::Owned { owner, .. } = &error else { panic!("{error}") };
    assert_eq!(*owner, format!("pid {}", std::process::id()));
}

#[test]
fn a_directory_is_free_again_when_its_owner_is_gone() {
    let world = World::new().restarted();
    assert!(StoreReader::open(world.path("")).is_ok());
}

#[test]
fn a_reader_needs_a_directory_that_is_there() {
    let world = World::new();
    assert!(matches!(StoreReader::open(world.path("nowhere")), Err(StoreError::Io { .. })));
}

#[cfg(unix)]
#[test]
fn nobody_else_can_read_what_is_kept() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.put(&block(1));
    world.store.put_slot(MODEL, &slot("chat", &[])).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for file in world.files() {
        assert_eq!(mode(&world.path(&file)), 0o600, "{file}");
    }
    for dir in ["", "aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaa/objects", "aaaaaaaaaaaaaaaa/tmp"] {
        assert_eq!(mode(&world.path(dir)), 0o700, "{dir}");
    }
}

#[test]
fn a_listing_tells_what_the_headers_hold_and_which_files_cannot_be_used() {
    let world = World::new();
    world.store.put_slot(MODEL, &slot("b", &[&block(1), &block(65), &snapshot()])).unwrap();
    world.store.put_slot(MODEL, &slot("a", &[])).unwrap();
    world.store.put_slot(OTHER_MODEL, &slot("c", &[])).unwrap();
    fs::write(world.path(&format!("{MODEL}/d.long.bin")), "HOBSLT").unwrap();

    let listing = world.store.all_slots().unwrap();
    let names: Vec<_> = listing.slots.iter().map(|s| (s.model, s.conversation.as_str())).collect();
    assert_eq!(names, [(MODEL, "a"), (MODEL, "b"), (OTHER_MODEL, "c")]);
    let b = &listing.slots[1];
    assert_eq!((b.tokens, b.blocks, b.snapshots), (128, 2, 1));
    assert_eq!(b.object_bytes, 2 * 1_352 + 1_096);
    assert_eq!((b.created_at, b.used_at), (Timestamp(1_000), Timestamp(2_000)));
    let path = world.path(&format!("{MODEL}/b.long.bin"));
    assert_eq!(b.file_bytes, fs::metadata(path).unwrap().len());
    assert!(listing.rejected[0].path.ends_with("d.long.bin"));
}

#[test]
fn an_entry_expires_when_its_class_has_lived_since_its_last_use() {
    let world = World::new();
    world.store.put_slot(MODEL, &slot("chat", &[])).unwrap();
    let entry = world.store.slots(MODEL).unwrap().slots.remove(0);
    let used = entry.used_at;
    assert!(!entry.is_expired(used.after(Duration::from_secs(3_600))));
    assert!(entry.is_expired(used.after(Duration::from_millis(3_600_001))));
    assert!(!entry.is_expired(Timestamp(0)), "a clock that steps back expires nothing");
    let kept = SlotEntry { class: TtlClass::Kept, ..entry };
    assert!(!kept.is_expired(Timestamp(u64::MAX)));
}

#[test]
fn objects_that_no_conversation_names_are_collected() {
    let world = World::new();
    for object in [&block(1), &block(65), &snapshot()] {
        world.put(object);
    }
    world.store.put_slot(MODEL, &slot("chat", &[&block(1), &snapshot()])).unwrap();
    let later = now().after(SAVE_GRACE);
    let expected = Garbage { objects: vec![block(65).id()], bytes: 1_352 };
    assert_eq!(world.store.find_garbage(MODEL, later, SAVE_GRACE).unwrap(), expected);
    assert_eq!(world.store.collect_garbage(MODEL, later, SAVE_GRACE).unwrap(), expected);
    assert!(matches!(world.get(&block(65)), Err(Miss::Absent)));
    assert!(world.get(&block(1)).is_ok() && world.get(&snapshot()).is_ok());
}

#[test]
fn a_shared_object_stays_until_its_last_conversation_is_gone() {
    let world = World::new();
    world.put(&block(1));
    for name in ["one", "two"] {
        world.store.put_slot(MODEL, &slot(name, &[&block(1)])).unwrap();
    }
    let collect = || world.store.collect_garbage(MODEL, now(), Duration::ZERO).unwrap();
    world.store.remove_slot(MODEL, &id("one")).unwrap();
    assert_eq!(collect(), Garbage::default());
    world.store.remove_slot(MODEL, &id("two")).unwrap();
    assert_eq!(collect().objects, [block(1).id()]);
}

#[test]
fn an_object_that_a_save_may_be_about_to_name_is_not_collected() {
    let world = World::new();
    world.put(&block(1));
    let age = |object: &Object| {
        let file = File::options().write(true).open(world.object_path(object)).unwrap();
        file.set_modified(SystemTime::now() - 2 * SAVE_GRACE).unwrap();
    };
    let collect = || world.store.collect_garbage(MODEL, now(), SAVE_GRACE).unwrap().objects;
    assert_eq!(collect(), [], "it was just written");
    age(&block(1));
    assert_eq!(world.put(&block(1)), 0);
    assert_eq!(collect(), [], "it was just asked for again");
    age(&block(1));
    assert_eq!(collect(), [block(1).id()]);
}

#[test]
fn while_a_slot_file_of_a_later_version_is_there_nothing_is_collected() {
    let world = World::new();
    world.put(&block(1));
    let mut file = slot("chat", &[&block(1)]).encode(MODEL);
    file[8] = 9;
    fs::write(world.path(&format!("{MODEL}/chat.long.bin")), file).unwrap();
    let error = world.store.collect_garbage(MODEL, now(), Duration::ZERO).unwrap_err();
    assert!(matches!(error, StoreError::Unreadable { .. }));
    assert!(world.get(&block(1)).is_ok());
}

#[test]
fn what_a_directory_is_named_after_is_kept_in_it() {
    let world = World::new();
    let fingerprint = Fingerprint {
        model_sha256: FileDigest([1; 32]),
        drafter_sha256: None,
        cache_type_k: "f16".into(),
        cache_type_v: "f16".into(),
        flash_attention: true,
        swa_full: false,
        state_format: "llama.cpp seq 2".into(),
        rope: Rope::default(),
        loras: Vec::new(),
    };
    let model = fingerprint.hash();
    world.store.write_model_toml(&fingerprint).unwrap();
    assert_eq!(world.store.read_model_toml(model).unwrap(), fingerprint);
    assert_eq!(world.store.models().unwrap(), [model]);

    let copied = world.path(&format!("{MODEL}/model.toml"));
    fs::create_dir(copied.parent().unwrap()).unwrap();
    fs::copy(world.path(&format!("{model}/model.toml")), copied).unwrap();
    assert!(matches!(world.store.read_model_toml(MODEL), Err(Miss::OtherModel { .. })));
    assert!(matches!(world.store.read_model_toml(OTHER_MODEL), Err(Miss::Absent)));
}
