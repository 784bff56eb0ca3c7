//! Admission and preemption: order, ids, room, and cancelled callers.

use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hob_runtime::backend::MemoryKind;
use hob_runtime::backend::fake::FakeModel;
use hob_runtime::heartbeat::Activity;
use hob_runtime::{Engine, EngineOptions, Model, Turn, TurnError, TurnEvent, TurnRequest};
use hob_slots::format::{Object, ObjectKind, SlotRecord};
use hob_slots::store::Store;
use hob_slots::{Payload, Token};

use crate::support::held::MicroBatches;
use crate::support::wait::{PATIENCE, until};
use crate::support::*;

/// Slow enough to be observed while it runs.
fn slow() -> Arc<dyn Model> {
    Arc::new(FakeModel::new().with_pace(Duration::from_millis(1)))
}

#[test]
fn an_anonymous_turn_cannot_collide_with_a_conversations_name() {
    let model = slow();
    let engine = engine(&model, None, options());
    let prompt = tokens(&model, &user("hello"));
    let endless = |name: &str| endless(name, &prompt, 40);
    let named = started(engine.submit(endless("anonymous-turn-1")).unwrap());
    let anonymous = TurnRequest { conversation: None, ..endless("any") };
    let anonymous = started(engine.submit(anonymous).unwrap());

    let names = status(&engine).slots.into_iter().filter_map(|slot| slot.conversation);
    assert_eq!(names.collect::<Vec<_>>(), [name("anonymous-turn-1")]);
    assert_eq!([named, anonymous].map(tokens_left), [40, 40]);
}

#[test]
fn a_preempted_turn_waits_for_the_end_of_another_one() {
    let batches = MicroBatches::default();
    let model = batches.of(FakeModel::new());
    let engine = engine(&model, None, tight());
    let (first, paused) = batches.first_of(&engine, long(&model, 0));
    let [second, third] = [1, 2].map(|n| engine.submit(long(&model, n)).unwrap());
    drop(paused);
    let turns = [first, second, third];
    let answers = turns.map(|turn| finish(turn).unwrap());

    let counters = status(&engine).counters;
    assert!((1..=3).contains(&counters.preempted), "not again and again: {counters:?}");
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer.tokens, answered_alone(&model, long(&model, n)));
        assert_eq!(answer.report.tokens.prompt(), long(&model, n).prompt.len());
    }
}

#[test]
fn regenerate_computes_one_micro_batch_also_after_the_answer_gave_its_cells_to_another_turn() {
    for memory in [MemoryKind::Windowed, MemoryKind::Hybrid, MemoryKind::Recurrent] {
        let batches = MicroBatches::default();
        let model = batches.of(FakeModel::new().with_memory(memory));
        let engine = engine(&model, None, tight());
        let turns = both_begun(&batches, &engine);
        assert_eq!(turns.map(tokens_left), [50, 50], "{memory}");
        assert!(status(&engine).counters.preempted > 0, "{memory}: one of them waited for room");
        settle(&engine);
        let report = ask(&engine, long(&model, 1)).report; // The younger one has waited.
        assert!(report.tokens.computed <= tight().micro_batch, "{memory}: {report:?}");
    }
}

#[test]
fn turns_of_one_conversation_keep_their_order_when_the_first_is_preempted() {
    let batches = MicroBatches::default();
    let model = batches.of(FakeModel::new());
    let engine = engine(&model, None, tight());
    let (_first, paused) = batches.first_of(&engine, long(&model, 0));
    let mut preempted = engine.submit(long(&model, 1)).unwrap();
    let follows = engine.submit(request("chat 1", &long(&model, 2).prompt, 1)).unwrap();
    drop(paused);
    assert_eq!(tokens_left(follows), 1);
    let mut told = Context::from_waker(Waker::noop());
    let mut event_without_waiting = || pin!(preempted.next()).poll(&mut told);
    let mut tokens = 0;
    while let Poll::Ready(Some(event)) = event_without_waiting() {
        tokens += usize::from(matches!(event, TurnEvent::Token { .. }));
    }
    assert_eq!(tokens, 50);
    assert!(event_without_waiting().is_ready(), "it has ended before");
    assert!(status(&engine).counters.preempted > 0, "one of them waited for room");
}

