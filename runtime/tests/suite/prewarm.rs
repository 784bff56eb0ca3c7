//! Prewarming and speculative prefill.

use std::sync::Arc;

use hob_runtime::backend::fake::FakeModel;
use hob_runtime::backend::{MemoryKind, Row};
use hob_runtime::{AheadCounts, EngineOptions, Model, Purpose, TurnError, TurnRequest};
use hob_slots::Token;
use hob_slots::store::StoreReader;

use crate::support::held::MicroBatches;
use crate::support::{
    FINGERPRINT, alone, ask, endless, engine, fake, finish, name, options, request, settle, status,
    tokens,
};

const PREFIX: &str = "__system_prefix__";

fn prewarm(prompt: &[Token]) -> TurnRequest {
    TurnRequest { purpose: Purpose::Prewarm, ..request(PREFIX, prompt, 0) }
}

fn speculate(conversation: &str, prompt: &[Token]) -> TurnRequest {
    TurnRequest { purpose: Purpose::Speculate, ..request(conversation, prompt, 0) }
}

fn rules(model: &Arc<dyn Model>) -> Vec<Token> {
    tokens(model, &"You are a kettle. ".repeat(20))
}

#[test]
fn a_conversation_computes_only_what_follows_a_warm_prefix() {
    for memory in [MemoryKind::Plain, MemoryKind::Windowed, MemoryKind::Recurrent] {
        let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_memory(memory));
        let engine = engine(&model, None, options());
        let prefix = rules(&model);
        let warmed = ask(&engine, prewarm(&prefix));
        assert_eq!((warmed.report.tokens.computed, warmed.tokens.len()), (prefix.len(), 0));
        for conversation in ["one", "two"] {
            let prompt = [&prefix[..], &tokens(&model, conversation)].concat();
            let answer = ask(&engine, request(conversation, &prompt, 20));
            assert_eq!(answer.report.tokens.computed, conversation.len(), "{memory}");
            assert_eq!(answer.tokens, alone(&model, &prompt, 20));
        }
    }
}

#[test]
fn a_report_counts_the_tokens_made_hot_ahead() {
    let model = fake();
    let directory = tempfile::tempdir().unwrap();
    let said = tokens(&model, &"a long story ".repeat(20));
    let first = engine(&model, Some(directory.path()), options());
    ask(&first, request("chat", &said, 0));
    first.shutdown();

    let engine = engine(&model, Some(directory.path()), options());
    let half = [&said[..], &tokens(&model, "and then")].concat();
    ask(&engine, speculate("chat", &said));
    ask(&engine, speculate("chat", &half));
    let whole = [&half[..], &tokens(&model, " what?")].concat();
    let report = ask(&engine, request("chat", &whole, 0)).report;

    let ahead = AheadCounts { memory: 0, disk: said.len(), computed: "and then".len() };
    assert_eq!((report.tokens.shared, report.ahead), (half.len(), ahead));
    let next = [&whole[..], &tokens(&model, " more")].concat();
    let report = ask(&engine, request("chat", &next, 0)).report;
    assert_eq!(report.ahead, AheadCounts::default());
}

#[test]
fn a_prefix_has_a_slot_of_its_own_kind() {
    let model = fake();
    let engine = engine(&model, None, EngineOptions { slots: 1, prefixes: 1, ..options() });
    ask(&engine, request("chat", &tokens(&model, "hello"), 5));
    ask(&engine, prewarm(&rules(&model)));
    let status = status(&engine);
    assert_eq!(status.slots[0].conversation, Some(name("chat")));
    assert_eq!(status.prefixes[0].conversation, Some(name(PREFIX)));
    assert_eq!(status.prefixes[0].tokens, rules(&model).len());
    assert_eq!(status.counters.prewarmed, 1);
}

#[test]
fn a_prefix_is_read_after_a_restart_and_not_computed() {
    let model = fake();
    let directory = tempfile::tempdir().unwrap();
    let prefix = rules(&model);
    for start in 0..3 {
        let engine = engine(&model, Some(directory.path()), options());
        let warmed = ask(&engine, prewarm(&prefix)).report.tokens;
        let expected = if start == 0 { (prefix.len(), 0) } else { (0, prefix.len()) };
        assert_eq!((warmed.computed, warmed.disk), expected);
        engine.shutdown();
    }
}

