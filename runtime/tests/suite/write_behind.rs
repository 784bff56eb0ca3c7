//! The writer and the readers: a job that panics ends alone, what a full disk refused is written
//! again, and nothing is dropped that a disk could take.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use hob_runtime::backend::MemoryKind;
use hob_runtime::backend::fake::FakeModel;
use hob_runtime::{Engine, EngineOptions, Retention, TurnError, TurnRequest};
use hob_slots::store::StoreReader;
use hob_slots::{Sweeper, Swept, Timestamp, TtlClass};
use parking_lot::Mutex;

use crate::busy_disk::{Busy, waiting};
use crate::support::held::MicroBatches;
use crate::support::wait::until;
use crate::support::*;

pub mod rigged_disk;

use rigged_disk::{RiggedDisk, on};

const MEMORIES: [MemoryKind; 3] = [MemoryKind::Plain, MemoryKind::Windowed, MemoryKind::Recurrent];

fn no_memory() -> EngineOptions {
    EngineOptions { memory_budget_bytes: 0, ..options() }
}

/// Micro-batches are quick, each write takes long, and two blocks fill the budget of what waits for it.
fn on_a_slow_disk(disk: &Arc<RiggedDisk>, path: &Path, patience: Duration) -> Engine {
    disk.write_millis.store(30, Ordering::SeqCst);
    let slow = EngineOptions { unsaved_budget_bytes: 3_000, disk_patience: patience, ..options() };
    on(disk, path, &of_memory(MemoryKind::Plain), slow)
}

#[test]
fn a_turn_whose_blocks_must_leave_waits_for_a_slow_disk_and_others_do_not() {
    let (disk, directory) = (Arc::new(RiggedDisk::default()), tempfile::tempdir().unwrap());
    let engine = on_a_slow_disk(&disk, directory.path(), Duration::from_secs(600));
    let model = engine.model().clone();
    let busy = Busy::writer_of(&engine);
    let waits = waiting(&engine, &model);
    let mut of_others = 0;
    for _ in 0..3 {
        of_others +=
            ask(&engine, request("short", &tokens(&model, "hello"), 2)).timeline.len() as u64;
    }
    busy.release();
    let answer = finish(waits).unwrap();
    assert!(answer.cells.peak <= 400, "{:?}", answer.cells);
    // The writer has written nothing until here, so KV of the others may have found no room. That of the turn that
    // waited has lost none.
    assert!(status(&engine).counters.dropped_tokens <= of_others);
    assert!(answer.timeline.len() as u64 > 10 * of_others);
    engine.shutdown();
}

#[test]
fn a_turn_whose_blocks_must_leave_ends_with_the_reason_where_the_disk_takes_nothing() {
    let (disk, directory) = (Arc::new(RiggedDisk::default()), empty_directory());
    let engine = on_a_slow_disk(&disk, directory.path(), Duration::from_millis(300));
    disk.write_millis.store(2_000, Ordering::SeqCst);
    let model = engine.model().clone();
    let long = tokens(&model, &"word ".repeat(300));
    let within = || TurnRequest { budget: Some(400), ..request("long", &long, 4) };
    let error = finish(engine.submit(within()).unwrap()).unwrap_err();
    assert!(matches!(error, TurnError::DiskTooSlow { .. }), "{error}");
    disk.write_millis.store(0, Ordering::SeqCst);
    settle(&engine);
    // The writer may be late by more than the patience on a busy machine too.
    let answer = RefCell::new(None);
    until("the disk takes what leaves", || {
        let ended = finish(engine.submit(within()).unwrap());
        assert!(matches!(ended, Ok(_) | Err(TurnError::DiskTooSlow { .. })), "{ended:?}");
        *answer.borrow_mut() = ended.ok();
        answer.borrow().is_some()
    });
    assert!(answer.into_inner().unwrap().cells.peak <= 400);
    engine.shutdown();
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
fn a_restore_reads_the_disk_while_the_writer_reads_which_objects_slot_files_name() {
    let (model, disk) = (of_memory(MemoryKind::Recurrent), Arc::new(RiggedDisk::default()));
    let directory = tempfile::tempdir().unwrap();
    let engine = on(&disk, directory.path(), &model, no_memory());
    let story = tokens(&model, &user(&"hello ".repeat(60)));
    let saved = ask(&engine, request("saved", &story, 20)).timeline;
    block_on(engine.park(name("saved")));
    settle(&engine);

    disk.hold_lists.store(true, Ordering::SeqCst);
    let mut timeline = Vec::new();
    for _ in 0..12 {
        // The later ones supersede snapshots of the first ones, which the writer removes.
        let prompt = then(&model, &timeline, "and then?");
        timeline = ask(&engine, request("chat", &prompt, 5)).timeline;
        block_on(engine.park(name("chat")));
    }
    until("the writer removes something", || disk.is_held.load(Ordering::SeqCst));
    let prompt = then(&model, &saved, "and now?");
    let report = ask(&engine, request("saved", &prompt, 5)).report;
    disk.hold_lists.store(false, Ordering::SeqCst);
    assert_eq!(report.tokens.computed, prompt.len() - saved.len(), "{report:?}");
    engine.shutdown();
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
        let engine = crate::support::engine(&model, Some(directory.path()), options());
        let prompt = then(&model, &other.timeline, "and now?");
        let report = ask(&engine, request("other", &prompt, 5)).report;
        assert!(report.tokens.disk > 0, "{memory}: {report:?}");
        engine.shutdown();
    }
}

