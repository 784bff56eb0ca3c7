//! Adapters of turns: whose KV is whose, and how sets share the context.

use std::sync::Arc;
use std::time::Duration;

use hob_runtime::adapters::{AdapterFile, Adapters};
use hob_runtime::backend::MemoryKind;
use hob_runtime::backend::fake::{BatchLog, FakeModel};
use hob_runtime::{EngineOptions, MissReason, Model, TurnError, TurnRequest};
use hob_slots::format::SlotRecord;
use hob_slots::store::StoreReader;
use hob_slots::{BLOCK_TOKENS, Token};

use crate::support::*;

/// None, one, the same with another factor, another one, both.
fn sets() -> [Adapters; 5] {
    let of = |files: &[AdapterFile]| Adapters::new(files.to_vec()).unwrap();
    let [one, weak, other] = [adapter(1, 1.0), adapter(1, 0.5), adapter(2, 1.0)];
    let both = of(&[one.clone(), other.clone()]);
    [of(&[]), of(&[one]), of(&[weak]), of(&[other]), both]
}

fn with(adapters: &Adapters, conversation: &str, prompt: &[Token]) -> TurnRequest {
    TurnRequest { adapters: adapters.clone(), ..request(conversation, prompt, 12) }
}

fn alone_with(model: &Arc<dyn Model>, adapters: &Adapters, prompt: &[Token]) -> Vec<Token> {
    answered_alone(model, with(adapters, "alone", prompt))
}

fn record(on_disk: &OnDisk) -> SlotRecord {
    StoreReader::open(on_disk.path()).unwrap().get_slot(FINGERPRINT, &name("chat")).unwrap()
}

/// A prompt of three blocks and a half.
fn prompt(model: &Arc<dyn Model>) -> Vec<Token> {
    tokens(model, &user(&"Say something of some length. ".repeat(7)))
}

#[test]
fn each_set_answers_otherwise_and_without_effect_like_none() {
    let model = fake();
    let prompt = prompt(&model);
    let answers = sets().map(|set| alone_with(&model, &set, &prompt));
    for (n, answer) in answers.iter().enumerate() {
        assert!(!answers[..n].contains(answer), "set {n}");
    }
    assert_eq!(answers[0], alone(&model, &prompt, 12));
    let without_effect = Adapters::new(vec![adapter(1, 0.0)]).unwrap();
    assert!(without_effect.is_empty() && without_effect.files().is_empty());
}

#[test]
fn no_conversation_gets_the_kv_of_another_set_and_each_finds_its_own_again() {
    for memory in MEMORIES {
        let model = of_memory(memory);
        let prompt = prompt(&model);
        let mut disk = OnDisk::new(&model);
        let expected = sets().map(|set| alone_with(&model, &set, &prompt));
        for (round, restart) in [(0, false), (1, false), (2, true)] {
            if restart {
                settle(&disk.engine);
                disk.restart();
            }
            for (n, set) in sets().iter().enumerate() {
                let answer = ask(&disk.engine, with(set, "chat", &prompt));
                let cached = answer.report.tokens.cached();
                assert_eq!(answer.tokens, expected[n], "{memory}, round {round}, set {n}");
                let all = prompt.len() - 1;
                if round == 0 {
                    assert_eq!(cached, 0, "{memory}, set {n}");
                    let changed = (n > 0).then_some(MissReason::OtherAdapters);
                    assert_eq!(answer.report.miss, changed, "{memory}, set {n}");
                } else if memory == MemoryKind::Plain {
                    // The last block of a branch continues with its answer.
                    let whole = all - all % BLOCK_TOKENS;
                    assert!(cached >= whole, "round {round}, set {n}: {cached} of {all}");
                } // Of a branch of snapshots, the one behind the answer stays.
                // Another conversation shares with its own set alone.
                let other = ask(&disk.engine, with(set, &format!("{round} {n}"), &prompt));
                assert_eq!(other.tokens, expected[n], "{memory}, round {round}, set {n}");
                if memory == MemoryKind::Plain {
                    assert_eq!(other.report.tokens.cached(), all, "round {round}, set {n}");
                }
            }
        }
        let counters = status(&disk.engine).counters;
        assert_eq!((counters.import_failures, counters.wasted_restores), (0, 0));
        settle(&disk.engine);
        disk.engine.shutdown();
        assert_eq!(record(&disk).adapters, *sets()[4].set());
    }
}