#[test]
fn a_keep_alive_of_a_hot_prefix_does_nothing() {
    let model = fake();
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(&model, Some(directory.path()), options());
    ask(&engine, prewarm(&rules(&model)));
    settle(&engine);
    let before = status(&engine).counters;
    let touch = TurnRequest { purpose: Purpose::KeepAlive, ..prewarm(&rules(&model)) };
    assert_eq!(ask(&engine, touch).report.tokens.shared, rules(&model).len());
    settle(&engine);
    let after = status(&engine).counters;
    assert_eq!(after.prewarmed, before.prewarmed + 1);
    assert_eq!(
        (after.computed_tokens, after.written_bytes, after.read_bytes),
        (before.computed_tokens, before.written_bytes, before.read_bytes)
    );
}

#[test]
fn a_speculation_is_reused_up_to_the_first_difference() {
    for memory in [MemoryKind::Plain, MemoryKind::Recurrent] {
        let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_memory(memory));
        let engine = engine(&model, None, options());
        let said = tokens(&model, "what time is it in Par");
        assert_eq!(ask(&engine, speculate("chat", &said)).report.tokens.computed, said.len());
        let more = [&said[..], &tokens(&model, "is?")].concat();
        let promoted = ask(&engine, request("chat", &more, 10));
        assert_eq!(promoted.report.tokens.computed, 3, "{memory}");
        assert_eq!(promoted.tokens, alone(&model, &more, 10));
    }
    let model = fake();
    let engine = engine(&model, None, options());
    let said = tokens(&model, "what time is it in Par");
    ask(&engine, speculate("chat", &said));
    let other = tokens(&model, "what time is it now?");
    let rolled_back = ask(&engine, request("chat", &other, 10));
    assert_eq!(rolled_back.report.tokens.computed, "now?".len());
    assert_eq!(rolled_back.tokens, alone(&model, &other, 10));
}

#[test]
fn a_speculation_in_the_slot_of_an_anonymous_turn_is_not_recorded() {
    for memory in [MemoryKind::Plain, MemoryKind::Recurrent] {
        let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_memory(memory));
        let directory = tempfile::tempdir().unwrap();
        let one_slot = EngineOptions { slots: 1, ..options() };
        let engine = engine(&model, Some(directory.path()), one_slot);
        let anonymous = request("any", &rules(&model), 10);
        ask(&engine, TurnRequest { conversation: None, ..anonymous });
        ask(&engine, speculate("chat", &rules(&model)));
        settle(&engine);
        engine.shutdown();
        let store = StoreReader::open(directory.path()).unwrap();
        assert!(store.slot(FINGERPRINT, &name("chat")).is_none(), "{memory}");
    }
}

#[test]
fn a_speculation_changes_nothing_on_disk() {
    for memory in [MemoryKind::Plain, MemoryKind::Recurrent] {
        let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_memory(memory));
        let directory = tempfile::tempdir().unwrap();
        let engine = engine(&model, Some(directory.path()), options());
        let first = ask(&engine, request("chat", &rules(&model), 10));
        // Not even before the answer is saved, and when the speculation is much shorter.
        ask(&engine, speculate("chat", &rules(&model)[..70]));
        let longer = [&first.timeline[..], &tokens(&model, "and what is said next")].concat();
        ask(&engine, speculate("chat", &longer));
        settle(&engine);
        engine.shutdown();
        let store = StoreReader::open(directory.path()).unwrap();
        let record = store.get_slot(FINGERPRINT, &name("chat")).unwrap();
        assert_eq!((record.tokens, record.turns), (first.timeline, 1), "{memory}");
        let needed = store.needed_objects(FINGERPRINT).unwrap();
        assert_eq!(store.object_files(FINGERPRINT).unwrap().len(), needed.len(), "{memory}");
    }
}

#[test]
fn a_newer_turn_supersedes_a_speculation_and_reuses_it() {
    let batches = MicroBatches::default();
    let model = batches.of(FakeModel::new());
    let engine = engine(&model, None, EngineOptions { micro_batch: 48, ..options() });
    let prompt = rules(&model);
    let (first, paused) = batches.first_of(&engine, speculate("chat", &prompt));
    // The next micro-batch may be of either: the engine receives the second turn before it or behind it.
    let second = engine.submit(speculate("chat", &prompt)).unwrap();
    let paused = paused.step();
    assert_eq!(finish(first).unwrap_err(), TurnError::Superseded);
    let paused = paused.step();
    let answer = engine.submit(request("chat", &prompt, 5)).unwrap();
    drop(paused);
    assert_eq!(finish(second).unwrap_err(), TurnError::Superseded);
    let answer = finish(answer).unwrap();
    assert!(answer.report.tokens.shared >= 3 * 48, "{:?}", answer.report);
    assert_eq!(status(&engine).counters.superseded, 2);
}

