//! Unloading and reloading the weights.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hob_runtime::backend::fake::FakeModel;
use hob_runtime::{Model, Purpose, Residency, TurnError, TurnRequest};

use crate::support::held::MicroBatches;
use crate::support::{
    ask, block_on, endless, engine, fake, finish, name, options, request, status, then, tokens,
    user,
};

#[test]
fn hot_conversations_are_restored_after_a_reload() {
    let model = fake();
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(&model, Some(directory.path()), options());
    let first = ask(&engine, request("chat", &tokens(&model, &user("hello")), 20));
    for _ in 0..2 {
        assert!(block_on(engine.unload()));
        assert_eq!(status(&engine).residency, Residency::Unloaded);
        assert_eq!(*engine.residency().borrow(), Residency::Unloaded);
        let parked: Vec<_> = status(&engine).parked;
        assert_eq!(parked.len(), 1);
        assert_eq!(
            (&parked[0].conversation, parked[0].tokens),
            (&name("chat"), first.timeline.len())
        );
    }
    let prompt = then(&model, &first.timeline, "and now?");
    let answer = ask(&engine, request("chat", &prompt, 20));
    let counts = answer.report.tokens;
    assert_eq!(counts.computed, prompt.len() - first.timeline.len(), "{:?}", answer.report);
    assert_eq!(*engine.residency().borrow(), Residency::Resident);
    let alone = crate::support::engine(&fake(), None, options());
    assert_eq!(answer.tokens, ask(&alone, request("chat", &prompt, 20)).tokens);
    assert_eq!(status(&engine).counters.turns, 2, "counters survive");
}

#[test]
fn what_has_left_the_cells_of_a_conversation_is_no_longer_held_in_memory_after_unloading() {
    let model = fake();
    let engine = engine(&model, None, options());
    let text: String = (0..100).map(|n| format!("word {n} ")).collect();
    let prompt = tokens(&model, &user(&text));
    let within = TurnRequest { budget: Some(400), ..request("chat", &prompt, 8) };
    let answer = ask(&engine, within);
    assert!(answer.cells.resident < answer.timeline.len() - 1, "{:?}", answer.cells);
    assert!(block_on(engine.unload()));
    block_on(engine.forget(name("chat"))).unwrap();
    assert_eq!(status(&engine).memory_bytes, 0);
}

#[test]
fn the_map_does_not_name_a_conversation_that_was_deleted_while_the_weights_were_unloaded() {
    let model = fake();
    let engine = engine(&model, None, options());
    ask(&engine, request("chat", &tokens(&model, &user("hello")), 8));
    assert!(block_on(engine.unload()));
    let left = || block_on(engine.map()).unwrap().left.into_iter().map(|left| left.conversation);
    assert!(left().any(|conversation| conversation == Some(name("chat"))));
    let changes = engine.changes();
    let before = *changes.borrow();
    block_on(engine.forget(name("chat"))).unwrap();
    assert!(left().all(|conversation| conversation.is_none()));
    assert!(*changes.borrow() > before, "watchers of the map read it again");
}

#[test]
fn a_running_turn_prevents_unloading() {
    let batches = MicroBatches::default();
    let model = batches.of(FakeModel::new());
    let engine = engine(&model, None, options());
    let endless = endless("chat", &tokens(&model, "hi"), 100);
    let (turn, paused) = batches.first_of(&engine, endless);
    let (unloaded, paused) = paused.reply(engine.unload());
    assert!(!unloaded);
    drop(paused);
    assert_eq!(finish(turn).unwrap().tokens.len(), 100);
    assert!(block_on(engine.unload()));
}

