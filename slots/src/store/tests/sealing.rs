use super::*;
use crate::store::sealing::Key;
use crate::sweep::{NoEngine, Quota, Rules, Sweeper, collect_now};

impl World {
    fn sealed(self, key: u8) -> Result<Self, StoreError> {
        Ok(Self { store: self.store.sealed(&Key::of(key))?, dir: self.dir })
    }

    fn holds(&self, text: &[u8]) -> bool {
        self.files().iter().any(|file| {
            let bytes = fs::read(self.path(file)).unwrap();
            file.as_bytes().windows(text.len()).chain(bytes.windows(text.len())).any(|w| w == text)
        })
    }
}

fn save(world: &World, name: &str) -> SlotRecord {
    let record = slot(name, &[&block(1), &snapshot()]);
    world.put(&block(1));
    world.put(&snapshot());
    world.store.put_slot(MODEL, &record).unwrap();
    record
}

#[test]
fn sealed_files_are_read_with_the_key_alone_and_hide_their_content() {
    let world = World::new().sealed(7).unwrap();
    let record = save(&world, "who-it-is");
    let world = world.restarted().sealed(7).unwrap();
    assert_eq!(world.store.get_slot(MODEL, &id("who-it-is")).unwrap(), record);
    assert_eq!(world.get(&block(1)).unwrap(), block(1));
    assert_eq!(world.get(&snapshot()).unwrap(), snapshot());
    let listed = world.store.contents(MODEL).unwrap();
    assert_eq!(listed.slots[0].entry.conversation, id("who-it-is"));
    assert_eq!(listed.slots[0].objects.len(), 2);
    let asked = [id("who-it-is"), id("another")];
    assert_eq!(world.store.saved_among(&asked).0, [id("who-it-is")].into());
    assert_eq!(world.put(&block(1)), 0, "it is there already");

    for secret in [&b"who-it-is"[..], block(1).id().to_string().as_bytes(), &block(1).payload[..50]]
    {
        assert!(!world.holds(secret), "{}", String::from_utf8_lossy(secret));
    }
}

#[test]
fn another_key_is_refused_and_loses_nothing() {
    let world = World::new().sealed(7).unwrap();
    save(&world, "chat");
    let path = world.path("");
    let world = world.restarted();
    let error = StoreReader::open(&path).unwrap().sealed(&Key::of(8)).unwrap_err();
    assert!(error.to_string().contains("another key than the one in a key"), "{error}");
    let world = world.sealed(7).unwrap();
    assert!(world.store.get_slot(MODEL, &id("chat")).is_ok());
    assert!(world.quarantined().is_empty());
}

#[test]
fn without_the_key_sealed_files_are_a_miss_and_stay() {
    let world = World::new().sealed(7).unwrap();
    save(&world, "chat");
    let world = world.restarted();
    let listing = world.store.contents(MODEL).unwrap();
    assert!(matches!(listing.rejected[0].miss, Miss::Sealed));
    let later = AdjustedTime::from(now().after(3 * SAVE_GRACE));
    let swept = Sweeper::new(Rules::without_quota()).sweep(&world.store, &later, &NoEngine);
    assert_eq!((swept.collected, swept.expired), (0, 0));
    let world = world.sealed(7).unwrap();
    assert!(world.get(&block(1)).is_ok());
}

#[test]
fn without_the_key_sealed_files_expire() {
    let world = World::new().sealed(7).unwrap();
    save(&world, "chat");
    let world = world.restarted();
    let later = AdjustedTime::from(now().after(Duration::from_secs(2 * 3_600)));
    let swept = Sweeper::new(Rules::without_quota()).sweep(&world.store, &later, &NoEngine);
    assert_eq!((swept.expired, swept.collected), (1, 2));
}

#[test]
fn beside_sealed_files_without_their_key_clear_ones_are_collected_and_evicted() {
    let world = World::new().sealed(7).unwrap();
    let kept = SlotRecord { class: TtlClass::Permanent, ..save(&world, "sealed") };
    world.store.put_slot(MODEL, &kept).unwrap();
    let world = world.restarted();
    world.put(&block(65));
    world.put(&block(129));
    let clear = SlotRecord { class: TtlClass::Permanent, ..slot("clear", &[&block(129)]) };
    world.store.put_slot(MODEL, &clear).unwrap();

    collect_now(&world.store, &NoEngine, MODEL, &BTreeSet::new()).unwrap();
    assert!(matches!(world.get(&block(65)), Err(Miss::Absent)), "no slot file names it");
    assert!(world.get(&block(129)).is_ok());
    let later = AdjustedTime::from(now().after(2 * SAVE_GRACE));
    let rules = Rules { quota: Quota::Bytes(1), ..Rules::default() };
    let swept = Sweeper::new(rules).sweep(&world.store, &later, &NoEngine);
    assert_eq!((swept.evicted, swept.collected, swept.errors.len()), (1, 1, 0));

    let world = world.sealed(7).unwrap();
    assert_eq!(world.store.get_slot(MODEL, &id("sealed")).unwrap(), kept);
    assert!(world.get(&block(1)).is_ok() && world.get(&snapshot()).is_ok());
}