/// A model whose micro-batches take a moment, and their log.
fn slow() -> (Arc<dyn Model>, BatchLog) {
    let log = BatchLog::default();
    let model = FakeModel::new().with_pace(Duration::from_micros(50)).with_batch_log(log.clone());
    (Arc::new(model), log)
}

fn start(model: &Arc<dyn Model>) -> Started {
    engine(model, None, EngineOptions { slots: 5, micro_batch: 16, ..options() })
}

#[test]
fn turns_of_several_sets_at_once_answer_as_one_after_the_other_and_none_starves() {
    let (model, log) = slow();
    let prompt = prompt(&model);
    let expected = sets().map(|set| alone_with(&model, &set, &prompt));
    let engine = start(&model);
    log.lock().clear();
    let names = ["none", "one", "weak", "other", "both"];
    let submit = |(set, name)| engine.submit(with(set, name, &prompt)).unwrap();
    let turns: Vec<_> = sets().iter().zip(names).map(submit).collect();
    let answers: Vec<_> = turns.into_iter().map(|turn| finish(turn).unwrap()).collect();
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer.tokens, expected[n], "set {n}");
        assert_eq!(answer.report.tokens.cached(), 0, "set {n}: equal tokens are other KV");
    }
    let batches = log.lock().clone();
    for batch in &batches {
        let first = batch[0].sequence;
        assert!(batch.iter().all(|row| row.sequence == first), "one set: {batch:?}");
    }
    let slots: Vec<_> = answers.iter().map(|answer| answer.report.slot.unwrap().0).collect();
    for slot in slots {
        let served = batches.iter().enumerate();
        let served = served.filter(|(_, batch)| batch[0].sequence.0 == slot as i32);
        let served: Vec<usize> = served.map(|(at, _)| at).collect();
        let longest = served.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(longest.unwrap() <= 4 * 4 + 1, "slot {slot} waited: {served:?}");
    }
    engine.shutdown();
}

#[test]
fn equal_sets_share_micro_batches_and_cells() {
    let (model, log) = slow();
    let (prompt, set) = (prompt(&model), &sets()[1]);
    let expected = alone_with(&model, set, &prompt);
    let engine = start(&model);
    let mut held = log.lock(); // No micro-batch begins before both are submitted.
    held.clear();
    let turns = ["a", "b"].map(|name| engine.submit(with(set, name, &prompt)).unwrap());
    drop(held);
    let answers = turns.map(|turn| finish(turn).unwrap());
    assert_eq!(answers.each_ref().map(|answer| &answer.tokens), [&expected, &expected]);
    assert!(answers[1].report.tokens.shared > 0);
    let together = |batch: &&Vec<hob_runtime::backend::Row>| {
        batch.iter().any(|row| row.sequence != batch[0].sequence)
    };
    assert!(log.lock().iter().filter(together).count() > 3);
    engine.shutdown();
}

#[test]
fn a_turn_whose_adapter_changed_fails_by_name_and_harms_no_other() {
    let model = fake();
    let prompt = prompt(&model);
    let engine = engine(&model, None, options());
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_owned();
    let changed = AdapterFile { path: path.clone(), ..adapter(1, 1.0) };
    let changed = Adapters::new(vec![changed]).unwrap();
    let failed = finish(engine.submit(with(&changed, "chat", &prompt)).unwrap()).unwrap_err();
    let TurnError::Adapter(reason) = failed else { panic!("{failed}") };
    assert!(reason.contains(&path.display().to_string()), "{reason}");
    let expected = alone(&model, &prompt, 12);
    assert_eq!(ask(&engine, request("chat", &prompt, 12)).tokens, expected);
    engine.shutdown();
}
