//! The MTP heads of a model's own file change how fast an answer comes, and nothing else. Costs do not depend on the clock
//! here, so that they always guess.
//!
//! Of `mtp-plain` and `mtp-hybrid`, a head is wrong for one token in ten, and no token depends on those before the last one;
//! of `glm4moe`, a head is hardly ever right.

#![cfg(feature = "llama")]

use std::ops::Range;
use std::sync::Arc;

use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};
use hob_runtime::backend::{
    Backend, ContextShape, GuessRow, MemoryKind, Mtp, MtpHeads, Row, Sequence,
};
use hob_runtime::{
    DraftCounts, DraftModel, Engine, EngineOptions, Model, MtpCounters, Turn, TurnEvent,
    TurnRequest,
};
use hob_slots::Token;

use crate::support::*;

const SURE: [(&str, MemoryKind); 2] = [
    ("fixtures/mtp-plain.gguf", MemoryKind::Plain),
    ("fixtures/mtp-hybrid.gguf", MemoryKind::Hybrid),
];
const UNSURE: &str = "fixtures/glm4moe.gguf";

fn with_heads(file: &str) -> Arc<dyn Model> {
    let options = LlamaOptions { threads: 1, mtp: true, ..LlamaOptions::default() };
    Arc::new(LlamaModel::load(&asset(file), options).expect("the fixture loads"))
}

fn without_drafts() -> EngineOptions {
    EngineOptions { drafts: false, ..options() }
}

fn story(model: &Arc<dyn Model>) -> Vec<Token> {
    tokens(model, &user(&"My locker code is 48213. Paris is large. ".repeat(8)))
}

fn counters(engine: &Engine) -> MtpCounters {
    let status = status(engine).mtp.expect("the model has heads");
    assert_eq!(status.refused, None);
    status.counters
}

