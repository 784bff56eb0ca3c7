//! Turns beside one whose blocks must leave its cells while the writer does something else.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hob_runtime::backend::fake::FakeModel;
use hob_runtime::heartbeat::Activity;
use hob_runtime::{
    Engine, EngineOptions, Model, Purpose, SlotState, SlotStatus, Turn, TurnError, TurnRequest,
};

use crate::drafts::FILE;
use crate::support::wait::{PATIENCE, until};
use crate::support::*;

/// Two or three blocks fill the budget of what waits for the disk.
fn narrow() -> EngineOptions {
    EngineOptions {
        unsaved_budget_bytes: 3_000,
        disk_patience: Duration::from_secs(600),
        ..options()
    }
}

/// A writer that does not write before it is released.
pub struct Busy {
    release: mpsc::Sender<()>,
    maintenance: JoinHandle<Result<(), TurnError>>,
}

impl Busy {
    pub fn writer_of(engine: &Engine) -> Self {
        let (busy, is_busy) = mpsc::channel();
        let (release, is_released) = mpsc::channel::<()>();
        let engine = engine.clone();
        let maintenance = std::thread::spawn(move || {
            block_on(engine.maintain(move |_, _| {
                busy.send(()).unwrap_or(());
                is_released.recv().unwrap_or(());
            }))
        });
        is_busy.recv().unwrap();
        Self { release, maintenance }
    }

    pub fn release(self) {
        drop(self.release);
        self.maintenance.join().unwrap().unwrap();
    }
}

fn until_a_slot(engine: &Engine, what: &str, is_so: impl Fn(&SlotStatus) -> bool) {
    until(what, || status(engine).slots.iter().any(&is_so));
}

/// A turn whose prompt has as many cells as its budget, and waits for the disk.
pub fn waiting(engine: &Engine, model: &Arc<dyn Model>) -> Turn {
    let long = tokens(model, &"word ".repeat(300));
    let within = TurnRequest { budget: Some(400), ..request("long", &long, 4) };
    let waits = engine.submit(within).unwrap();
    until_a_slot(engine, "its prompt fills its budget", |slot| {
        slot.state == SlotState::Prefill && slot.tokens == slot.away_tokens + 400
    });
    waits
}

#[test]
fn a_background_turn_is_computed_while_the_prompt_of_an_answer_waits_for_the_disk() {
    let model = fake();
    let world = OnDisk::with(&model, narrow());
    let busy = Busy::writer_of(&world.engine);
    let waits = waiting(&world.engine, &model);
    for purpose in [Purpose::Speculate, Purpose::Prewarm] {
        let ahead = tokens(&model, &user(&format!("{purpose:?} this")));
        let ahead = TurnRequest::prefill(name(&format!("{purpose:?}")), ahead, purpose);
        let ahead = world.engine.submit(ahead).unwrap();
        let (send, computed) = mpsc::channel();
        std::thread::spawn(move || send.send(finish(ahead)).is_ok());
        let computed = computed.recv_timeout(PATIENCE);
        computed.expect("it has rows").expect("it is computed");
    }
    drop(waits);
    busy.release();
}

/// Where the speculation is admitted, the engine waits for the writer, and then drops what it cannot save.
#[test]
fn words_typed_behind_an_answer_that_waits_for_the_disk_wait_with_it() {
    let model = fake();
    let world = OnDisk::with(&model, narrow());
    let busy = Busy::writer_of(&world.engine);
    let prompt = tokens(&model, &user(&"word ".repeat(300)));
    let said = ask(&world.engine, request("chat", &prompt, 4)).timeline;
    let typed = then(&model, &said, "and what");
    let typed = TurnRequest::prefill(name("chat"), typed, Purpose::Speculate);
    let typed = world.engine.submit(typed).unwrap();
    let other = world.engine.submit(request("other", &tokens(&model, "hello"), 4)).unwrap();
    finish(other).unwrap();
    busy.release();
    finish(typed).unwrap();
    assert_eq!(status(&world.engine).counters.dropped_tokens, 0);
}

