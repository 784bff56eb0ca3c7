//! A record is never replaced by a strict prefix of itself, nor by one that its reader refuses.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hob_runtime::backend::MemoryKind;
use hob_runtime::backend::fake::FakeModel;
use hob_runtime::{
    Engine, EngineOptions, Model, Purpose, Retention, SlotState, SlotStatus, TurnEvent, TurnRequest,
};
use hob_slots::format::{ObjectKind, SlotRecord};
use hob_slots::store::StoreReader;
use hob_slots::{Token, TtlClass};

use crate::support::held::MicroBatches;
use crate::support::wait::until;
use crate::support::*;
use crate::write_behind::rigged_disk::{RiggedDisk, on};

/// Some milliseconds a micro-batch.
fn slow(memory: MemoryKind) -> Arc<dyn Model> {
    let fake = FakeModel::new().with_memory(memory).with_pace(Duration::from_micros(100));
    Arc::new(fake)
}

fn small_batches() -> EngineOptions {
    EngineOptions { micro_batch: 16, ..options() }
}

/// Computes what the disk does not have at once.
fn impatient() -> EngineOptions {
    EngineOptions { restore_patience: Duration::ZERO, ..small_batches() }
}

/// The conversation's record, as its reader accepts it, with all of its objects.
fn record(directory: &Path) -> SlotRecord {
    let store = StoreReader::open(directory).unwrap();
    let record = store.get_slot(FINGERPRINT, &name("chat")).expect("the reader accepts it");
    for block in &record.blocks {
        store.get_object(FINGERPRINT, block.id, ObjectKind::Block).expect("it is there");
    }
    for snapshot in &record.snapshots {
        store.get_object(FINGERPRINT, snapshot.id, ObjectKind::Snapshot).expect("it is there");
    }
    record
}

fn cold(prompt: &[Token]) -> TurnRequest {
    TurnRequest { cold: true, ..request("chat", prompt, 20) }
}

#[test]
fn a_class_that_is_set_while_words_are_typed_is_recorded_also_where_no_answer_follows() {
    for memory in [MemoryKind::Plain, MemoryKind::Hybrid] {
        let model = of_memory(memory);
        let disk = OnDisk::new(&model);
        let said = ask(&disk.engine, request("chat", &tokens(&model, &user("hello")), 8)).timeline;
        settle(&disk.engine);
        let typed = then(&model, &said, "and what");
        ask(&disk.engine, TurnRequest::prefill(name("chat"), typed, Purpose::Speculate));
        let is_set = block_on(disk.engine.set_class(name("chat"), TtlClass::Short));
        assert_eq!(is_set, Ok(true), "{memory}");
        block_on(disk.engine.park(name("chat")));
        let record = disk.record("chat");
        assert_eq!((record.class, record.tokens), (TtlClass::Short, said), "{memory}");
    }
}

#[test]
fn a_class_that_is_set_while_a_turn_restores_is_recorded_also_where_the_turn_is_cancelled() {
    // Before the readers have opened the slot file, or when they have read it and open an object.
    for is_record_read in [false, true] {
        let (model, disk) = (fake(), Arc::new(RiggedDisk::default()));
        let directory = tempfile::tempdir().unwrap();
        let engine = on(&disk, directory.path(), &model, options());
        let story = tokens(&model, &user(&"hello ".repeat(60)));
        let said = ask(&engine, request("chat", &story, 8)).timeline;
        settle(&engine);
        engine.shutdown();
        drop(engine);
        assert_ne!(record(directory.path()).class, TtlClass::Short);

        let engine = on(&disk, directory.path(), &model, options());
        let held = if is_record_read { &disk.hold_objects } else { &disk.hold_readers };
        held.store(true, Ordering::SeqCst);
        let turn = engine.submit(request("chat", &then(&model, &said, "go on"), 8)).unwrap();
        until("it restores", || {
            let slots = status(&engine).slots;
            let restores = slots.iter().any(|slot| slot.state == SlotState::Restoring);
            restores && (!is_record_read || disk.is_object_held.load(Ordering::SeqCst))
        });
        assert_eq!(block_on(engine.set_class(name("chat"), TtlClass::Short)), Ok(true));
        drop(turn);
        until("the turn is cancelled", || status(&engine).counters.cancelled == 1);
        held.store(false, Ordering::SeqCst);
        settle(&engine);
        engine.shutdown();
        drop(engine);
        let record = record(directory.path());
        let found = (record.class, record.tokens);
        assert_eq!(found, (TtlClass::Short, said), "read: {is_record_read}");
    }
}

#[test]
fn a_class_that_is_set_during_a_turn_stays_where_the_turn_goes_on_after_another_one_had_its_cells()
{
    for waits in [false, true] {
        set_class_before_or_after_another_turn_took_the_cells(waits);
    }
}

