//! Guessed tokens change how fast an answer comes, and nothing else: the same events with drafts and
//! without. The fake copies what it has read for a while, then goes its own way.

use std::sync::Arc;
use std::time::Duration;

use hob_runtime::backend::fake::{BatchLog, FakeModel};
use hob_runtime::backend::tile::TILE_ROWS;
use hob_runtime::backend::{AttentionTile, MemoryKind};
use hob_runtime::grammar::Grammar;
use hob_runtime::{DraftCounts, EngineOptions, Model, TurnRequest};
use proptest::prelude::*;

use crate::support::*;

pub const FILE: &str = "fn area(width: f64, height: f64) -> f64 {\n    width * height\n}\n\n\
                    fn volume(width: f64, height: f64, depth: f64) -> f64 {\n    \
                    area(width, height) * depth\n}\n";

fn copying(memory: MemoryKind) -> Arc<dyn Model> {
    Arc::new(FakeModel::new().with_memory(memory).with_copies())
}

fn engine_with(model: &Arc<dyn Model>, drafts: bool) -> Started {
    engine(model, None, EngineOptions { drafts, ..options() })
}

#[test]
fn a_copied_file_is_drafted_and_answered_as_without() {
    for memory in MEMORIES {
        let model = copying(memory);
        let prompt = tokens(&model, &user(FILE));
        let answer = endless("chat", &prompt, 200);
        let [on, off] = [true, false].map(|drafts| engine_with(&model, drafts));
        let (expected, none) = events(&off, answer.clone());
        let (seen, counts) = events(&on, answer);
        assert_eq!(seen, expected, "{memory}");
        assert_eq!(none, DraftCounts::default(), "{memory}");
        assert!(counts.accepted > 50, "{memory}: {counts:?}");
        assert!(counts.accepted <= counts.drafted, "{memory}: {counts:?}");
        let status = status(&on).counters;
        assert_eq!(status.drafted_tokens, counts.drafted as u64, "{memory}");
        assert_eq!(status.accepted_tokens, counts.accepted as u64, "{memory}");
    }
}

#[test]
fn where_attention_has_tiles_a_copy_fills_one_and_the_answer_is_the_same() {
    let log = BatchLog::default();
    let tile = AttentionTile::new(494_000_000, 21_504);
    let tiled = FakeModel::new().with_copies().with_attention_tile(tile);
    let tiled: Arc<dyn Model> = Arc::new(tiled.with_batch_log(log.clone()));
    let plain = copying(MemoryKind::Plain);
    // The first micro-batch is the whole prompt.
    let on = engine(&tiled, None, EngineOptions { micro_batch: 512, ..options() });
    let answer = endless("chat", &tokens(&tiled, &user(FILE)), 400);
    let (seen, counts) = events(&on, answer.clone());
    assert_eq!(seen, events(&engine_with(&plain, false), answer).0);
    assert!(counts.accepted > 50, "{counts:?}");
    let rows: Vec<usize> = log.lock()[1..].iter().map(Vec::len).collect();
    assert!(rows.contains(&TILE_ROWS), "{rows:?}");
    assert!(rows.iter().all(|&rows| rows <= 16 || rows == TILE_ROWS), "{rows:?}");
}

#[test]
fn a_guessed_stop_token_ends_an_answer_as_one_that_is_not_guessed() {
    for memory in MEMORIES {
        let model = copying(memory);
        let prompt = tokens(&model, &user(FILE));
        let whole = ask(&engine_with(&model, false), endless("chat", &prompt, 200)).tokens;
        // The token that comes latest for the first time.
        let is_new = |&at: &usize| !whole[..at].contains(&whole[at]);
        let at = (0..whole.len()).rev().find(is_new).expect("an answer has tokens");
        let stop_tokens = [whole[at]].into_iter().collect();
        let answer =
            TurnRequest { stop_tokens, min_tokens: at / 2, ..endless("chat", &prompt, 200) };
        let [(seen, counts), (expected, _)] =
            [true, false].map(|drafts| events(&engine_with(&model, drafts), answer.clone()));
        assert_eq!(seen, expected, "{memory}");
        assert!(seen.last().unwrap().starts_with("Stop"), "{memory}: {:?}", seen.last());
        assert!(counts.accepted > 0, "{memory}: {counts:?}");
    }
}

