//! Deleting a hint with its copies, while turns use them.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hob_runtime::backend::fake::FakeModel;
use hob_runtime::{Engine, EngineOptions, Model, SlotState, Turn, TurnError, TurnEvent};
use hob_slots::store::StoreReader;
use hob_slots::{ConversationId, ModelHash};

use crate::support::held::MicroBatches;
use crate::support::wait::until;
use crate::support::*;
use crate::write_behind::rigged_disk::{RiggedDisk, on};

const HINT: &str = "__key__:seg:a";

/// Of another model, whose directory comes before that of [`FINGERPRINT`]: only the search for copies lists it.
const EARLIER: ModelHash = ModelHash(*b"A model!");

/// The same, behind it.
const LATER: ModelHash = ModelHash(*b"z model!");

fn second() -> ConversationId {
    name(HINT).copy(2)
}

fn slow(batches: &MicroBatches) -> Arc<dyn Model> {
    batches.of(FakeModel::new().with_pace(Duration::from_millis(1)))
}

/// Two turns of the hint at the same time, each in a copy of its own: neither is computed before both are submitted.
fn two_turns(batches: &MicroBatches, engine: &Engine, max_tokens: usize) -> [Turn; 2] {
    let prompt = tokens(engine.model(), &user("a text that two of them read at once"));
    let _paused = batches.pause();
    [0, 1].map(|_| engine.submit(endless(HINT, &prompt, max_tokens)).unwrap())
}

fn until_answers(turn: &mut Turn) {
    while !matches!(turn.next_blocking().expect("it runs"), TurnEvent::Token { .. }) {}
}

fn failure_of(mut turn: Turn) -> Option<TurnError> {
    std::iter::from_fn(|| turn.next_blocking()).find_map(|event| match event {
        TurnEvent::Failed(error) => Some(error),
        _ => None,
    })
}

/// Deletes the hint on another thread, up to the moment when the search for its copies lists the directory of `model`.
fn forget_up_to(
    engine: &Engine,
    disk: &RiggedDisk,
    directory: &Path,
    model: ModelHash,
) -> JoinHandle<Result<(), TurnError>> {
    fs::create_dir(directory.join(model.to_string())).unwrap();
    *disk.hold_list_of.lock() = Some(model.to_string());
    let engine = engine.clone();
    let forgetting = thread::spawn(move || block_on(engine.forget_copies(name(HINT))));
    until("the writer lists the directory", || disk.is_held.load(Ordering::SeqCst));
    forgetting
}

fn saved(directory: &Path) -> Vec<ConversationId> {
    let saved = StoreReader::open(directory).unwrap().slots(FINGERPRINT).unwrap().slots;
    saved.into_iter().map(|slot| slot.conversation).collect()
}

#[test]
fn the_writer_thread_searches_for_copies_and_lists_the_models_once() {
    let batches = MicroBatches::default();
    let (model, disk) = (slow(&batches), Arc::new(RiggedDisk::default()));
    let directory = tempfile::tempdir().unwrap();
    let engine = on(&disk, directory.path(), &model, options());
    for turn in two_turns(&batches, &engine, 30) {
        finish(turn).unwrap();
    }
    settle(&engine);
    assert_eq!(saved(directory.path()).len(), 2, "each has a record");
    engine.shutdown();
    drop(engine);
    let engine = on(&disk, directory.path(), &model, options());

    disk.listed.lock().clear();
    *disk.barred.lock() = Some(thread::current().id());
    let forgotten = block_on(engine.forget_copies(name(HINT)));
    *disk.barred.lock() = None;
    assert_eq!(forgotten, Ok(()));
    assert_eq!(saved(directory.path()), []);
    let root = directory.path().file_name().unwrap();
    let listings = disk.listed.lock().iter().filter(|dir| dir.ends_with(root)).count();
    assert_eq!(listings, 3, "by the search, and by each of two deletions");
    engine.shutdown();
}