#[test]
fn the_restore_of_a_prompt_that_gave_up_its_cells_is_timed_from_its_start_in_the_next_slot() {
    let batches = MicroBatches::default();
    // Slow enough that the second turn waits longer than a restore takes.
    let model = batches.of(FakeModel::new().with_pace(Duration::from_millis(1)));
    let engine = engine(&model, None, EngineOptions { context_tokens: 1024, ..tight() });
    let prompt = |n: usize, len: usize| -> Vec<Token> {
        long(&model, n).prompt.into_iter().cycle().take(len).collect()
    };
    let first = TurnRequest { drafts: false, ..endless("first", &prompt(0, 100), 500) };
    let (first, paused) = batches.first_of(&engine, first);
    let second = engine.submit(endless("second", &prompt(1, 950), 1)).unwrap();
    drop(paused);
    assert_eq!(tokens_left(first), 500);
    let report = finish(second).unwrap().report;
    assert!(status(&engine).counters.preempted > 0, "it waited for room");
    assert!(report.restore_ms < report.ttft_ms / 2.0, "{report:?}");
}

#[test]
fn a_turn_that_is_cancelled_while_it_waits_for_cells_leaves_no_mark_of_a_crash() {
    let (fast, batches) = (fake(), MicroBatches::default());
    let model = batches.of(FakeModel::new().with_pace(Duration::from_millis(1)));
    let directory = tempfile::tempdir().unwrap();
    let before = engine(&fast, Some(directory.path()), options());
    for n in [0, 1] {
        ask(&before, long(&fast, n));
    }
    before.shutdown();
    drop(before);

    let engine = engine(&model, Some(directory.path()), tight());
    let first = TurnRequest { max_tokens: 120, ..long(&model, 0) };
    let (first, paused) = batches.first_of(&engine, first);
    let preempted = engine.submit(long(&model, 1)).unwrap();
    drop(paused);
    let preempted = started(preempted);
    until("they do not fit the cache", || status(&engine).counters.preempted > 0);
    drop(preempted);
    assert_eq!(tokens_left(first), 120);
    settle(&engine);
    let marks = directory.path().join(FINGERPRINT.to_string()).join("crashes");
    let marks = || std::fs::read_dir(&marks).map_or(0, Iterator::count);
    until("a thread of its own has removed them", || marks() == 0);
}

#[test]
fn a_turn_cancelled_while_it_restores_loses_no_saved_tokens() {
    let model: Arc<dyn Model> = Arc::new(FakeModel::new());
    let directory = tempfile::tempdir().unwrap();
    let before = engine(&model, Some(directory.path()), options());
    let system = "<|im_start|>system\nA long and careful instruction.<|im_end|>\n".repeat(3);
    let story = format!("{system}{}", user(&"a long story ".repeat(30)));
    let saved = ask(&before, request("chat", &tokens(&model, &story), 20)).timeline;
    before.shutdown();

    for micros in (0..400).step_by(20) {
        let after = engine(&model, Some(directory.path()), options());
        // Makes a prefix of the conversation hot.
        ask(&after, request("other", &tokens(&model, &system), 1));
        let prompt = then(&model, &saved, "go on");
        let cancelled = after.submit(request("chat", &prompt, 5)).unwrap();
        std::thread::sleep(Duration::from_micros(micros));
        drop(cancelled);
        if micros % 40 == 0 {
            let report = ask(&after, request("chat", &prompt, 1)).report;
            assert!(report.tokens.computed <= prompt.len() - saved.len(), "{report:?}");
        }
        after.shutdown();
    }
}

#[test]
fn a_turn_cancelled_while_the_disk_does_not_answer_gives_its_slot_to_the_one_that_waits() {
    let model = fake();
    let mut world = OnDisk::new(&model);
    let story = tokens(&model, &user(&"a long story ".repeat(9)));
    let saved = ask(&world.engine, request("chat", &story, 4)).timeline;
    let hour = Duration::from_secs(3600);
    world.restart_with(EngineOptions { slots: 1, restore_patience: hour, ..options() });

    // While maintenance removes objects, none is read.
    let ((busy, is_busy), (release, is_released)) = (mpsc::channel(), mpsc::channel::<()>());
    let engine = Engine::clone(&world.engine);
    let maintenance = std::thread::spawn(move || {
        block_on(engine.maintain(move |store, live_refs| {
            let objects = store.object_files(FINGERPRINT).unwrap().into_iter().collect();
            live_refs.with_unreferenced(store, FINGERPRINT, objects, &mut |_| {
                busy.send(()).unwrap_or(());
                is_released.recv().unwrap_or(());
            });
        }))
    });
    is_busy.recv().unwrap();
    let cancelled =
        world.engine.submit(request("chat", &then(&model, &saved, "go on"), 4)).unwrap();
    let anonymous = TurnRequest { conversation: None, ..request("any", &story[..1], 1) };
    let waits = world.engine.submit(anonymous).unwrap(); // A token is looked for nowhere.
    until("one waits", || status(&world.engine).waiting > 0);
    until("the engine's thread sleeps again", || world.engine.activity() == Activity::Waiting);
    drop(cancelled);
    let (done, answer) = mpsc::channel();
    std::thread::spawn(move || done.send(finish(waits).is_ok()));
    assert_eq!(answer.recv_timeout(PATIENCE), Ok(true));
    drop(release);
    maintenance.join().unwrap().unwrap();
}

