//! Disk faults at every call of the store.
//!
//! Each scenario runs once for each of its calls and each way in which that call can fail. Then:
//!
//! - Each conversation reads as before or as after the scenario, with all of its objects; while the
//!   disk fails, it may also be a miss.
//! - No valid file is rejected.
//! - A save and a read on the repaired disk work, and so does the same scenario again.
//! - No descriptor stays open, no lock stays held, no temporary file survives the next open.

mod faulty;
#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hob_slots::store::Key;
use hob_slots::store::files::Files;
use hob_slots::{ConversationId, Store, TtlClass};
use tempfile::TempDir;

use faulty::{Call, Fault, FaultyDisk};
use support::scenarios::{SCENARIOS, Scenario};
use support::talk::{MODEL, Readings, Talk, contents, id, missing_objects, readings, start};

#[test]
fn a_fault_at_any_call_leaves_the_old_or_the_new_state_and_the_store_recovers() {
    let _alone = alone();
    let mut played = 0;
    for scenario in SCENARIOS {
        let calls = World::new(scenario).play_undisturbed();
        for (at, &call) in calls.iter().enumerate() {
            for fault in Fault::ALL.into_iter().filter(|fault| fault.befalls(call)) {
                World::new(scenario).play_with(at, fault);
                played += 1;
            }
        }
    }
    println!("{} scenarios, {played} faults", SCENARIOS.len());
}

#[test]
fn a_failed_open_succeeds_once_the_fault_has_passed() {
    let _alone = alone();
    let (mut at, mut played) = (0, 0);
    loop {
        let mut calls = Vec::new();
        for fault in Fault::ALL {
            let World { store, disk, dir, .. } = World::new(&SCENARIOS[2]).left_unfinished();
            drop(store);
            let before = open_descriptors();
            disk.fail(at, fault);
            let opened = Store::open_on(Arc::new(disk.clone()), dir.path().join("slots"));
            drop(opened);
            calls = disk.repair();
            assert_eq!(open_descriptors(), before, "{fault:?} at call {at}");
            let world = World::reopened(disk, dir, &SCENARIOS[2]);
            world.assert_whole(&[]);
            assert_eq!(world.unfinished(), Vec::<PathBuf>::new(), "{fault:?} at call {at}");
            played += 1;
        }
        at += 1;
        if at > calls.len() {
            break;
        }
    }
    println!("{played} faults while a directory was opened");
}

#[test]
fn a_key_that_a_full_disk_cut_short_is_made_once_there_is_room() {
    let _alone = alone();
    for at in 0.. {
        let mut calls = 0;
        for fault in [Fault::Full, Fault::CutShort, Fault::FullFromThenOn] {
            let (dir, disk) = (TempDir::new().unwrap(), FaultyDisk::default());
            let file = dir.path().join("sub/slots.key");
            disk.fail(at, fault);
            drop(Key::load_or_make_on(&disk, &file));
            calls = calls.max(disk.repair().len());
            let made = Key::load_or_make_on(&disk, &file);
            assert!(made.is_ok(), "{fault:?} at call {at}: {made:?}");
        }
        if at > calls {
            break;
        }
    }
}

#[test]
fn a_wrong_key_is_refused_and_the_right_one_fits_after_a_fault_at_any_call() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let [right, wrong] =
        ["right", "wrong"].map(|name| Key::load_or_make(&dir.path().join(name)).unwrap());
    let (disk, slots) = (FaultyDisk::default(), dir.path().join("slots"));
    let open = || Store::open_on(Arc::new(disk.clone()), &slots).unwrap();
    drop(open().sealed(&right).unwrap());
    for at in 0.. {
        let store = open();
        disk.fail(at, Fault::Error);
        assert!(store.sealed(&wrong).is_err(), "call {at}");
        let calls = disk.repair().len();
        assert!(open().sealed(&right).is_ok(), "call {at}");
        if at >= calls {
            break;
        }
    }
}

#[test]
fn a_fault_at_any_call_of_reading_is_a_miss_and_rejects_no_file() {
    let _alone = alone();
    let scenario = &SCENARIOS[2];
    let world = World::new(scenario);
    let names = world.names();
    let saved = readings(&world.store, &names);
    world.disk.repair();
    let read_all = || {
        let listed = contents(&world.store).map_or(0, |listing| listing.slots.len());
        let read = readings(&world.store, &names);
        let records: Vec<_> = read.values().flatten().collect();
        let missing = records.iter().flat_map(|record| missing_objects(&world.store, record));
        (listed, missing.count(), read)
    };
    assert_eq!(read_all(), (2, 0, saved.clone()));
    let calls = world.disk.repair().len();
    for at in 0..calls {
        for fault in [Fault::Error, Fault::ErrorFromThenOn] {
            world.disk.fail(at, fault);
            let (_, _, read) = read_all();
            world.disk.repair();
            for (name, record) in read {
                assert!(record.is_none() || record == saved[&name], "{fault:?} at call {at}");
            }
            assert_eq!(read_all(), (2, 0, saved.clone()), "{fault:?} at call {at}");
        }
    }
    assert!(world.store.quarantined(MODEL).unwrap().is_empty());
    println!("{calls} calls of reading, each failed twice");
}

/// Descriptors are counted per process, so tests run one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A scenario on a disk that can fail.
struct World<'s> {
    scenario: &'s Scenario,
    disk: FaultyDisk,
    store: Store,
    dir: TempDir,
}