/// `waits`: the turn has given up its cells when the class is set.
fn set_class_before_or_after_another_turn_took_the_cells(waits: bool) {
    let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_pace(Duration::from_millis(2)));
    let tight = EngineOptions { context_tokens: 512, micro_batch: 64, ..options() };
    let disk = OnDisk::with(&model, tight);
    let prompt = tokens(&model, &user("hello"));
    let answering = |conversation: &str| {
        let keep = Retention { class: Some(TtlClass::Long), ..Retention::default() };
        let asked = TurnRequest { keep, drafts: false, ..endless(conversation, &prompt, 5_000) };
        let mut turn = disk.engine.submit(asked).unwrap();
        while !matches!(turn.next_blocking().expect("it runs"), TurnEvent::Token { .. }) {}
        turn
    };
    let (older, younger) = (answering("older"), answering("chat"));
    let set_class = || block_on(disk.engine.set_class(name("chat"), TtlClass::Short));
    if !waits {
        assert_eq!(set_class(), Ok(true));
    }
    until("it gives its cells to the other", || status(&disk.engine).counters.preempted > 0);
    if waits {
        assert_eq!(set_class(), Ok(true));
    }
    drop(older);
    until("it goes on", || {
        let goes_on = |slot: &SlotStatus| {
            slot.conversation == Some(name("chat")) && slot.state == SlotState::Decoding
        };
        status(&disk.engine).slots.iter().any(goes_on)
    });
    drop(younger);
    until("it is cancelled", || status(&disk.engine).counters.cancelled == 2);
    assert_eq!(disk.record("chat").class, TtlClass::Short);
}

#[test]
fn a_cold_turn_that_is_cancelled_in_its_prefill_leaves_the_record_whole() {
    for memory in MEMORIES {
        let batches = MicroBatches::default();
        let model = batches.of(FakeModel::new().with_memory(memory));
        let mut disk = OnDisk::with(&model, small_batches());
        let story = tokens(&model, &user(&"hello ".repeat(60)));
        let first = ask(&disk.engine, request("chat", &story, 20));
        disk.restart_with(small_batches());

        batches.cancel_after_first(&disk.engine, cold(&story));
        assert_eq!(status(&disk.engine).counters.cancelled, 1, "{memory}");
        assert_eq!(record(disk.path()).tokens, first.timeline, "{memory}");

        let prompt = then(&model, &first.timeline, "and now?");
        let report = ask(&disk.engine, request("chat", &prompt, 20)).report;
        let new = prompt.len() - first.timeline.len();
        assert_eq!(report.tokens.computed, new, "{memory}: {report:?}");
        assert_eq!(report.miss, None, "{memory}");
    }
}

#[test]
fn a_cold_turn_that_is_cancelled_leaves_the_holes_of_the_record_and_what_its_tokens_saw() {
    let batches = MicroBatches::default();
    let model = batches.of(FakeModel::new());
    let mut disk = OnDisk::with(&model, small_batches());
    let within = |turn| TurnRequest { budget: Some(400), ignore_eog: true, ..turn };
    let mut timeline = Vec::new();
    for n in 0..8 {
        let question = user(&format!("question {n}: {}", "and then? ".repeat(8)));
        let prompt = [timeline, tokens(&model, &question)].concat();
        timeline = ask(&disk.engine, within(request("chat", &prompt, 24))).timeline;
    }
    settle(&disk.engine);
    let before = record(disk.path());
    assert_eq!(before.tokens, timeline);
    assert!(before.lineage.away_tokens() > 0, "{:?}", before.lineage);
    assert!(before.lineage.pure_tokens(timeline.len() as u32) < 400, "{:?}", before.lineage);

    batches.cancel_after_first(&disk.engine, within(cold(&timeline)));
    assert_eq!(status(&disk.engine).counters.cancelled, 1);
    let after = record(disk.path());
    assert_eq!((after.tokens, after.blocks), (before.tokens, before.blocks));
    assert_eq!(after.lineage, before.lineage);

    disk.restart();
    let prompt = [timeline.clone(), tokens(&model, &user("and now?"))].concat();
    let report = ask(&disk.engine, within(request("chat", &prompt, 4))).report;
    assert_eq!(report.tokens.computed, prompt.len() - timeline.len(), "{report:?}");
}