fn sweep_in(engine: &Engine, time: Duration) -> Result<Swept, TurnError> {
    let sweeper = Arc::new(Mutex::new(Sweeper::new(without_quota())));
    block_on(engine.sweep(sweeper, Timestamp::from(SystemTime::now() + time).into()))
}

/// Whether the conversation's slot file and all objects that it names are on disk.
fn is_saved(directory: &Path, conversation: &str) -> bool {
    let reader = StoreReader::open(directory).unwrap();
    let Ok(record) = reader.get_slot(FINGERPRINT, &name(conversation)) else { return false };
    record.objects().all(|(id, _)| reader.has_object(FINGERPRINT, id))
}

fn until_saved(directory: &Path, conversation: &str, what: &str) {
    until(&format!("{what}: {conversation} is saved"), || is_saved(directory, conversation));
}

#[test]
fn what_a_full_disk_refused_is_saved_when_there_is_room_again() {
    for (memory, then_comes) in
        MEMORIES.into_iter().flat_map(|it| ["a sweep", "a change", "a stop"].map(|then| (it, then)))
    {
        let what = format!("{memory}, {then_comes}");
        let (model, disk) = (of_memory(memory), Arc::new(RiggedDisk::default()));
        let directory = tempfile::tempdir().unwrap();
        let engine = on(&disk, directory.path(), &model, options());
        disk.full.store(true, Ordering::SeqCst);
        let story = tokens(&model, &user(&"hello ".repeat(60)));
        let first = ask(&engine, request("chat", &story, 20));
        settle(&engine);
        let errors = status(&engine).counters.write_errors;
        assert!(errors > 1 && !is_saved(directory.path(), "chat"), "{what}: {errors} errors");

        disk.full.store(false, Ordering::SeqCst);
        match then_comes {
            "a sweep" => assert!(sweep_in(&engine, Duration::ZERO).is_ok()),
            "a change" => {
                ask(&engine, request("other", &tokens(&model, &user("good evening")), 5));
            }
            _ => assert!(engine.shutdown()),
        }
        until_saved(directory.path(), "chat", &what);
        engine.shutdown();
        drop(engine);
        let engine = crate::support::engine(&model, Some(directory.path()), options());
        let prompt = then(&model, &first.timeline, "and now?");
        let report = ask(&engine, request("chat", &prompt, 5)).report;
        assert_eq!(report.tokens.disk, first.timeline.len(), "{what}: {report:?}");
        engine.shutdown();
    }
}