#[test]
fn an_answer_interrupts_a_prewarm_within_one_micro_batch() {
    let batches = MicroBatches::default();
    let model = batches.of(FakeModel::new());
    let (hello, prefix) = (tokens(&model, "hello"), rules(&model));
    let small = EngineOptions { micro_batch: 32, slots: 1, ..options() };
    let engine = engine(&model, None, small);
    let (warming, paused) = batches.first_of(&engine, prewarm(&prefix));
    let asked = TurnRequest { drafts: false, ..endless("chat", &hello, 20) };
    let answer = engine.submit(asked).unwrap();
    drop(paused);
    finish(answer).unwrap();
    assert_eq!(finish(warming).unwrap().report.tokens.computed, prefix.len());

    let begun = batches.pause().begun;
    let of_prefix = begun[0][0].sequence;
    let answers = |rows: &[Row]| rows.iter().any(|row| row.sequence != of_prefix);
    let of_answer: Vec<usize> = (0..begun.len()).filter(|&at| answers(&begun[at])).collect();
    // One more may have begun. The last token of the answer is computed behind it.
    let (from, to) = (of_answer[0], of_answer[0] + 20);
    assert!(from <= 2, "{of_answer:?}");
    assert_eq!(of_answer[..20], (from..to).collect::<Vec<_>>());
    let rows: Vec<&Row> = begun[from..to].iter().flatten().collect();
    assert!(rows.iter().all(|row| row.sequence != of_prefix), "{rows:?}");
}

#[test]
fn two_speculations_run_side_by_side_and_an_answer_takes_a_slot_from_one() {
    let batches = MicroBatches::default();
    let model = batches.of(FakeModel::new());
    let engine = engine(&model, None, EngineOptions { micro_batch: 32, ..options() });
    let texts = ["one ", "two "].map(|text| tokens(&model, &text.repeat(200)));
    let (first, mut paused) = batches.first_of(&engine, speculate("a", &texts[0]));
    let second = engine.submit(speculate("b", &texts[1])).unwrap();
    let of_first = paused.begun[0][0].sequence;
    while paused.begun.iter().flatten().all(|row| row.sequence == of_first) {
        paused = paused.step();
    }
    let rows = paused.begun.iter().flatten().filter(|row| row.sequence == of_first).count();
    assert!(rows < 800, "neither waits for the other");
    let answer = engine.submit(request("c", &tokens(&model, "hello"), 5)).unwrap();
    drop(paused);
    assert_eq!(finish(answer).unwrap().report.tokens.computed, 5);
    let ends = [first, second].map(finish);
    let superseded = ends.iter().filter(|end| matches!(end, Err(TurnError::Superseded))).count();
    assert_eq!(superseded, 1, "there are two slots");
}

#[test]
fn a_dropped_turn_cancels_its_prewarm() {
    let batches = MicroBatches::default();
    let model = batches.of(FakeModel::new());
    let engine = engine(&model, None, options());
    batches.cancel_after_first(&engine, prewarm(&rules(&model)));
    assert_eq!(status(&engine).counters.cancelled, 1);
    let answer = ask(&engine, request("chat", &rules(&model), 5));
    assert_eq!(answer.report.tokens.prompt(), rules(&model).len());
}

#[test]
fn what_a_speculation_made_hot_is_no_part_of_the_next_owners_report() {
    let model = fake();
    let engine = engine(&model, None, EngineOptions { slots: 1, ..options() });
    let said = tokens(&model, &"a long story ".repeat(20));
    ask(&engine, speculate("chat", &said));
    let report = ask(&engine, request("another", &said, 0)).report;
    assert_eq!(report.ahead, AheadCounts::default(), "{report:?}");
    ask(&engine, speculate("another", &said));
    let anonymous = TurnRequest { conversation: None, ..request("any", &said, 0) };
    let report = ask(&engine, anonymous).report;
    assert_eq!(report.ahead, AheadCounts::default(), "{report:?}");
}
