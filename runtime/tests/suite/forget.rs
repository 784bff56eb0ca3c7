//! Deleting conversations, and the objects that they share with others.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hob_runtime::backend::fake::FakeModel;
use hob_runtime::backend::{MemoryKind, Row};
use hob_runtime::{EngineOptions, Model, Retention, Turn, TurnError, TurnEvent, TurnRequest};
use hob_slots::store::StoreReader;
use hob_slots::{AdjustedTime, Rules, SAVE_GRACE, Sweeper, Timestamp, Token, TtlClass};
use parking_lot::Mutex;

use crate::support::held::MicroBatches;
use crate::support::wait::until;
use crate::support::*;

fn slow(memory: MemoryKind) -> Arc<dyn Model> {
    Arc::new(FakeModel::new().with_memory(memory).with_pace(Duration::from_millis(1)))
}

#[test]
fn a_running_turn_keeps_the_objects_it_shares_with_a_forgotten_conversation() {
    for memory in [MemoryKind::Plain, MemoryKind::Recurrent] {
        let batches = MicroBatches::default();
        let model = batches.of(FakeModel::new().with_memory(memory));
        let directory = tempfile::tempdir().unwrap();
        let before = engine(&model, Some(directory.path()), options());
        let prompt = tokens(&model, &user(&"as one they begin ".repeat(10)));
        ask(&before, request("goes", &prompt, 5));
        let (stays, mut paused) = batches.first_of(&before, endless("stays", &prompt, 500));
        for _ in 0..20 {
            paused = paused.step(); // Generates a while.
        }
        let (forgotten, paused) = paused.reply(before.forget(name("goes")));
        forgotten.unwrap();
        assert_eq!(count(directory.path(), &["bin"]), 0);
        drop(paused);
        let timeline = finish_rest(stays);
        before.shutdown();

        let after = engine(&model, Some(directory.path()), options());
        let prompt = then(&model, &timeline, "go on");
        let report = ask(&after, request("stays", &prompt, 5)).report;
        assert_eq!(report.tokens.computed, prompt.len() - timeline.len(), "{memory}: {report:?}");
        assert_eq!(report.miss, None, "{memory}");
        after.shutdown();
    }
}

#[test]
fn what_turns_of_a_hint_have_saved_side_by_side_is_forgotten_with_it() {
    let batches = MicroBatches::default();
    let model = batches.of(FakeModel::new());
    let mut disk = OnDisk::new(&model);
    let hint = "__key__:seg:a";
    let prompt = tokens(&model, &user("a text that two of them read at once"));
    for restarts in [false, true] {
        let paused = batches.pause(); // Neither is computed before both are submitted.
        let turns = [20, 30].map(|most| disk.engine.submit(endless(hint, &prompt, most)).unwrap());
        drop(paused);
        turns.into_iter().for_each(|turn| drop(finish(turn).unwrap()));
        settle(&disk.engine);
        assert_eq!(count(disk.path(), &["bin"]), 2, "each has a record");
        if restarts {
            disk.restart();
        }
        block_on(disk.engine.forget_copies(name(hint))).unwrap();
        assert_eq!(count(disk.path(), &["bin"]), 0, "restarted: {restarts}");
    }
}

#[test]
fn what_has_left_a_running_turn_stays_although_it_was_saved_for_a_forgotten_conversation() {
    let model = slow(MemoryKind::Plain);
    let mut disk = OnDisk::new(&model);
    let prompt = tokens(&model, &user(&"as one they begin ".repeat(40)));
    ask(&disk.engine, request("goes", &prompt, 5));
    block_on(disk.engine.park(name("goes")));
    let budget = Some(400);
    let endless = TurnRequest { budget, ..endless("stays", &prompt, 100) };
    let mut stays = disk.engine.submit(endless).unwrap();
    while !matches!(stays.next_blocking().expect("it runs"), TurnEvent::Token { .. }) {}
    block_on(disk.engine.forget(name("goes"))).unwrap();
    let timeline = finish_rest(stays);
    settle(&disk.engine);
    disk.restart();

    let prompt = then(&model, &timeline, "go on");
    let again = TurnRequest { budget, ..request("stays", &prompt, 5) };
    let report = ask(&disk.engine, again).report;
    assert_eq!(report.tokens.computed, prompt.len() - timeline.len(), "{report:?}");
    // All that is away comes back where there is room.
    let prompt = then(&model, &prompt, "go on");
    let report = ask(&disk.engine, request("stays", &prompt, 5)).report;
    assert_eq!(report.away, [], "{report:?}");
}