#[test]
fn a_deletion_on_a_full_disk_leaves_the_objects_to_write_that_another_conversation_needs() {
    let (model, disk) = (of_memory(MemoryKind::Plain), Arc::new(RiggedDisk::default()));
    let directory = tempfile::tempdir().unwrap();
    let engine = on(&disk, directory.path(), &model, options());
    disk.full.store(true, Ordering::SeqCst);
    let story = tokens(&model, &user(&"hello ".repeat(60)));
    for conversation in ["goes", "stays"] {
        ask(&engine, request(conversation, &story, 20));
    }
    settle(&engine);
    assert_eq!(block_on(engine.forget(name("goes"))), Ok(()));
    disk.full.store(false, Ordering::SeqCst);
    assert!(sweep_in(&engine, Duration::ZERO).is_ok());
    until_saved(directory.path(), "stays", "after the deletion");
    engine.shutdown();
}

#[test]
fn a_deletion_empties_memory_where_the_disk_has_taken_nothing() {
    let (model, disk) = (of_memory(MemoryKind::Plain), Arc::new(RiggedDisk::default()));
    let directory = tempfile::tempdir().unwrap();
    let engine = on(&disk, directory.path(), &model, options());
    disk.full.store(true, Ordering::SeqCst);
    ask(&engine, request("chat", &tokens(&model, &user(&"hello ".repeat(60))), 20));
    settle(&engine);
    assert!(status(&engine).memory_bytes > 0);
    assert_eq!(block_on(engine.forget(name("chat"))), Ok(()));
    assert_eq!(status(&engine).memory_bytes, 0);
    engine.shutdown();
}

#[test]
fn a_disk_that_stays_full_costs_two_failed_writes_a_turn() {
    let (model, disk) = (of_memory(MemoryKind::Plain), Arc::new(RiggedDisk::default()));
    let directory = tempfile::tempdir().unwrap();
    let engine = on(&disk, directory.path(), &model, options());
    disk.full.store(true, Ordering::SeqCst);
    ask(&engine, request("chat", &tokens(&model, &user(&"hello ".repeat(150))), 5));
    settle(&engine);
    let errors = || status(&engine).counters.write_errors;
    let before = errors();
    assert!(before > 10, "{before}");
    settle(&engine);
    assert_eq!(errors() - before, 2, "an object and a record");
    engine.shutdown();
}

/// Of a class that expires.
fn short(conversation: &str, prompt: &[hob_slots::Token]) -> TurnRequest {
    let keep = Retention { class: Some(TtlClass::Short), ..Retention::default() };
    TurnRequest { keep, ..request(conversation, prompt, 5) }
}

#[test]
fn a_panic_in_any_write_leaves_no_conversation_that_a_sweep_or_a_deletion_must_spare() {
    let model = of_memory(MemoryKind::Plain);
    let mut panics = 0;
    for writes_before in 0.. {
        let disk = Arc::new(RiggedDisk::default());
        let directory = tempfile::tempdir().unwrap();
        let engine = on(&disk, directory.path(), &model, options());
        disk.writes_before.store(writes_before, Ordering::SeqCst);
        disk.writes.store(1, Ordering::SeqCst);
        ask(&engine, short("chat", &tokens(&model, &user("hello"))));
        settle(&engine);
        std::thread::sleep(Duration::from_millis(5)); // The use that is written is a later one.
        block_on(engine.park(name("chat")));
        settle(&engine);
        if status(&engine).counters.tier_panics == 0 {
            break;
        }
        panics += 1;
        disk.writes.store(0, Ordering::SeqCst);
        assert!(is_saved(directory.path(), "chat"), "after the panic of write {writes_before}");
        let swept = sweep_in(&engine, Duration::from_secs(3600)).unwrap();
        assert_eq!(swept.expired, 1, "after the panic of write {writes_before}");
        ask(&engine, short("chat", &tokens(&model, &user("hello"))));
        assert_eq!(block_on(engine.forget(name("chat"))), Ok(()));
        engine.shutdown();
    }
    assert!(panics >= 3, "an object, a record and a renewal were written: {panics}");
}

