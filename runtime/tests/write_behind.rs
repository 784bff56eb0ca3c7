//! The writer and the readers: a job that panics ends alone, and nothing is dropped that a disk
//! could take.

mod support;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use hob_runtime::backend::MemoryKind;
use hob_runtime::backend::fake::FakeModel;
use hob_runtime::{Engine, EngineOptions, Model, SlotState, TurnError};
use hob_slots::store::Store;
use hob_slots::store::files::{Disk, Entry, Facts, Files, Lock, LockError, NewFile, OpenFile};
use hob_slots::{Rules, Sweeper, Timestamp};
use parking_lot::Mutex;
use support::*;

const MEMORIES: [MemoryKind; 3] = [MemoryKind::Plain, MemoryKind::Windowed, MemoryKind::Recurrent];

/// The real disk, whose calls can panic or take long.
#[derive(Debug, Default)]
struct RiggedDisk {
    /// Further reads of objects that panic.
    reads: AtomicUsize,
    /// Further writes of the writer thread that panic.
    writes: AtomicUsize,
    /// Further listings of directories that panic.
    lists: AtomicUsize,
    /// How long each write takes.
    write_millis: AtomicU64,
}

fn panic_while(left: &AtomicUsize) {
    let counted = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
    assert!(counted.is_err(), "a rigged call");
}