impl<'s> World<'s> {
    fn new(scenario: &'s Scenario) -> Self {
        let disk = FaultyDisk::default();
        // In memory if possible: syncing takes most of the time.
        let dir = TempDir::new_in(Path::new("/dev/shm")).or_else(|_| TempDir::new()).unwrap();
        let store = Store::open_on(Arc::new(disk.clone()), dir.path().join("slots")).unwrap();
        (scenario.prepare)(&store, &disk);
        disk.repair();
        Self { scenario, disk, store, dir }
    }

    fn reopened(disk: FaultyDisk, dir: TempDir, scenario: &'s Scenario) -> Self {
        let store = Store::open_on(Arc::new(disk.clone()), dir.path().join("slots"));
        Self { scenario, store: store.expect("a directory opens on a disk that works"), disk, dir }
    }

    /// With the unfinished files of a killed writer.
    fn left_unfinished(self) -> Self {
        for dir in ["tmp".into(), format!("{MODEL}/tmp")] {
            let dir = self.store.dir().join(dir);
            let _ = self.disk.make_dir(&dir); // It may be there.
            self.disk.create(&dir.join("1-1")).unwrap().write(b"half").unwrap();
        }
        self.disk.repair();
        self
    }

    fn names(&self) -> Vec<ConversationId> {
        self.scenario.talks.iter().map(|name| id(name)).collect()
    }

    fn play_undisturbed(self) -> Vec<Call> {
        (self.scenario.act)(&self.store).expect(self.scenario.name);
        self.disk.repair()
    }

    fn play_with(self, at: usize, fault: Fault) {
        let scenario = self.scenario;
        let what = format!("{}: {fault:?} at call {at}", self.scenario.name);
        let old = self.readings_before();
        let new = self.readings_after();
        let descriptors = open_descriptors();

        self.disk.fail(at, fault);
        let said = (scenario.act)(&self.store);
        let meanwhile = readings_unless_damaged(&self);
        self.disk.repair();
        assert_eq!(open_descriptors(), descriptors, "{what}: descriptors");
        let read = readings(&self.store, &self.names());
        for name in read.keys() {
            let of = |readings: &Readings| readings.get(name).cloned().flatten();
            let (old, new) = (of(&old), of(&new));
            assert!([&None, &old, &new].contains(&&of(&meanwhile)), "{what}: {name} meanwhile");
            let may_leave = scenario.at_will.contains(&name.as_str());
            let is_whole = [&old, &new].contains(&&of(&read));
            assert!(is_whole || (may_leave && of(&read).is_none()), "{what}: {name}");
            let as_told = said.is_err() || may_leave || of(&read) == new;
            assert!(as_told, "{what}: {name} is not as it was said to be");
        }
        self.assert_whole(&[&what]);
        let another = Talk::new("another", TtlClass::Long, start(), &[1, 2, 99]);
        another.save(&self.store).expect(&what);
        assert_eq!(self.store.get_slot(MODEL, &id("another")).unwrap(), another.record, "{what}");
        assert!(self.store.remove_slot(MODEL, &id("another")).expect(&what), "{what}");

        let Self { disk, store, dir, .. } = self;
        drop(store);
        let world = Self::reopened(disk, dir, scenario);
        assert_eq!(world.unfinished(), Vec::<PathBuf>::new(), "{what}: temporary files");
        assert_eq!(readings(&world.store, &world.names()), read, "{what}: after a restart");
        (scenario.act)(&world.store).unwrap_or_else(|error| panic!("{what}: again: {error}"));
        for (name, again) in readings(&world.store, &world.names()) {
            let at_will = scenario.at_will.contains(&name.as_str());
            assert!(again == new[&name] || at_will, "{what}: {name} again");
        }
        world.assert_whole(&[&what, "again"]);
    }

    /// The state without faults. Changes nothing.
    fn readings_before(&self) -> Readings {
        let read =
            |name: &ConversationId| (name.clone(), self.store.reader().get_slot(MODEL, name).ok());
        let read = self.names().iter().map(read).collect();
        self.disk.repair();
        read
    }

    fn readings_after(&self) -> Readings {
        let world = World::new(self.scenario);
        (self.scenario.act)(&world.store).expect(self.scenario.name);
        readings(&world.store, &world.names())
    }

    /// Every readable conversation is complete, and no valid file is rejected.
    fn assert_whole(&self, what: &[&str]) {
        let listing = contents(&self.store).unwrap();
        for slot in &listing.slots {
            let record = self.store.get_slot(MODEL, &slot.entry.conversation).expect("it is there");
            assert_eq!(missing_objects(&self.store, &record), [], "{what:?}");
            let listed: Vec<_> = slot.objects.clone();
            assert_eq!(listed, record.objects().collect::<Vec<_>>(), "{what:?}");
        }
        if !self.scenario.damaged {
            assert!(listing.rejected.is_empty(), "{what:?}: {:?}", listing.rejected);
            assert_eq!(self.store.quarantined(MODEL).unwrap(), [], "{what:?}");
        }
    }

    fn unfinished(&self) -> Vec<PathBuf> {
        let models = self.store.models().unwrap().into_iter().map(|model| model.to_string());
        let dirs = models.map(|model| format!("{model}/tmp")).chain(["tmp".into()]);
        let files = dirs.filter_map(|dir| std::fs::read_dir(self.store.dir().join(dir)).ok());
        files.flatten().map(|file| file.unwrap().path()).collect()
    }
}

/// Reading rejects damaged files, which the scenario about damage does by itself.
fn readings_unless_damaged(world: &World) -> Readings {
    if world.scenario.damaged { Readings::new() } else { readings(&world.store, &world.names()) }
}

/// The open descriptors of this process; 0 where unknown.
fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}
