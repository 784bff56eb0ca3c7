//! Cold turns: they compute everything and leave saved KV intact.

use std::collections::BTreeSet;
use std::path::Path;

use hob_runtime::backend::MemoryKind;
use hob_runtime::{Retention, TurnRequest};
use hob_slots::format::SlotRecord;
use hob_slots::store::StoreReader;
use hob_slots::{BlockId, Token, TtlClass};

use crate::support::*;

fn cold(conversation: &str, prompt: &[Token]) -> TurnRequest {
    TurnRequest { cold: true, ..request(conversation, prompt, 20) }
}

fn record(directory: &Path) -> SlotRecord {
    let store = StoreReader::open(directory).unwrap();
    store.get_slot(FINGERPRINT, &name("chat")).unwrap()
}

fn blocks(record: &SlotRecord) -> BTreeSet<BlockId> {
    record.blocks.iter().map(|block| block.id).collect()
}

#[test]
fn a_cold_turn_reuses_nothing_and_answers_the_same() {
    for memory in MEMORIES {
        let model = of_memory(memory);
        let engine = engine(&model, None, options());
        let first = ask(&engine, request("chat", &tokens(&model, &user(&"hello ".repeat(30))), 20));
        settle(&engine);
        let prompt = then(&model, &first.timeline, "and now?");
        let warm = ask(&engine, request("chat", &prompt, 20));
        settle(&engine);
        for (conversation, known) in [("chat", true), ("other", false)] {
            let answer = ask(&engine, cold(conversation, &prompt));
            let report = &answer.report;
            assert_eq!(report.tokens.computed, prompt.len(), "{memory} {known}: {report:?}");
            assert_eq!((report.tokens.cached(), report.cold), (0, true), "{memory}");
            assert_eq!(report.miss, None, "{memory} {known}");
            assert_eq!(answer.tokens, warm.tokens, "{memory} {known}");
            settle(&engine);
        }
        let again = ask(&engine, request("chat", &prompt, 20));
        assert!(again.report.tokens.computed < prompt.len() && !again.report.cold, "{memory}");
        let counters = status(&engine).counters;
        assert_eq!((counters.wasted_restores, counters.import_failures), (0, 0), "{memory}");
        engine.shutdown();
    }
}

#[test]
fn a_cold_turn_saves_under_the_same_names() {
    for memory in MEMORIES {
        let model = of_memory(memory);
        let directory = tempfile::tempdir().unwrap();
        let before = engine(&model, Some(directory.path()), options());
        let keep = Retention { class: Some(TtlClass::Permanent), ..Retention::default() };
        let prompt = tokens(&model, &user(&"hello ".repeat(30)));
        let first = ask(&before, TurnRequest { keep, ..request("chat", &prompt, 20) });
        before.shutdown();
        let saved = record(directory.path());

        let between = engine(&model, Some(directory.path()), options());
        let answer = ask(&between, cold("chat", &prompt));
        assert_eq!(answer.report.tokens.computed, prompt.len(), "{memory}");
        assert_eq!(answer.timeline, first.timeline, "{memory}");
        between.shutdown();
        let saved_again = record(directory.path());
        assert_eq!(blocks(&saved_again), blocks(&saved), "{memory}");
        assert_eq!(saved_again.tokens, saved.tokens, "{memory}");
        assert_eq!((saved_again.turns, saved_again.class), (2, TtlClass::Permanent), "{memory}");

        let after = engine(&model, Some(directory.path()), options());
        let prompt = then(&model, &first.timeline, "and now?");
        let next = ask(&after, request("chat", &prompt, 20));
        assert_eq!(next.report.tokens.disk, first.timeline.len(), "{memory}");
        after.shutdown();
    }
}

#[test]
fn an_anonymous_cold_turn_shares_nothing_either() {
    let model = of_memory(MemoryKind::Plain);
    let engine = engine(&model, None, options());
    let prompt = tokens(&model, &user(&"hello ".repeat(30)));
    ask(&engine, request("chat", &prompt, 4));
    let anonymous = TurnRequest { conversation: None, ..cold("any", &prompt) };
    assert_eq!(ask(&engine, anonymous).report.tokens.shared, 0);
    engine.shutdown();
}