impl Files for RiggedDisk {
    fn resolve(&self, dir: &Path) -> io::Result<PathBuf> {
        Disk.resolve(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        if std::thread::current().name() == Some("hob-writer") {
            panic_while(&self.writes);
        }
        std::thread::sleep(Duration::from_millis(self.write_millis.load(Ordering::SeqCst)));
        Disk.create(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn OpenFile>> {
        if path.extension().is_some_and(|end| end == "kv") {
            panic_while(&self.reads);
        }
        Disk.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        Disk.make_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        Disk.sync_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        panic_while(&self.lists);
        Disk.list(dir)
    }

    fn look(&self, path: &Path) -> io::Result<Facts> {
        Disk.look(path)
    }

    fn touch(&self, path: &Path, time: SystemTime) -> io::Result<()> {
        Disk.touch(path, time)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        Disk.free_bytes(path)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>, LockError> {
        Disk.lock(path)
    }
}

fn of_memory(memory: MemoryKind) -> Arc<dyn Model> {
    Arc::new(FakeModel::new().with_memory(memory))
}

fn on(
    disk: &Arc<RiggedDisk>,
    path: &Path,
    model: &Arc<dyn Model>,
    options: EngineOptions,
) -> Engine {
    let store = Arc::new(Store::open_on(disk.clone(), path).expect("a free directory"));
    Engine::start(model.clone(), FINGERPRINT, Some(store), options).expect("the context fits")
}

fn no_memory() -> EngineOptions {
    EngineOptions { memory_budget_bytes: 0, ..options() }
}

#[test]
fn readers_that_panicked_read_the_next_restore() {
    const PANICS: u64 = 5; // More than there are threads.
    for memory in MEMORIES {
        let (model, disk) = (of_memory(memory), Arc::new(RiggedDisk::default()));
        let directory = tempfile::tempdir().unwrap();
        let engine = on(&disk, directory.path(), &model, no_memory());
        let story = tokens(&model, &user(&"hello ".repeat(60)));
        let mut timeline = ask(&engine, request("chat", &story, 20)).timeline;
        for panics in 1..=PANICS {
            settle(&engine);
            block_on(engine.park(name("chat")));
            settle(&engine);
            disk.reads.store(1, Ordering::SeqCst);
            let prompt = then(&model, &timeline, "and now?");
            let answer = ask(&engine, request("chat", &prompt, 5));
            let miss = answer.report.miss.expect("less was found").to_string();
            assert!(miss.contains("panicked"), "{memory}: {miss}");
            assert_eq!(status(&engine).counters.tier_panics, panics, "{memory}");
            timeline = answer.timeline;
        }
        settle(&engine);
        block_on(engine.park(name("chat")));
        let prompt = then(&model, &timeline, "and now?");
        let report = ask(&engine, request("chat", &prompt, 5)).report;
        assert_eq!(report.tokens.computed, prompt.len() - timeline.len(), "{memory}: {report:?}");
        engine.shutdown();
    }
}

#[test]
fn a_writer_that_panicked_writes_the_next_object_and_inference_goes_on() {
    for memory in MEMORIES {
        let (model, disk) = (of_memory(memory), Arc::new(RiggedDisk::default()));
        let directory = tempfile::tempdir().unwrap();
        let engine = on(&disk, directory.path(), &model, options());
        disk.writes.store(usize::MAX, Ordering::SeqCst);
        let story = tokens(&model, &user(&"hello ".repeat(60)));
        let first = ask(&engine, request("chat", &story, 20));
        settle(&engine);
        block_on(engine.park(name("chat")));
        let counters = status(&engine).counters;
        assert!(counters.tier_panics > 1, "{memory}: {counters:?}");
        assert_eq!(counters.tier_panics, counters.write_errors, "{memory}");

        // Memory has what the disk has not.
        let prompt = then(&model, &first.timeline, "and now?");
        let report = ask(&engine, request("chat", &prompt, 5)).report;
        assert_eq!(report.tokens.memory, first.timeline.len(), "{memory}: {report:?}");

        disk.writes.store(0, Ordering::SeqCst);
        let other = tokens(&model, &user(&"good evening ".repeat(30)));
        let other = ask(&engine, request("other", &other, 20));
        engine.shutdown();
        drop(engine);
        let engine = support::engine(&model, Some(directory.path()), options());
        let prompt = then(&model, &other.timeline, "and now?");
        let report = ask(&engine, request("other", &prompt, 5)).report;
        assert!(report.tokens.disk > 0, "{memory}: {report:?}");
        engine.shutdown();
    }
}

#[test]
fn a_sweep_that_panicked_is_answered_and_the_next_one_runs() {
    let (model, disk) = (of_memory(MemoryKind::Plain), Arc::new(RiggedDisk::default()));
    let directory = tempfile::tempdir().unwrap();
    let engine = on(&disk, directory.path(), &model, options());
    let first = ask(&engine, request("chat", &tokens(&model, &user("hello")), 20));
    settle(&engine);
    let sweep = || {
        let sweeper = Arc::new(Mutex::new(Sweeper::new(Rules::default())));
        block_on(engine.sweep(sweeper, Timestamp::from(SystemTime::now()).into()))
    };
    disk.lists.store(1, Ordering::SeqCst);
    assert_eq!(sweep().unwrap_err(), TurnError::Stopped);
    assert!(sweep().unwrap().errors.is_empty());
    assert_eq!(status(&engine).counters.tier_panics, 1);
    let prompt = then(&model, &first.timeline, "and now?");
    ask(&engine, request("chat", &prompt, 5));
    engine.shutdown();
}

#[test]
fn blocks_are_saved_while_a_prompt_is_computed() {
    let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_pace(Duration::from_micros(500)));
    let disk = OnDisk::with(&model, EngineOptions { micro_batch: 64, ..options() });
    let story = tokens(&model, &user(&"hello ".repeat(250)));
    let turn = disk.engine.submit(request("chat", &story, 0)).unwrap();
    loop {
        let status = status(&disk.engine);
        if status.counters.written_bytes > 0 {
            break;
        }
        let waits = status.waiting > 0 || status.slots.iter().any(|s| s.state != SlotState::Idle);
        assert!(waits, "it was all computed before anything was saved");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(status(&disk.engine).counters.turns, 0, "the prompt is still being computed");
    finish(turn).unwrap();
}

#[test]
fn a_conversation_that_gives_up_its_slot_waits_for_a_slow_disk() {
    for memory in MEMORIES {
        let (model, disk) = (of_memory(memory), Arc::new(RiggedDisk::default()));
        let directory = tempfile::tempdir().unwrap();
        let one_at_a_time = EngineOptions { unsaved_budget_bytes: 1, slots: 1, ..no_memory() };
        let engine = on(&disk, directory.path(), &model, one_at_a_time);
        disk.write_millis.store(10, Ordering::SeqCst);
        let story = tokens(&model, &user(&"hello ".repeat(100)));
        let first = ask(&engine, request("chat", &story, 5));
        ask(&engine, request("other", &tokens(&model, &user("good evening")), 5)); // Parks it.
        let prompt = then(&model, &first.timeline, "and now?");
        let report = ask(&engine, request("chat", &prompt, 5)).report;
        assert_eq!(report.tokens.computed, prompt.len() - first.timeline.len(), "{memory}");
        assert_eq!(status(&engine).counters.dropped_tokens, 0, "{memory}");
        engine.shutdown();
    }
}