#[test]
fn an_answer_is_drafted_while_the_prompt_of_another_turn_waits_for_the_disk() {
    let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_copies());
    let world = OnDisk::with(&model, narrow());
    let busy = Busy::writer_of(&world.engine);
    let waits = waiting(&world.engine, &model);
    let (_, drafts) = events(&world.engine, endless("copy", &tokens(&model, &user(FILE)), 200));
    assert!(drafts.accepted > 50, "{drafts:?}");
    drop(waits);
    busy.release();
}

#[test]
fn the_last_token_of_an_answer_is_computed_while_the_prompt_of_another_turn_waits_for_the_disk() {
    let model = fake();
    let world = OnDisk::with(&model, narrow());
    let busy = Busy::writer_of(&world.engine);
    let long = tokens(&model, &"word ".repeat(300));
    let within = TurnRequest { budget: Some(400), ..request("long", &long, 4) };
    let waits = world.engine.submit(within).unwrap();
    until_a_slot(&world.engine, "its prompt is computed", |slot| slot.state == SlotState::Prefill);
    let answer = ask(&world.engine, endless("short", &tokens(&model, "hello"), 2));
    until_a_slot(&world.engine, "the last token is computed", |slot| {
        slot.conversation == Some(name("short")) && slot.tokens == answer.timeline.len()
    });
    drop(waits);
    busy.release();
}

/// The older turn needs the cells of the one that waits, and outlasts the patience with the disk: so many tokens take
/// two seconds at least.
#[test]
fn a_turn_that_gave_up_its_cells_while_it_waited_for_the_disk_waits_anew() {
    let fake = FakeModel::new().with_pace(Duration::from_micros(500));
    let model: Arc<dyn Model> = Arc::new(fake);
    let patience = Duration::from_millis(1_500);
    let small = EngineOptions { context_tokens: 600, disk_patience: patience, ..narrow() };
    let world = OnDisk::with(&model, small);
    let busy = Busy::writer_of(&world.engine);
    // What leaves its cells stays in memory.
    let unnamed = TurnRequest {
        conversation: None,
        drafts: false,
        ..endless("unnamed", &tokens(&model, "hello"), 4_000)
    };
    let older = world.engine.submit(unnamed).unwrap();
    let long = tokens(&model, &"word ".repeat(300));
    let within = TurnRequest { budget: Some(400), ..request("long", &long, 4) };
    let waits = world.engine.submit(within).unwrap();
    let (send, answered) = mpsc::channel();
    std::thread::spawn(move || send.send(finish(waits)).is_ok());
    assert_eq!(finish(older).unwrap().tokens.len(), 4_000);
    assert_eq!(status(&world.engine).counters.preempted, 1);
    until_a_slot(&world.engine, "it fills its budget again", |slot| {
        slot.state == SlotState::Prefill && slot.tokens == slot.away_tokens + 400
    });
    busy.release();
    answered.recv().unwrap().expect("the disk takes its blocks");
}

#[test]
fn a_conversation_leaves_its_slot_once_it_is_saved_also_beside_an_answer_that_waits_for_the_disk() {
    let model = fake();
    let world = OnDisk::with(&model, narrow());
    let busy = Busy::writer_of(&world.engine);
    let prompt = tokens(&model, &"word ".repeat(60));
    let within = TurnRequest { budget: Some(400), ..endless("long", &prompt, 1_000) };
    let waits = world.engine.submit(within).unwrap();
    until_a_slot(&world.engine, "its answer fills its budget", |slot| {
        slot.state == SlotState::Decoding && slot.tokens == slot.away_tokens + 400
    });
    ask(&world.engine, endless("short", &tokens(&model, "hello"), 2));
    let third = world.engine.submit(endless("third", &tokens(&model, "bye"), 2)).unwrap();
    let (send, answered) = mpsc::channel();
    std::thread::spawn(move || send.send(finish(third)).is_ok());
    // The engine waits for the writer, for 5 s at most. One that does not has dropped KV when it answers.
    let (end, mut early) = (Instant::now() + PATIENCE, None);
    while early.is_none() && world.engine.activity() != Activity::Flushing {
        assert!(Instant::now() < end, "it waits or answers");
        early = answered.recv_timeout(Duration::from_millis(1)).ok();
    }
    busy.release();
    early.unwrap_or_else(|| answered.recv().unwrap()).expect("it gets the slot");
    assert_eq!(status(&world.engine).counters.dropped_tokens, 0);
    drop(waits);
}