#[test]
fn a_turn_that_asks_for_no_drafts_has_none_and_the_same_answer() {
    for memory in MEMORIES {
        let model = copying(memory);
        let prompt = tokens(&model, &user(FILE));
        let with = endless("chat", &prompt, 200);
        let without = TurnRequest { drafts: false, ..with.clone() };
        let [(expected, counts), (seen, none)] =
            [with, without].map(|answer| events(&engine_with(&model, true), answer));
        assert_eq!(seen, expected, "{memory}");
        assert_eq!(none, DraftCounts::default(), "{memory}");
        assert!(counts.accepted > 50, "{memory}: {counts:?}");
    }
}

#[test]
fn the_saved_conversation_is_the_one_without_drafts() {
    for memory in MEMORIES {
        let model = copying(memory);
        let mut disk = OnDisk::with(&model, EngineOptions { slots: 1, ..options() });
        let prompt = tokens(&model, &user(FILE));
        let first = ask(&disk.engine, endless("chat", &prompt, 150));
        assert!(status(&disk.engine).counters.accepted_tokens > 0, "{memory}");
        disk.restart();
        let next = then(&model, &first.timeline, "and now?");
        let restored = ask(&disk.engine, request("chat", &next, 40));
        assert_eq!(restored.report.tokens.disk, first.timeline.len(), "{memory}");
        assert_eq!(
            restored.tokens,
            ask(&engine_with(&model, false), request("chat", &next, 40)).tokens
        );
    }
}

#[test]
fn a_cancelled_copy_leaves_its_slot_to_the_next_turn() {
    let model: Arc<dyn Model> =
        Arc::new(FakeModel::new().with_copies().with_pace(Duration::from_micros(300)));
    let on = engine_with(&model, true);
    let prompt = tokens(&model, &user(FILE));
    for after in 1..12 {
        let endless = endless("chat", &prompt, 1_500);
        let mut turn = on.submit(endless).unwrap();
        (0..after * 5).for_each(|_| drop(turn.next_blocking()));
        drop(turn);
        let answer = ask(&on, request("chat", &prompt, 60));
        assert_eq!(answer.tokens, alone(&model, &prompt, 60));
    }
    assert!(status(&on).counters.accepted_tokens > 0);
}

#[test]
fn beside_a_prompt_only_sampled_tokens_are_computed() {
    let log = BatchLog::default();
    let slow = FakeModel::new().with_copies().with_pace(Duration::from_micros(200));
    let model: Arc<dyn Model> = Arc::new(slow.with_batch_log(log.clone()));
    let on = engine(&model, None, EngineOptions { micro_batch: 32, ..options() });
    let copy = endless("copy", &tokens(&model, &user(FILE)), 1_000_000);
    let mut copying = on.submit(copy).unwrap();
    (0..60).for_each(|_| drop(copying.next_blocking()));
    ask(&on, request("long", &tokens(&model, &user(&"another prompt ".repeat(40))), 1));
    drop(copying);
    on.shutdown();

    let log = log.lock();
    let first = log[0][0].sequence;
    let batches = log.iter().map(|batch| {
        let copied = batch.iter().filter(|row| row.sequence == first).count();
        (copied, batch.len() - copied)
    });
    let beside: Vec<usize> =
        batches.clone().filter(|(_, prompt)| *prompt > 1).map(|(copied, _)| copied).collect();
    assert!(beside.contains(&1), "the copy went on beside the prompt");
    assert!(beside.iter().all(|&copied| copied <= 1), "{beside:?}");
    assert!(batches.clone().any(|(copied, prompt)| prompt == 0 && (2..=16).contains(&copied)));
}