#[test]
fn only_an_answer_a_speculation_or_load_reloads_the_weights() {
    let model = fake();
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(&model, Some(directory.path()), options());
    let prompt = tokens(&model, &user("hello"));
    ask(&engine, request("gone", &prompt, 5));
    assert!(block_on(engine.unload()));
    let prewarm = TurnRequest { purpose: Purpose::KeepAlive, ..request("prefix", &prompt, 0) };
    assert_eq!(finish(engine.submit(prewarm).unwrap()).unwrap_err(), TurnError::NotResident);
    block_on(engine.park(name("gone")));
    block_on(engine.forget(name("gone"))).unwrap();
    block_on(engine.maintain(|_, _| ())).unwrap(); // Waits for the writer.
    assert_eq!(status(&engine).waiting, 0);
    assert_eq!(status(&engine).residency, Residency::Unloaded, "none of these needs the weights");

    let speech = TurnRequest { purpose: Purpose::Speculate, ..request("gone", &prompt, 0) };
    let counts = ask(&engine, speech).report.tokens;
    assert_eq!((counts.computed, counts.cached()), (prompt.len(), 0), "it was forgotten");
    assert_eq!(status(&engine).residency, Residency::Resident);
    assert!(block_on(engine.unload()));
    // Who frees them right behind the load does not make it a failed one.
    let both = async { tokio::join!(engine.loaded(), engine.unload()) };
    assert_eq!(block_on(both), (Ok(()), true));
    assert_eq!(status(&engine).residency, Residency::Unloaded);
    block_on(engine.loaded()).unwrap();
    assert_eq!(status(&engine).residency, Residency::Resident);
}

/// As where another program has taken a device's memory since the weights left it.
#[test]
fn weights_of_which_no_context_could_be_made_are_freed_too() {
    let lacks_memory = Arc::new(AtomicBool::new(false));
    let fake = FakeModel::new().with_lack_of_memory(lacks_memory.clone());
    let model: Arc<dyn Model> = Arc::new(fake);
    let engine = engine(&model, None, options());
    assert!(block_on(engine.unload()));
    lacks_memory.store(true, Ordering::SeqCst);
    let hello = || request("chat", &tokens(&model, &user("hello")), 5);
    let error = finish(engine.submit(hello()).unwrap()).unwrap_err();
    assert!(matches!(error, TurnError::Backend(_)), "{error}");
    assert_eq!(*engine.residency().borrow(), Residency::Resident);
    assert!(block_on(engine.unload()));
    assert_eq!(*engine.residency().borrow(), Residency::Unloaded);
    lacks_memory.store(false, Ordering::SeqCst);
    ask(&engine, hello());
    assert_eq!(*engine.residency().borrow(), Residency::Resident);
}

#[test]
fn the_processor_computes_a_model_that_has_no_room_for_a_context_on_the_chosen_device() {
    let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_full_device());
    assert!(model.offload().is_some());
    let engine = engine(&model, None, options());
    let hello = || request("chat", &tokens(&model, &user("hello")), 5);
    for load in ["the first", "a reload, which chooses the device again"] {
        assert!(!ask(&engine, hello()).tokens.is_empty(), "{load}");
        assert_eq!(model.offload(), None, "{load}");
        assert_eq!(*engine.residency().borrow(), Residency::Resident, "{load}");
        assert!(block_on(engine.unload()));
    }
}

#[test]
fn an_engine_reports_its_status_while_the_weights_load() {
    let step = Duration::from_secs(1); // A load has three.
    let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_pace(step));
    let engine = engine(&model, None, options());
    ask(&engine, request("chat", &tokens(&model, "hi"), 0));
    assert!(block_on(engine.unload()));
    engine.load();
    while !matches!(*engine.residency().borrow(), Residency::Loading { .. }) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let status = status(&engine);
    assert!(matches!(status.residency, Residency::Loading { .. }), "{:?}", status.residency);
    let parked: Vec<_> = status.parked.iter().map(|saved| saved.tokens).collect();
    assert_eq!((parked, status.counters.turns), (vec![2], 1));
}

#[test]
fn maintenance_goes_on_while_the_weights_load() {
    let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_pace(Duration::from_secs(2)));
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(&model, Some(directory.path()), options());
    assert!(block_on(engine.unload()));
    engine.load();
    while !matches!(*engine.residency().borrow(), Residency::Loading { .. }) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let residency = engine.residency();
    let during = block_on(engine.maintain(move |_, _| *residency.borrow())).unwrap();
    assert!(matches!(during, Residency::Loading { .. }), "{during:?}");
}

#[test]
fn an_engine_without_weights_stops_at_once() {
    let model = fake();
    let engine = engine(&model, None, options());
    assert!(block_on(engine.unload()));
    engine.shutdown();
    let late = engine.submit(request("chat", &tokens(&model, "hi"), 1)).map(finish);
    assert!(matches!(late, Err(TurnError::Stopped) | Ok(Err(TurnError::Stopped))));
}