#[test]
fn a_conversation_forgotten_while_it_runs_leaves_nothing_on_disk() {
    for memory in [MemoryKind::Plain, MemoryKind::Hybrid] {
        let model = slow(memory);
        let directory = tempfile::tempdir().unwrap();
        let engine = engine(&model, Some(directory.path()), options());
        let prompt = tokens(&model, &user(&"a secret ".repeat(20)));
        let endless = endless("chat", &prompt, 1_000_000);
        let running = engine.submit(endless).unwrap();
        until("a part of it is saved", || status(&engine).counters.written_bytes > 0);
        block_on(engine.forget(name("chat"))).unwrap();
        assert_eq!(finish(running).map(drop), Err(TurnError::Forgotten));
        engine.shutdown();
        assert_eq!(count(directory.path(), &["bin", "kv"]), 0, "{memory}");
    }
}

#[test]
fn a_conversation_keeps_its_newest_snapshots_and_no_others_on_disk() {
    let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_memory(MemoryKind::Recurrent));
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(&model, Some(directory.path()), options());
    let mut timeline = Vec::new();
    for _ in 0..12 {
        let prompt = then(&model, &timeline, "and then?");
        timeline = ask(&engine, request("chat", &prompt, 5)).timeline;
        block_on(engine.park(name("chat")));
    }
    engine.shutdown();
    let kept = count(directory.path(), &["kv"]);
    assert!(kept <= 8, "two turns of 2 snapshots, and those before the first was parked: {kept}");
}

#[test]
fn a_sweep_removes_only_unreferenced_objects() {
    let model: Arc<dyn Model> = Arc::new(FakeModel::new());
    let directory = tempfile::tempdir().unwrap();
    let before = engine(&model, Some(directory.path()), options());
    let story = tokens(&model, &user(&"a long story ".repeat(20)));
    ask(&before, request("chat", &story, 20));
    block_on(before.park(name("chat")));
    let edited = tokens(&model, &user("a short one"));
    let lost = tokens(&model, &user(&"a lost story ".repeat(20)));
    ask(&before, request("lost", &lost, 20));
    let timeline = ask(&before, request("chat", &edited, 20)).timeline;
    settle(&before);
    before.shutdown();
    // No slot file names the objects of a conversation that has lost its own.
    std::fs::remove_file(directory.path().join(FINGERPRINT.to_string()).join("lost.kept.bin"))
        .unwrap();
    let before = engine(&model, Some(directory.path()), options());
    // Collects only unreferenced objects; the conversation and its earlier branch stay.
    let rules = Rules { compress_after: None, ..without_quota() };
    let later = AdjustedTime::from(Timestamp::from(SystemTime::now() + 2 * SAVE_GRACE));
    let swept = block_on(before.sweep(sweeper(rules), later)).unwrap();
    assert!(swept.collected > 0 && swept.errors.is_empty(), "{swept:?}");
    before.shutdown();
    let reader = StoreReader::open(directory.path()).unwrap();
    let named: usize =
        reader.contents(FINGERPRINT).unwrap().slots.iter().map(|slot| slot.objects.len()).sum();
    assert!(named > 2, "a question and an answer, and the story before");
    assert_eq!(count(directory.path(), &["kv"]), named);

    let after = engine(&model, Some(directory.path()), options());
    let prompt = then(&model, &timeline, "go on");
    let report = ask(&after, request("chat", &prompt, 5)).report;
    assert_eq!(report.tokens.computed, prompt.len() - timeline.len(), "{report:?}");
    after.shutdown();
}

#[test]
fn an_expired_conversation_leaves_memory_too_and_an_open_one_stays() {
    let model: Arc<dyn Model> = Arc::new(FakeModel::new());
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(&model, Some(directory.path()), options());
    let prompt = tokens(&model, &user(&"a long story ".repeat(20)));
    for who in ["open", "parked"] {
        let keep = Retention { class: Some(TtlClass::Long), ..Retention::default() };
        ask(&engine, TurnRequest { keep, ..request(who, &prompt, 20) });
    }
    block_on(engine.park(name("parked")));
    let later = AdjustedTime::from(Timestamp::from(SystemTime::now() + Duration::from_secs(7_200)));
    let swept = block_on(engine.sweep(sweeper(without_quota()), later)).unwrap();
    assert_eq!((swept.expired, swept.errors.len()), (1, 0), "{swept:?}");
    let known: Vec<_> =
        status(&engine).parked.into_iter().map(|saved| saved.conversation).collect();
    assert_eq!(known, [], "only the open one is known");
    // Both have the same prompt: the open one's objects serve both.
    let report = ask(&engine, request("parked", &prompt, 5)).report;
    assert_eq!(report.tokens.computed, 1, "{report:?}");
    engine.shutdown();
}