/// Letters, spaces and line breaks, in words; or the copy as a JSON text.
fn grammars() -> impl Strategy<Value = Option<Arc<Grammar>>> {
    prop_oneof![
        3 => Just(None),
        1 => Just(Some(Grammar::lark("start: /[a-z,:(){}* \\n]*/"))),
        1 => Just(Some(Grammar::lark("start: /(fn|area|width|height|[a-h]+| |\\(|,|:)*/"))),
    ]
    .prop_map(|grammar| grammar.map(Arc::new))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn events_equal_those_without_drafts(
        sampling in samplings(),
        grammar in grammars(),
        stop in prop::collection::vec("[a-h ]{1,3}", 0..2),
        max_tokens in 0_usize..120,
        logprobs in prop::option::of(0_usize..3),
        ignore_eog in any::<bool>(),
        context_tokens in 230_usize..400,
        memory in prop::sample::select(MEMORIES.to_vec()),
    ) {
        let model = copying(memory);
        let prompt = tokens(&model, &user(FILE));
        let answer = TurnRequest {
            sampling, grammar, stop, logprobs, ignore_eog,
            ..request("chat", &prompt, max_tokens)
        };
        let [seen, expected] = [true, false].map(|drafts| {
            let options = EngineOptions { drafts, context_tokens, ..options() };
            let engine = engine(&model, None, options);
            let (first, _) = events(&engine, answer.clone());
            let (second, _) = events(&engine, answer.clone()); // Its slot holds the first one.
            engine.shutdown();
            (first, second)
        });
        prop_assert_eq!(seen, expected);
    }
}

/// On llama.cpp a row that is computed beside others may round otherwise, which decides where two
/// tokens are equally likely. These answers have no such place.
#[cfg(feature = "llama")]
mod llama {
    use super::*;

    fn story(times: usize) -> String {
        "My locker code is 48213. Paris is large. ".repeat(times)
    }

    /// Both, and what was drafted.
    fn on_and_off(model: &Arc<dyn Model>, answer: &TurnRequest) -> [(Vec<String>, DraftCounts); 2] {
        [true, false].map(|drafts| {
            let engine = engine_with(model, drafts);
            let events = events(&engine, answer.clone());
            engine.shutdown();
            events
        })
    }

    #[test]
    fn greedy_answers_equal_those_without_drafts() {
        for file in [
            "hob-tiny-f16.gguf",
            "fixtures/qwen2.gguf",
            "fixtures/qwen3.gguf",
            "fixtures/gemma3.gguf",
        ] {
            let model = load(file);
            for times in [8, 12] {
                if (file, times) == ("fixtures/qwen2.gguf", 8) {
                    continue; // Two of its tokens are 0.01 apart, and a tile rounds otherwise than a row.
                }
                let answer = endless("chat", &tokens(&model, &user(&story(times))), 300);
                let [(seen, counts), (expected, _)] = on_and_off(&model, &answer);
                assert_eq!(seen, expected, "{file}: {times}");
                assert!(counts.accepted > 0, "{file}: {times}: {counts:?}");
            }
        }
    }

    /// The answer copies the text twice, but for each 23rd token. A token that nothing forces follows.
    #[test]
    fn a_copy_with_changes_is_drafted_in_every_family_and_the_same() {
        for file in [
            "hob-tiny-f16.gguf",
            "fixtures/gemma3.gguf",
            "fixtures/lfm2.gguf",
            "fixtures/mamba.gguf",
        ] {
            let model = load(file);
            let prompt = tokens(&model, &user(&story(8)));
            let mut copy = tokens(&model, &story(8)).repeat(2);
            let other = tokens(&model, "kettle")[0];
            copy.iter_mut().step_by(23).for_each(|token| *token = other);
            let forced: Vec<String> = copy.iter().map(|token| format!("<[{}]>", token.0)).collect();
            let grammar = Grammar::lark(format!("start: {} /[a-z ]+/", forced.join(" ")));
            let grammar = Some(Arc::new(grammar));
            let max_tokens = copy.len() + 20;
            let answer =
                TurnRequest { grammar, logprobs: Some(1), ..endless("chat", &prompt, max_tokens) };
            let [(seen, counts), (expected, _)] = on_and_off(&model, &answer);
            let words = |events: &[String]| -> Vec<String> {
                events.iter().map(|it| it.split(" logprobs").next().unwrap().to_owned()).collect()
            };
            assert_eq!(words(&seen), words(&expected), "{file}");
            assert!(counts.accepted > 100, "{file}: {counts:?} {:?}", seen.last());
            assert!(counts.drafted > counts.accepted + 4, "{file}: {counts:?}");
        }
    }
}