#[test]
fn an_engine_that_stops_in_a_cold_prefill_leaves_the_record_whole() {
    for memory in MEMORIES {
        let batches = MicroBatches::default();
        let fake = FakeModel::new().with_memory(memory).with_pace(Duration::from_micros(100));
        let model = batches.of(fake);
        let mut disk = OnDisk::with(&model, small_batches());
        let story = tokens(&model, &user(&"hello ".repeat(60)));
        let first = ask(&disk.engine, request("chat", &story, 20));

        let (_turn, paused) = batches.first_of(&disk.engine, cold(&story));
        let engine = Engine::clone(&disk.engine);
        let stops = std::thread::spawn(move || engine.shutdown());
        until("it is told to stop", || disk.engine.is_stopping());
        drop(paused);
        assert!(stops.join().unwrap());
        disk.restart();
        assert_eq!(record(disk.path()).tokens, first.timeline, "{memory}");

        let prompt = then(&model, &first.timeline, "and now?");
        let report = ask(&disk.engine, request("chat", &prompt, 20)).report;
        assert_eq!(report.tokens.disk, first.timeline.len(), "{memory}: {report:?}");
    }
}

#[test]
fn a_prefill_after_an_abandoned_restore_leaves_the_record_whole() {
    for memory in MEMORIES {
        let batches = MicroBatches::default();
        let model = batches.of(FakeModel::new().with_memory(memory));
        let (disk, directory) = (Arc::new(RiggedDisk::default()), tempfile::tempdir().unwrap());
        let engine = on(&disk, directory.path(), &model, small_batches());
        let story = tokens(&model, &user(&"hello ".repeat(60)));
        let first = ask(&engine, request("chat", &story, 20));
        engine.shutdown();
        drop(engine);

        let engine = on(&disk, directory.path(), &model, impatient());
        disk.hold_readers.store(true, Ordering::SeqCst);
        let prompt = then(&model, &first.timeline, "and now?");
        batches.cancel_after_first(&engine, request("chat", &prompt, 20));
        disk.hold_readers.store(false, Ordering::SeqCst);
        settle(&engine);
        assert_eq!(status(&engine).counters.cancelled, 1, "{memory}");
        let saved = record(directory.path()).tokens;
        assert!(saved.starts_with(&first.timeline), "{memory}: {} tokens", saved.len());
        engine.shutdown();
        drop(engine);

        let engine = on(&disk, directory.path(), &model, options());
        let report = ask(&engine, request("chat", &prompt, 20)).report;
        assert!(report.tokens.disk >= first.timeline.len(), "{memory}: {report:?}");
        engine.shutdown();
    }
}

#[test]
fn a_turn_that_does_not_wait_for_the_record_leaves_the_class_that_was_asked_for() {
    let (model, disk) = (fake(), Arc::new(RiggedDisk::default()));
    let directory = tempfile::tempdir().unwrap();
    let engine = on(&disk, directory.path(), &model, small_batches());
    let story = tokens(&model, &user(&"hello ".repeat(60)));
    let keep = Retention { class: Some(TtlClass::Short), ..Retention::default() };
    let first = ask(&engine, TurnRequest { keep, ..request("chat", &story, 20) });
    engine.shutdown();
    drop(engine);

    let engine = on(&disk, directory.path(), &model, impatient());
    disk.hold_readers.store(true, Ordering::SeqCst);
    let prompt = then(&model, &first.timeline, "and now?");
    let report = ask(&engine, request("chat", &prompt, 20)).report;
    assert_eq!(report.tokens.disk, 0, "{report:?}");
    disk.hold_readers.store(false, Ordering::SeqCst);
    settle(&engine);
    engine.shutdown();
    assert_eq!(record(directory.path()).class, TtlClass::Short);
}

#[test]
fn a_shorter_answer_to_the_same_prompt_leaves_the_record_whole() {
    let model = slow(MemoryKind::Plain);
    let disk = OnDisk::new(&model);
    let story = tokens(&model, &user(&"hello ".repeat(60)));
    let long = endless("chat", &story, 60);
    let first = ask(&disk.engine, long.clone());
    settle(&disk.engine);
    let again = ask(&disk.engine, TurnRequest { max_tokens: 2, ..long });
    assert_eq!(again.tokens, first.tokens[..2]);
    settle(&disk.engine);
    let record = record(disk.path());
    assert_eq!((record.tokens, record.turns), (first.timeline.clone(), 2));

    let prompt = then(&model, &first.timeline, "and now?");
    let report = ask(&disk.engine, request("chat", &prompt, 2)).report;
    assert_eq!(report.tokens.computed, prompt.len() - first.timeline.len(), "{report:?}");
}

#[test]
fn a_prefix_that_is_hot_in_another_slot_leaves_its_longer_record_whole() {
    let model = slow(MemoryKind::Plain);
    let mut disk = OnDisk::new(&model);
    let rules = tokens(&model, &"You are a kettle. ".repeat(20));
    let prewarm = |tokens: usize| TurnRequest {
        purpose: Purpose::Prewarm,
        ..request("chat", &rules[..tokens], 0)
    };
    ask(&disk.engine, prewarm(rules.len()));
    disk.restart();
    ask(&disk.engine, request("another", &rules, 2));
    ask(&disk.engine, prewarm(100));
    disk.restart();
    assert_eq!(record(disk.path()).tokens, rules);
}