/// The tokens of a turn, and how many were guessed.
fn drained(mut turn: Turn) -> (Vec<Token>, DraftCounts) {
    let (mut tokens, mut counts) = (Vec::new(), DraftCounts::default());
    while let Some(event) = turn.next_blocking() {
        match event {
            TurnEvent::Token { token, .. } => tokens.push(token),
            TurnEvent::Finished { drafts, .. } => counts = drafts,
            TurnEvent::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
    (tokens, counts)
}

fn answered(engine: &Engine, request: TurnRequest) -> (Vec<Token>, DraftCounts) {
    drained(engine.submit(request).expect("a valid turn"))
}

#[test]
fn heads_are_loaded_where_a_file_has_some_and_they_are_wanted() {
    for (file, memory) in SURE {
        let model = with_heads(file);
        assert_eq!((model.mtp(), model.facts().memory), (MtpHeads::Loaded, memory), "{file}");
        assert_eq!(load(file).mtp(), MtpHeads::None, "{file}");
    }
    assert_eq!(with_heads("hob-tiny-f16.gguf").mtp(), MtpHeads::None);
    let engine = engine(&load(UNSURE), None, options());
    assert_eq!(status(&engine).mtp, None);
}

#[test]
fn greedy_answers_equal_those_without_guesses() {
    for (file, is_sure) in [(SURE[0].0, true), (SURE[1].0, true), (UNSURE, false)] {
        let model = with_heads(file);
        let answer = endless("chat", &story(&model), 200);
        let off = engine(&model, None, without_drafts());
        let (expected, none) = events(&off, answer.clone());
        assert_eq!(none, DraftCounts::default(), "{file}");
        let on = engine(&model, None, options());
        let (seen, counts) = events(&on, answer);
        assert_eq!(seen, expected, "{file}");
        assert!(counts.mtp_drafted > counts.mtp_accepted, "{file}: {counts:?}");
        assert!(counts.mtp_accepted > 60 || !is_sure, "{file}: {counts:?}");
        let all = counters(&on);
        let reported = (counts.mtp_drafted as u64, counts.mtp_accepted as u64);
        assert_eq!((all.drafted_tokens, all.accepted_tokens), reported, "{file}");
        assert!(all.computed_tokens > 200, "{file}: {all:?}");
    }
}

#[test]
fn a_turn_that_asks_for_no_drafts_has_no_guesses() {
    let model = with_heads(SURE[0].0);
    let engine = engine(&model, None, options());
    let answer = endless("chat", &story(&model), 60);
    let (_, counts) = answered(&engine, TurnRequest { drafts: false, ..answer.clone() });
    assert_eq!((counts, counters(&engine)), (DraftCounts::default(), MtpCounters::default()));
    let (_, counts) = answered(&engine, answer);
    assert!(counts.mtp_accepted > 10, "{counts:?}");
}

#[test]
fn answers_side_by_side_have_guesses_of_their_own() {
    let model = with_heads(SURE[0].0);
    let prompts = ["My locker code is 48213.", "What is the capital of Peru?"]
        .map(|text| tokens(&model, &user(&text.repeat(6))));
    let expected = prompts.each_ref().map(|prompt| {
        let alone = engine(&model, None, without_drafts());
        answered(&alone, endless("chat", prompt, 120)).0
    });
    let crowded = engine(&model, None, options());
    let turns = [0, 1].map(|at| {
        let request = endless(&format!("chat {at}"), &prompts[at], 120);
        crowded.submit(request).expect("a valid turn")
    });
    for (turn, expected) in turns.into_iter().zip(expected) {
        let (seen, counts) = drained(turn);
        assert_eq!(seen, expected);
        assert!(counts.mtp_accepted > 20, "{counts:?}");
    }
}

#[test]
fn a_conversation_that_goes_on_or_is_edited_or_resumed_has_guesses_and_the_same_answers() {
    for (file, _) in SURE {
        let model = with_heads(file);
        let talk = |options: EngineOptions| {
            let mut disk = OnDisk::with(&model, options.clone());
            let mut seen = Vec::new();
            let mut ask = |engine: &Engine, prompt: &[Token]| {
                let (tokens, counts) = answered(engine, endless("chat", prompt, 80));
                settle(engine);
                seen.push((tokens, counts.mtp_accepted));
            };
            // An answer of one token: what follows is no text that the conversation has already.
            let (begun, _) = answered(&disk.engine, endless("chat", &story(&model), 1));
            let asked = |text| then(&model, &[story(&model), begun.clone()].concat(), text);
            let second = asked("What is my locker code?");
            ask(&disk.engine, &second);
            ask(&disk.engine, &second); // Regenerated.
            ask(&disk.engine, &asked("What is the capital of France?")); // Edited.
            disk.restart_with(options);
            ask(&disk.engine, &asked("And of Peru?"));
            seen
        };
        let expected = talk(without_drafts());
        for (at, (seen, expected)) in talk(options()).into_iter().zip(expected).enumerate() {
            assert_eq!(seen.0, expected.0, "{file}, answer {at}");
            assert!(seen.1 > 20 && expected.1 == 0, "{file}, answer {at}: {}", seen.1);
        }
    }
}

#[test]
fn a_conversation_that_outgrows_its_cells_has_guesses() {
    let model = with_heads(SURE[0].0);
    let small = EngineOptions { context_tokens: 320, ..options() };
    let answer = endless("chat", &story(&model), 300);
    let off = engine(&model, None, EngineOptions { drafts: false, ..small.clone() });
    let (expected, _) = answered(&off, answer.clone());
    let on = engine(&model, None, small);
    let (seen, counts) = answered(&on, answer);
    assert_eq!(seen, expected);
    assert!(status(&on).counters.blocks_out > 0);
    assert!(counts.mtp_accepted > 60, "{counts:?}");
}

#[test]
fn reloaded_weights_have_their_heads() {
    let model = with_heads(SURE[0].0);
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(&model, Some(directory.path()), options());
    let (tokens, _) = answered(&engine, endless("chat", &story(&model), 40));
    let before = counters(&engine).accepted_tokens;
    assert!(block_on(engine.unload()));
    let prompt = then(&model, &[story(&model), tokens].concat(), "What is my locker code?");
    let (_, counts) = answered(&engine, endless("chat", &prompt, 60));
    assert!(counts.mtp_accepted > 10, "{counts:?}");
    assert_eq!(counters(&engine).accepted_tokens, before + counts.mtp_accepted as u64);
}

#[test]
fn a_draft_model_guesses_in_place_of_the_heads() {
    let model = with_heads(SURE[0].0);
    let drafter = DraftModel::new(load("fixtures/qwen3.gguf"), DRAFT_FINGERPRINT, model.as_ref());
    let options = EngineOptions { draft_model: Some(drafter.unwrap()), ..options() };
    let engine = engine(&model, None, options);
    let (_, counts) = answered(&engine, endless("chat", &story(&model), 60));
    assert!(counts.model_drafted > 0 && counts.mtp_drafted == 0, "{counts:?}");
}

/// On the context itself: what a head lacks, and that its guesses do not depend on when it computed that.
#[test]
fn a_head_guesses_the_same_however_its_rows_were_computed() {
    let model = with_heads(UNSURE);
    let shape = ContextShape { context_tokens: 512, sequences: 3, micro_batch: 128 };
    let [first, second] = [0, 1].map(Sequence);
    let check = &mut |backend: &mut dyn Backend| {
        let compute = |sequence: Sequence, positions: Range<usize>, backend: &mut dyn Backend| {
            let row = |position: usize| Row {
                token: Token(300 + position as i32),
                position,
                sequence,
                wants_logits: false,
            };
            backend.mtp().expect("it has heads").follow(&[first, second]);
            backend.decode(&positions.map(row).collect::<Vec<_>>()).unwrap();
        };
        compute(first, 0..100, backend);
        compute(second, 0..60, backend);
        compute(second, 60..104, backend);
        let heads = backend.mtp().unwrap();
        assert_eq!([first, second].map(|it| heads.lacks(it)), [Some(100), Some(104)]);
        heads.read(second, 50).unwrap();
        assert_eq!(heads.lacks(second), Some(54));
        backend.remove(second, 100..104).unwrap(); // Wrong guesses of the model's.
        let heads = backend.mtp().unwrap();
        assert_eq!(heads.lacks(second), Some(50));
        let rows = [first, second].map(|sequence| GuessRow { sequence, token: Token(7) });
        let guesses = |heads: &mut dyn Mtp| {
            [0, 1].map(|row| {
                let logits = heads.logits(row).iter().enumerate();
                logits.max_by(|a, b| a.1.total_cmp(b.1)).map(|(at, _)| at)
            })
        };
        let mut seen = Vec::new();
        for _ in 0..2 {
            heads.begin(&rows).unwrap();
            let [one, other] = guesses(heads);
            assert_eq!(one, other);
            heads.go_on(&rows).unwrap();
            let [next, other] = guesses(heads);
            assert_eq!(next, other);
            assert_eq!([first, second].map(|it| heads.lacks(it)), [Some(0), Some(0)]);
            seen.push((one, next)); // The second time, the first guesses are dropped.
        }
        assert_eq!(seen[0], seen[1]);
        backend.clear(first);
        assert_eq!(backend.mtp().unwrap().lacks(first), None);
    };
    model.with_context(shape, check).unwrap();
}