#[test]
fn a_deletion_that_panicked_is_answered_and_the_next_one_deletes() {
    let (model, disk) = (of_memory(MemoryKind::Plain), Arc::new(RiggedDisk::default()));
    let directory = tempfile::tempdir().unwrap();
    let engine = on(&disk, directory.path(), &model, options());
    let hello = tokens(&model, &user("hello"));
    ask(&engine, request("chat", &hello, 5));
    settle(&engine);
    disk.lists.store(1, Ordering::SeqCst);
    assert_eq!(block_on(engine.forget(name("chat"))), Err(TurnError::Stopped));
    assert_eq!(block_on(engine.forget(name("chat"))), Ok(()));
    assert!(!is_saved(directory.path(), "chat"));
    ask(&engine, request("chat", &hello, 5));
    settle(&engine);
    assert!(is_saved(directory.path(), "chat"));
    engine.shutdown();
}

#[test]
fn a_sweep_that_panicked_is_answered_and_the_next_one_runs() {
    let (model, disk) = (of_memory(MemoryKind::Plain), Arc::new(RiggedDisk::default()));
    let directory = tempfile::tempdir().unwrap();
    let engine = on(&disk, directory.path(), &model, options());
    let first = ask(&engine, request("chat", &tokens(&model, &user("hello")), 20));
    settle(&engine);
    let sweep = || sweep_in(&engine, Duration::ZERO);
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
    let batches = MicroBatches::default();
    let model = batches.of(FakeModel::new());
    let disk = OnDisk::with(&model, EngineOptions { micro_batch: 128, ..options() });
    let story = tokens(&model, &user(&"hello ".repeat(250)));
    let written = disk.engine.written_bytes();
    let (turn, paused) = batches.first_of(&disk.engine, request("chat", &story, 0));
    until("the first blocks are saved", || *written.borrow() > 0);
    assert_eq!(paused.begun.len(), 1, "the prompt is still being computed");
    drop(paused);
    finish(turn).unwrap();
}

#[test]
fn a_conversation_that_gives_up_its_slot_waits_for_a_slow_disk() {
    for memory in MEMORIES {
        let (model, disk) = (of_memory(memory), Arc::new(RiggedDisk::default()));
        let directory = empty_directory();
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

#[test]
fn a_conversation_that_is_saved_on_demand_is_on_disk_at_once_and_stays_hot() {
    for memory in MEMORIES {
        let (model, disk) = (of_memory(memory), Arc::new(RiggedDisk::default()));
        let directory = tempfile::tempdir().unwrap();
        let engine = on(&disk, directory.path(), &model, options());
        disk.write_millis.store(10, Ordering::SeqCst);
        let story = tokens(&model, &user(&"hello ".repeat(100)));
        ask(&engine, request("chat", &story, 5));
        block_on(engine.save(name("chat")));
        assert!(is_saved(directory.path(), "chat"), "{memory}");
        assert!(status(&engine).slots.iter().any(|slot| slot.tokens > 0), "{memory}");
        engine.shutdown();
    }
}

#[test]
fn a_record_that_is_written_before_the_slot_file_was_read_replaces_nothing_by_less() {
    let batches = MicroBatches::default();
    let model = batches.of(FakeModel::new());
    let directory = tempfile::tempdir().unwrap();
    let options = EngineOptions { micro_batch: 4, ..options() };
    let engine = engine(&model, Some(directory.path()), options.clone());
    let story = tokens(&model, &user(&"hello ".repeat(40)));
    let first = ask(&engine, short("chat", &story));
    engine.shutdown();
    drop(engine);

    let disk = Arc::new(RiggedDisk::default());
    let impatient = EngineOptions { restore_patience: Duration::ZERO, ..options };
    let engine = on(&disk, directory.path(), &model, impatient);
    disk.hold_readers.store(true, Ordering::SeqCst);
    let prompt = then(&model, &first.timeline, "and now?");
    batches.cancel_after_first(&engine, request("chat", &prompt, 20));
    let record = || {
        let reader = StoreReader::open(directory.path()).unwrap();
        reader.get_slot(FINGERPRINT, &name("chat")).unwrap()
    };
    let saved = record();
    assert!(saved.tokens.starts_with(&first.timeline), "{} tokens", saved.tokens.len());
    assert_eq!(saved.class, TtlClass::Short, "the class that was asked for");
    disk.hold_readers.store(false, Ordering::SeqCst);
    engine.shutdown();
}