#[test]
fn a_copy_that_is_parked_while_the_disk_is_searched_is_forgotten() {
    let batches = MicroBatches::default();
    let (model, disk) = (slow(&batches), Arc::new(RiggedDisk::default()));
    let directory = tempfile::tempdir().unwrap();
    let engine = on(&disk, directory.path(), &model, options());
    let [mut first, mut other] = two_turns(&batches, &engine, 500);
    until_answers(&mut first);
    until_answers(&mut other);

    let forgetting = forget_up_to(&engine, &disk, directory.path(), EARLIER);
    drop(other);
    let has_ended = |state| matches!(state, SlotState::Free | SlotState::Idle);
    let all_ended = || status(&engine).slots.iter().all(|slot| has_ended(slot.state));
    until("no turn runs", all_ended);
    block_on(engine.park(name(HINT)));
    assert!(status(&engine).slots.iter().all(|slot| slot.state == SlotState::Free));
    *disk.hold_list_of.lock() = None;
    assert_eq!(forgetting.join().unwrap(), Ok(()));
    settle(&engine);
    assert_eq!(saved(directory.path()), []);
    engine.shutdown();
}

#[test]
fn a_copy_that_a_turn_restores_behind_the_search_is_forgotten() {
    let batches = MicroBatches::default();
    let (model, disk) = (slow(&batches), Arc::new(RiggedDisk::default()));
    let directory = tempfile::tempdir().unwrap();
    let engine = on(&disk, directory.path(), &model, options());
    for turn in two_turns(&batches, &engine, 30) {
        finish(turn).unwrap();
    }
    engine.shutdown();
    drop(engine);
    assert_eq!(saved(directory.path()).len(), 2, "each has a record");

    // No record is in memory.
    let engine = on(&disk, directory.path(), &model, options());
    let forgetting = forget_up_to(&engine, &disk, directory.path(), LATER);
    let mut turns = two_turns(&batches, &engine, 500);
    turns.iter_mut().for_each(until_answers);
    let is_hot = || {
        let slots = status(&engine).slots;
        slots.into_iter().any(|slot| slot.conversation == Some(second()))
    };
    assert!(is_hot());
    *disk.hold_list_of.lock() = None;
    assert_eq!(forgetting.join().unwrap(), Ok(()));
    assert!(!is_hot());
    drop(turns);
    settle(&engine);
    assert!(!saved(directory.path()).contains(&second()));
    engine.shutdown();
}

#[test]
fn a_directory_that_cannot_be_listed_hides_no_copy_in_another() {
    let batches = MicroBatches::default();
    let model = slow(&batches);
    let directory = tempfile::tempdir().unwrap();
    let first = engine(&model, Some(directory.path()), options());
    for turn in two_turns(&batches, &first, 30) {
        finish(turn).unwrap();
    }
    first.shutdown();
    drop(first);
    assert_eq!(saved(directory.path()).len(), 2, "each has a record");

    // No record is in memory.
    let engine = engine(&model, Some(directory.path()), options());
    let earlier = directory.path().join(EARLIER.to_string());
    fs::create_dir(&earlier).unwrap();
    fs::write(earlier.join("quarantine"), "no directory").unwrap();
    let forgotten = block_on(engine.forget_copies(name(HINT)));
    assert!(matches!(forgotten, Err(TurnError::NotForgotten(_))), "{forgotten:?}");
    assert_eq!(saved(directory.path()), []);
    engine.shutdown();
}

#[test]
fn a_copy_that_waits_for_cells_while_the_first_one_is_forgotten_is_forgotten_too() {
    let batches = MicroBatches::default();
    let (model, disk) = (slow(&batches), Arc::new(RiggedDisk::default()));
    let directory = tempfile::tempdir().unwrap();
    let tight = EngineOptions { context_tokens: 512, micro_batch: 64, ..options() };
    let engine = on(&disk, directory.path(), &model, tight);
    let [mut first, mut waits] = two_turns(&batches, &engine, 1_000_000);
    until_answers(&mut first);
    until_answers(&mut waits);
    until("one of them gives its cells to the other", || status(&engine).counters.preempted > 0);

    let forgetting = forget_up_to(&engine, &disk, directory.path(), EARLIER);
    assert_eq!(failure_of(first), Some(TurnError::Forgotten));
    let runs = || status(&engine).slots.iter().any(|slot| slot.conversation.is_some());
    until("the one that has waited runs in the cells of the other", runs);
    *disk.hold_list_of.lock() = None;
    assert_eq!(forgetting.join().unwrap(), Ok(()));
    assert!(!runs(), "no turn of the hint is left");
    assert_eq!(failure_of(waits), Some(TurnError::Forgotten));
    settle(&engine);
    assert_eq!(saved(directory.path()), []);
    engine.shutdown();
}