#[test]
fn a_longer_saved_prefix_replaces_a_shorter_hot_one() {
    for memory in [MemoryKind::Plain, MemoryKind::Recurrent] {
        let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_memory(memory));
        let engine = engine(&model, None, EngineOptions { slots: 1, ..options() });
        let story = tokens(&model, &user(&"a long story ".repeat(9)));
        let saved = ask(&engine, request("chat", &story, 20)).timeline;
        let anonymous = request("any", &story[..30], 0);
        ask(&engine, TurnRequest { conversation: None, ..anonymous });

        let prompt = then(&model, &saved, "go on");
        let report = ask(&engine, request("chat", &prompt, 5)).report;
        assert_eq!(report.tokens.computed, prompt.len() - saved.len(), "{memory}: {report:?}");
        assert_eq!(report.tokens.prompt(), prompt.len(), "{memory}: {report:?}");
        assert_eq!(status(&engine).counters.wasted_restores, 0);
    }
}

#[test]
fn a_restore_evicts_as_many_idle_conversations_as_it_needs() {
    for memory in [MemoryKind::Plain, MemoryKind::Recurrent] {
        let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_memory(memory));
        let engine = engine(&model, None, tight());
        let saved = ask(&engine, TurnRequest { max_tokens: 80, ..long(&model, 0) }).timeline;
        block_on(engine.park(name("chat 0")));
        for n in [1, 2] {
            ask(&engine, TurnRequest { max_tokens: 10, ..long(&model, n) });
        }

        let prompt = then(&model, &saved, "go on");
        let report = ask(&engine, request("chat 0", &prompt, 2)).report;
        assert_eq!(report.tokens.computed, prompt.len() - saved.len(), "{memory}: {report:?}");
        assert_eq!(status(&engine).counters.import_failures, 0);
    }
}

#[test]
fn a_refused_state_parks_nobody_where_conversations_share_cells() {
    let model: Arc<dyn Model> = Arc::new(FakeModel::new());
    let directory = tempfile::tempdir().unwrap();
    let story = tokens(&model, &user(&"a long story ".repeat(9)));
    // Without memory, none is parked beside others.
    let roomy =
        EngineOptions { context_tokens: 500, slots: 4, memory_budget_bytes: 0, ..options() };
    {
        let before = engine(&model, Some(directory.path()), roomy.clone());
        let first = ask(&before, request("refused", &story, 4));
        before.shutdown();
        drop(before);
        let record = refuse(directory.path(), ObjectKind::Block);
        assert_eq!(record.tokens, first.timeline);
    }
    let engine = engine(&model, Some(directory.path()), roomy);
    let rules = tokens(&model, &"You are a kettle. ".repeat(10));
    for n in 0..3 {
        let prompt = [&rules[..], &tokens(&model, &format!("number {n}"))].concat();
        ask(&engine, request(&format!("chat {n}"), &prompt, 2));
        settle(&engine);
    }
    let prompt = then(&model, &story, "go on");
    let report = ask(&engine, request("refused", &prompt, 2)).report;
    let status = status(&engine);
    assert_eq!(status.counters.import_failures, 1, "{report:?}");
    assert_eq!(status.counters.parked, 0, "{status:?}");
    assert!(status.used_tokens < 500, "{status:?}");
    engine.shutdown();
}

