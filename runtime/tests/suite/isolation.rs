//! Four conversations interleaved over two slots for fifty turns each, on llama.cpp with the
//! bundled model: every answer equals the answer of the same conversation run alone.
//!
//! Each conversation contains values of its own and is asked for them later, so a cell that leaks
//! from one into another gives a wrong answer.

#![cfg(feature = "llama")]

use hob_runtime::EngineOptions;
use hob_slots::Token;

use crate::support::*;

const CONVERSATIONS: usize = 4;
const TURNS: usize = 50;

/// What conversation `n` says in turn `turn`, in the words that the model was trained on.
fn says(n: usize, turn: usize) -> String {
    match turn % 5 {
        0 => format!("My locker code is {}.", 10_007 * (n + 1) + turn),
        1 => "What is my locker code?".to_owned(),
        2 => format!("My favorite number is {}.", 11 * (n + 1) + turn),
        3 => "What is the capital of France?".to_owned(),
        _ => "What is my favorite number?".to_owned(),
    }
}

fn wide() -> EngineOptions {
    EngineOptions { context_tokens: 8192, ..options() }
}

#[test]
fn every_answer_equals_that_of_the_same_conversation_run_alone() {
    let model = load("hob-tiny-f16.gguf");
    let directory = tempfile::tempdir().unwrap();
    let crowded = engine(&model, Some(directory.path()), wide());
    let alone: Vec<_> = (0..CONVERSATIONS).map(|_| engine(&model, None, wide())).collect();
    let mut timelines: Vec<Vec<Token>> = vec![Vec::new(); CONVERSATIONS];
    for turn in 0..TURNS {
        let prompts: Vec<Vec<Token>> =
            (0..CONVERSATIONS).map(|n| then(&model, &timelines[n], &says(n, turn))).collect();
        // All at once: two run together in every micro-batch, two wait and take their slots.
        let turns: Vec<_> = prompts
            .iter()
            .enumerate()
            .map(|(n, prompt)| crowded.submit(request(&format!("chat {n}"), prompt, 24)).unwrap())
            .collect();
        for (n, running) in turns.into_iter().enumerate() {
            let answer = finish(running).unwrap();
            let expected = ask(&alone[n], request("alone", &prompts[n], 24));
            assert_eq!(answer.text, expected.text, "conversation {n}, turn {turn}");
            assert_eq!(answer.report.miss, None, "conversation {n}, turn {turn}");
            timelines[n] = answer.timeline;
        }
    }
    let counters = status(&crowded).counters;
    assert!(counters.parked as usize >= TURNS, "they took turns: {counters:?}");
    assert_eq!((counters.import_failures, counters.wasted_restores), (0, 0));
    crowded.shutdown();
}
