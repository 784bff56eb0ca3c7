use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::store::files::{HookedDisk, Hooks};

#[test]
fn a_damaged_slot_file_is_a_miss_and_moves_to_quarantine() {
    let world = World::new();
    world.store.put_slot(MODEL, &slot("chat", &[])).unwrap();
    flip_a_bit(&world.path(&format!("{MODEL}/chat.long.bin")), 133);
    let miss = world.store.get_slot(MODEL, &id("chat")).unwrap_err();
    assert!(matches!(miss, Miss::Damaged { reason: FormatError::Checksum { part: "tokens" } }));
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
fn changing_a_class_leaves_one_file() {
    let world = World::new();
    world.store.put_slot(MODEL, &slot("chat", &[])).unwrap();
    let kept = SlotRecord { class: TtlClass::Permanent, ..slot("chat", &[]) };
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
    assert_eq!(class(), TtlClass::Permanent);
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
fn a_listing_has_the_fields_of_the_headers_and_the_unusable_files() {
    let world = World::new();
    world.store.put_slot(MODEL, &slot("b", &[&block(1), &block(65), &snapshot()])).unwrap();
    world.store.put_slot(MODEL, &slot("a", &[])).unwrap();
    world.store.put_slot(OTHER_MODEL, &slot("c", &[])).unwrap();
    fs::write(world.path(&format!("{MODEL}/d.long.bin")), "HOBSLT").unwrap();

    let listing = world.store.all_conversations().unwrap();
    let names: Vec<_> = listing.slots.iter().map(|s| (s.model, s.conversation.as_str())).collect();
    assert_eq!(names, [(MODEL, "a"), (MODEL, "b"), (OTHER_MODEL, "c")]);
    let b = &listing.slots[1];
    assert_eq!((b.tokens, b.blocks, b.snapshots), (128, 2, 1));
    assert_eq!(b.object_bytes, 2 * 1_360 + 1_104);
    assert_eq!((b.created_at, b.used_at), (Timestamp(1_000), Timestamp(2_000)));
    let path = world.path(&format!("{MODEL}/b.long.bin"));
    assert_eq!(b.file_bytes, fs::metadata(path).unwrap().len());
    assert!(listing.rejected[0].path.ends_with("d.long.bin"));
}

#[test]
fn the_names_of_files_tell_which_conversations_are_saved_under_any_model_or_rejected() {
    let world = World::new();
    let asked = ["here", "there", "damaged", "nowhere"].map(id);
    assert!(world.store.saved_among(&asked).0.is_empty());
    world.store.put_slot(OTHER_MODEL, &slot("there", &[])).unwrap();
    for name in ["here", "damaged", "not-asked-for"] {
        world.store.put_slot(MODEL, &slot(name, &[])).unwrap();
    }
    flip_a_bit(&world.path(&format!("{MODEL}/damaged.long.bin")), 133);
    world.store.get_slot(MODEL, &id("damaged")).unwrap_err();
    assert_eq!(world.quarantined(), ["damaged.long.bin", "damaged.long.bin.txt"]);
    let (saved, listed) = world.store.saved_among(&asked);
    listed.unwrap();
    assert_eq!(saved, ["here", "there", "damaged"].map(id).into());
}

#[test]
fn a_directory_that_cannot_be_listed_hides_no_conversation_in_another() {
    let world = World::new();
    world.store.put_slot(MODEL, &slot("here", &[])).unwrap();
    world.store.put_slot(OTHER_MODEL, &slot("there", &[])).unwrap();
    fs::write(world.path(&format!("{MODEL}/quarantine")), "no directory").unwrap();
    let asked = ["here", "there"].map(id);
    let (saved, listed) = world.store.saved_among(&asked);
    assert_eq!(saved, asked.into());
    assert!(matches!(listed, Err(StoreError::Io { .. })), "{listed:?}");
}

#[test]
fn an_entry_expires_after_the_lifetime_of_its_class() {
    let world = World::new();
    world.store.put_slot(MODEL, &slot("chat", &[])).unwrap();
    let entry = world.store.slots(MODEL).unwrap().slots.remove(0);
    let is_expired =
        |entry: &SavedEntry, now: Timestamp| entry.is_expired(&now.into(), &Lifetimes::default());
    let used = entry.used_at;
    assert!(!is_expired(&entry, used.after(Duration::from_secs(3_600))));
    assert!(is_expired(&entry, used.after(Duration::from_millis(3_600_001))));
    assert!(!is_expired(&entry, Timestamp(0)), "a clock that steps back expires nothing");
    let kept = SavedEntry { class: TtlClass::Permanent, ..entry };
    assert!(!is_expired(&kept, Timestamp(u64::MAX)));
}

#[test]
fn an_incremental_listing_reopens_only_changed_files() {
    let world = World::new();
    let mut known = ListingCache::default();
    let mut check = |what: &str| {
        let mut again = world.store.reader().conversations(MODEL, &mut known).unwrap();
        again.sort();
        let first = world.store.reader().slots(MODEL).unwrap().slots;
        for slot in &first {
            let alone = world.store.reader().slot(MODEL, &slot.conversation);
            assert_eq!(alone.as_ref(), Some(slot), "{what}");
        }
        let first: Vec<_> =
            first.into_iter().map(|slot| (slot.conversation, slot.tokens)).collect();
        assert_eq!(again, first, "{what}");
        again.len()
    };
    assert_eq!(check("nothing is kept"), 0);
    for name in ["one", "two"] {
        world.store.put_slot(MODEL, &slot(name, &[])).unwrap();
    }
    assert_eq!((check("new"), check("unchanged")), (2, 2));
    let longer = SlotRecord { tokens: vec![Token(1); 9], ..slot("one", &[]) };
    world.store.put_slot(MODEL, &longer).unwrap();
    assert_eq!(check("one grew"), 2);
    fs::write(world.path(&format!("{MODEL}/two.long.bin")), "no slot file").unwrap();
    assert_eq!(check("one is damaged"), 1);
    world.store.put_slot(MODEL, &SlotRecord { class: TtlClass::Permanent, ..longer }).unwrap();
    assert_eq!(check("another class"), 1);
    assert_eq!(world.store.reader().slot(MODEL, &id("nobody")), None);
}

/// The next slot file cannot be opened: too many files are open.
#[derive(Debug, Default)]
struct FailsOnce(AtomicBool);

impl Hooks for FailsOnce {
    fn opens(&self, path: &Path) -> io::Result<()> {
        let is_slot_file = path.extension().is_some_and(|it| it == "bin");
        if is_slot_file && self.0.swap(false, Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(24));
        }
        Ok(())
    }
}

#[test]
fn an_incremental_listing_reads_again_what_could_not_be_read() {
    let (disk, dir) = (Arc::new(FailsOnce::default()), TempDir::new().unwrap());
    let hooked = Arc::new(HookedDisk(disk.clone()));
    let store = Store::open_on(hooked, dir.path().join("slots")).unwrap();
    store.put_slot(MODEL, &slot("chat", &[])).unwrap();
    disk.0.store(true, Ordering::Relaxed);
    let mut known = ListingCache::default();
    let mut listed = || store.reader().conversations(MODEL, &mut known).unwrap().len();
    assert_eq!([listed(), listed()], [0, 1]);
}