#[test]
fn clear_files_are_removed_once_the_directory_is_sealed() {
    let world = World::new();
    save(&world, "chat");
    let world = world.restarted().sealed(7).unwrap();
    assert!(matches!(world.store.get_slot(MODEL, &id("chat")), Err(Miss::Absent)));
    let later = AdjustedTime::from(now().after(2 * SAVE_GRACE));
    let swept = Sweeper::new(Rules::without_quota()).sweep(&world.store, &later, &NoEngine);
    assert_eq!((swept.expired, swept.collected), (1, 2));
    assert_eq!(world.files(), ["key.check".to_owned()].into());
}

#[test]
fn clear_files_in_quarantine_and_clear_crash_marks_are_removed_once_the_directory_is_sealed() {
    let world = World::new();
    save(&world, "chat");
    flip_a_bit(&world.object_path(&block(1)), 150);
    assert!(world.get(&block(1)).is_err());
    world.store.mark_use(MODEL, &id("chat"), UseStage::Restoring).unwrap();
    assert_eq!(world.quarantined().len(), 2, "an object and the reason");

    let world = world.restarted().sealed(7).unwrap();
    save(&world, "chat");
    let sealed = world.store.layout.object(MODEL, world.store.name(block(1).id()));
    flip_a_bit(&sealed, 150);
    assert!(world.get(&block(1)).is_err());
    world.store.mark_use(MODEL, &id("chat"), UseStage::Restoring).unwrap();
    assert_eq!(world.quarantined().len(), 4);
    Sweeper::new(Rules::without_quota()).sweep(&world.store, &AdjustedTime::from(now()), &NoEngine);
    let name = sealed.file_name().unwrap().to_str().unwrap();
    assert_eq!(world.quarantined(), [name.to_owned(), format!("{name}.txt")]);
    let files = world.files();
    let marks: Vec<_> = files.iter().filter(|file| file.contains("/crashes/")).collect();
    assert_eq!(marks.len(), 1, "{marks:?}");
    assert!(!marks[0].contains("chat"));
}

#[test]
fn a_sealed_object_is_compressed_and_stays_sealed() {
    let world = World::new().sealed(7).unwrap();
    let kept = SlotRecord { class: TtlClass::Permanent, ..save(&world, "chat") };
    world.store.put_slot(MODEL, &kept).unwrap();
    let later = AdjustedTime::from(now().after(Duration::from_secs(3_600)));
    let rules = Rules { compress_after: Some(Duration::ZERO), ..Rules::without_quota() };
    let swept = Sweeper::new(rules).sweep(&world.store, &later, &NoEngine);
    assert_eq!(swept.compressed, 2);
    assert_eq!(world.get(&block(1)).unwrap(), block(1));
    assert!(!world.holds(&block(1).payload[..50]));
}

#[test]
fn a_key_is_made_once_for_its_owner_alone_and_refused_when_others_can_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("sub/slots.key");
    assert!(matches!(Key::load(&file), Err(StoreError::Io { .. })));
    Key::load_or_make(&file).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text.trim().len(), 64);
    Key::load_or_make(&file).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    let error = Key::load(&file).unwrap_err().to_string();
    assert!(error.contains("chmod 600"), "{error}");
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    fs::write(&file, "not a key").unwrap();
    assert!(Key::load_or_make(&file).unwrap_err().to_string().contains("64 hex digits"));
}

#[test]
fn a_key_is_made_behind_a_link_that_the_user_has_made() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("real")).unwrap();
    std::os::unix::fs::symlink("real", dir.path().join("link")).unwrap();
    for name in ["link/slots.key", "link/new/slots.key"] {
        let file = dir.path().join(name);
        let made = Key::load_or_make(&file);
        assert!(made.is_ok() && Key::load(&file).is_ok(), "{name}: {made:?}");
    }
}

#[test]
fn a_missing_key_is_made_only_where_nothing_is_encrypted_yet() {
    let keys = TempDir::new().unwrap();
    let file = keys.path().join("slots.key");
    let sealed = |world: World| {
        let World { store, dir } = world;
        store.sealed_with_new(&file).map(|store| World { store, dir })
    };
    let (one, other) = (World::new(), World::new());
    let reader = StoreReader::open(one.path("")).unwrap().sealed_with(&file).unwrap();
    assert!(!reader.hides_names() && !file.exists());
    let one = sealed(one).unwrap();
    save(&one, "chat");
    let one = one.restarted();
    fs::remove_file(&file).unwrap();
    let read = StoreReader::open(one.path("")).unwrap().sealed_with(&file);
    assert!(matches!(read.map(drop), Err(StoreError::MissingKey { .. })));
    let error = sealed(one).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::MissingKey { .. }), "{error}");
    assert!(error.to_string().contains(&file.display().to_string()), "{error}");
    assert!(!file.exists());
    sealed(other).unwrap();
    assert!(file.exists());
}