#[test]
fn a_private_anonymous_turn_whose_blocks_left_collects_nothing_on_disk() {
    let model = fake();
    let mut disk = OnDisk::new(&model);
    ask(&disk.engine, request("lost", &tokens(&model, &user(&"a lost story ".repeat(20))), 20));
    settle(&disk.engine);
    let slot_file = disk.path().join(FINGERPRINT.to_string()).join("lost.kept.bin");
    std::fs::remove_file(slot_file).unwrap();
    disk.restart();
    // A collection would remove them.
    let unreferenced = count(disk.path(), &["kv"]);
    assert!(unreferenced > 0);
    let prompt = tokens(&model, &user(&"something else ".repeat(60)));
    let keep = Retention { in_memory: Some(true), ..Retention::default() };
    let anonymous = TurnRequest { budget: Some(400), keep, ..TurnRequest::answer(None, prompt, 5) };
    let answer = ask(&disk.engine, anonymous);
    assert!(!answer.moved.is_empty(), "blocks of it have left");
    settle(&disk.engine);
    assert_eq!(count(disk.path(), &["kv"]), unreferenced);
    assert_eq!(status(&disk.engine).memory_bytes, 0, "nothing asks for its blocks any more");
}

#[test]
fn nothing_stays_of_an_anonymous_turn_that_is_cancelled_while_it_waits_for_cells() {
    let batches = MicroBatches::default();
    let model = batches.of(FakeModel::new());
    let engine = engine(&model, None, EngineOptions { context_tokens: 1024, ..options() });
    let anonymous = |word: &str, budget| {
        let prompt = tokens(&model, &user(&word.repeat(300 / word.len())));
        let turn = TurnRequest::answer(None, prompt, 500);
        TurnRequest { budget, ignore_eog: true, ..turn }
    };
    let (first, mut paused) = batches.first_of(&engine, anonymous("one ", None));
    let sequence = paused.begun[0][0].sequence;
    let request = anonymous("other ", Some(400));
    let prompt = request.prompt.len();
    let second = engine.submit(request).unwrap();
    let is_answered = |row: &Row| row.sequence != sequence && row.position >= prompt;
    for has_cells in [true, false] {
        while paused.begun.last().unwrap().iter().any(is_answered) != has_cells {
            paused = paused.step();
        }
    }
    let (reading, paused) = paused.reply(engine.status());
    let reading = reading.unwrap();
    assert_eq!(reading.waiting, 1, "it has given up its cells");
    assert!(reading.memory_bytes > 0, "blocks of it have left");
    drop(second);
    drop(paused);
    until("they are gone", || status(&engine).memory_bytes == 0);
    drop(first);
    engine.shutdown();
}

#[test]
fn a_queued_turn_is_forgotten_with_its_conversation() {
    let model = slow(MemoryKind::Plain);
    let engine = engine(&model, None, options());
    let prompt = tokens(&model, &user("hello"));
    let endless = endless("chat", &prompt, 1_000_000);
    let [running, waiting] = [endless.clone(), endless].map(|turn| engine.submit(turn).unwrap());
    block_on(engine.forget(name("chat"))).unwrap();
    assert_eq!(finish(running).map(drop), Err(TurnError::Forgotten));
    assert_eq!(finish(waiting).map(drop), Err(TurnError::Forgotten));
    assert_eq!(status(&engine).waiting, 0);
}

/// The whole timeline of a running turn.
fn finish_rest(mut turn: Turn) -> Vec<Token> {
    let events = std::iter::from_fn(|| turn.next_blocking());
    let timelines = events.filter_map(|event| match event {
        TurnEvent::Finished { timeline, .. } => Some(timeline),
        _ => None,
    });
    timelines.last().expect("the turn finishes")
}

fn sweeper(rules: Rules) -> Arc<Mutex<Sweeper>> {
    Arc::new(Mutex::new(Sweeper::new(rules)))
}

/// The number of files with these extensions.
fn count(directory: &Path, extensions: &[&str]) -> usize {
    files::with_extensions(directory, extensions).len()
}