#[test]
fn a_refused_rest_parks_nobody() {
    let model = of_memory(MemoryKind::Hybrid);
    let directory = tempfile::tempdir().unwrap();
    let tight = EngineOptions { context_tokens: 400, memory_budget_bytes: 0, ..options() };
    let before = engine(&model, Some(directory.path()), tight.clone());
    let story = tokens(&model, &user(&"a long story ".repeat(9)));
    let first = ask(&before, request("refused", &story, 4)).timeline;
    before.shutdown();
    drop(before);
    refuse(directory.path(), ObjectKind::Partial);

    let engine = engine(&model, Some(directory.path()), tight);
    let other = tokens(&model, &user(&"another tale ".repeat(9)));
    ask(&engine, request("other", &other, 2));
    settle(&engine);
    let prompt = then(&model, &first, "go on");
    let report = ask(&engine, request("refused", &prompt, 2)).report;
    assert_eq!(report.tokens.computed, prompt.len(), "{report:?}");
    let status = status(&engine);
    assert_eq!(status.counters.import_failures, 1, "{report:?}");
    assert_eq!(status.counters.parked, 0, "{status:?}");
}

#[test]
fn a_disk_that_refuses_writes_blocks_no_turn() {
    for memory in [MemoryKind::Plain, MemoryKind::Recurrent] {
        let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_memory(memory));
        let directory = tempfile::tempdir().unwrap();
        let no_place = directory.path().join(FINGERPRINT.to_string());
        std::fs::write(no_place, "a file where a directory should be").unwrap();
        let options = EngineOptions { memory_budget_bytes: 0, ..options() };
        let engine = engine(&model, Some(directory.path()), options);
        let prompt = tokens(&model, &user(&"a long story ".repeat(150)));
        let first = ask(&engine, request("chat", &prompt, 20));
        block_on(engine.park(name("chat")));
        let second = ask(&engine, request("chat", &prompt, 20));
        assert_eq!(first.tokens, second.tokens, "{memory}");
        assert!(status(&engine).counters.write_errors > 0, "{memory}");
        engine.shutdown();
    }
}

#[test]
fn a_turn_submitted_while_the_engine_stops_fails_with_stopped() {
    let model = slow();
    let engine = engine(&model, None, options());
    let stopping = engine.clone();
    let stopping = std::thread::spawn(move || stopping.shutdown());
    while let Ok(turn) = engine.submit(request("chat", &[Token(65)], 1)) {
        finish(turn).map_or_else(|error| assert_eq!(error, TurnError::Stopped), drop);
    }
    stopping.join().unwrap();
}

/// Room for one long turn and a half.
fn tight() -> EngineOptions {
    EngineOptions { context_tokens: 256, slots: 3, micro_batch: 64, ..options() }
}

/// Turn `n`, of 150 cells.
fn long(model: &Arc<dyn Model>, n: usize) -> TurnRequest {
    let prompt = tokens(model, &"0123456789".repeat(10).replace('0', &n.to_string()));
    endless(&format!("chat {n}"), &prompt, 50)
}

/// The first two such turns, of which the second one comes while the prompt of the first one is computed.
fn both_begun(batches: &MicroBatches, engine: &Engine) -> [Turn; 2] {
    let (first, paused) = batches.first_of(engine, long(engine.model(), 0));
    let second = engine.submit(long(engine.model(), 1)).unwrap();
    drop(paused);
    [first, second].map(started)
}

/// The turn, once its prompt is computed.
fn started(mut turn: Turn) -> Turn {
    let first = turn.next_blocking();
    assert!(matches!(first, Some(TurnEvent::Started(_))), "{first:?}");
    turn
}

/// The number of tokens that a turn still generates.
fn tokens_left(mut turn: Turn) -> usize {
    let events = std::iter::from_fn(|| turn.next_blocking());
    events.filter(|event| matches!(event, TurnEvent::Token { .. })).count()
}

/// Gives the saved objects of `kind` of the conversation "refused" states that the backend refuses. Returns its record.
fn refuse(directory: &std::path::Path, kind: ObjectKind) -> SlotRecord {
    let store = Store::open(directory).unwrap();
    let record = store.get_slot(FINGERPRINT, &name("refused")).unwrap();
    let blocks = record.blocks.iter().map(|block| (block.id, ObjectKind::Block));
    let rests = record.snapshots.iter().map(|snapshot| (snapshot.id, ObjectKind::Partial));
    let read = |(id, kind)| (id, store.get_object(FINGERPRINT, id, kind).unwrap());
    let objects: Vec<_> = blocks.chain(rests).map(read).collect();
    for file in files::with_extensions(directory, &["kv"]) {
        std::fs::remove_file(file).unwrap();
    }
    for (id, object) in objects {
        let refused = Object { payload: Payload::from(vec![1; 7]), ..object.clone() };
        let object = if object.kind == kind { refused } else { object };
        store.put_object(FINGERPRINT, id, &object).unwrap();
    }
    record
}
