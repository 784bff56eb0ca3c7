//! The engine's promises on llama.cpp: one model file of every memory family, and the bundled
//! model.

#![cfg(feature = "llama")]

mod support;

use std::sync::Arc;
use std::time::SystemTime;

use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};
use hob_runtime::backend::{Backend, ContextShape, JoinedState, MemoryKind, Row, Sequence};
use hob_runtime::{Engine, EngineOptions, Model, Purpose, TurnRequest};
use hob_slots::{Timestamp, Token};
use parking_lot::Mutex;
use support::*;

const FAMILIES: [(&str, MemoryKind); 6] = [
    ("hob-tiny-f16.gguf", MemoryKind::Plain),
    ("fixtures/qwen2.gguf", MemoryKind::Plain),
    ("fixtures/qwen3.gguf", MemoryKind::Plain),
    ("fixtures/gemma3.gguf", MemoryKind::Windowed),
    ("fixtures/lfm2.gguf", MemoryKind::Hybrid),
    ("fixtures/mamba.gguf", MemoryKind::Recurrent),
];

/// Longer than gemma3's window of 128.
fn story(model: &Arc<dyn Model>) -> Vec<Token> {
    tokens(model, &user(&"My locker code is 48213. The capital of France is Paris. ".repeat(12)))
}

#[test]
fn every_memory_family_is_recognised() {
    for (file, memory) in FAMILIES {
        assert_eq!(load(file).facts().memory, memory, "{file}");
    }
}

#[test]
fn attention_over_kv_of_16_bit_takes_tiles_where_memory_is_plain() {
    for (file, memory) in FAMILIES {
        let model = load(file);
        let takes_tiles = memory.is_plain() && model.offload().is_none();
        assert_eq!(model.facts().attention_tile.is_some(), takes_tiles, "{file}");
    }
    let [cache_type_k, cache_type_v] = ["q8_0"; 2].map(str::to_owned);
    let options = LlamaOptions { threads: 1, cache_type_k, cache_type_v, ..Default::default() };
    let model = LlamaModel::load(&asset("hob-tiny-f16.gguf"), options).expect("the model loads");
    assert_eq!(model.facts().attention_tile, None);
}

#[test]
fn save_restart_restore_and_64_greedy_tokens_equal_those_of_a_run_that_was_never_interrupted() {
    for (file, memory) in FAMILIES {
        let model = load(file);
        let never = engine(&model, None, options());
        let first = ask(&never, endless("chat", &story(&model), 24));
        let prompt = then(&model, &first.timeline, "What is my locker code?");
        settle(&never);
        let expected = ask(&never, endless("chat", &prompt, 64));
        assert!(expected.report.tokens.shared > 0, "{file} went on where it stopped");
        never.shutdown();

        let directory = tempfile::tempdir().unwrap();
        let before = engine(&model, Some(directory.path()), options());
        let first_again = ask(&before, endless("chat", &story(&model), 24));
        assert_eq!(first_again.tokens, first.tokens, "{file} is deterministic");
        before.shutdown();
        drop((before, model));

        let model = load(file);
        let after = engine(&model, Some(directory.path()), options());
        let answer = ask(&after, endless("chat", &prompt, 64));
        let counts = answer.report.tokens;
        assert_eq!(counts.disk, first.timeline.len(), "{file} ({memory}): {:?}", answer.report);
        assert_eq!(counts.computed, prompt.len() - first.timeline.len(), "{file}");
        assert_eq!(answer.tokens, expected.tokens, "{file} ({memory})");
        after.shutdown();
    }
}

#[test]
fn a_conversation_continues_from_a_warm_prefix_and_from_a_speculation() {
    for (file, memory) in FAMILIES {
        let model = load(file);
        let directory = tempfile::tempdir().unwrap();
        let prefix = story(&model);
        let heard = [&prefix[..], &tokens(&model, "What is my")].concat();
        let prompt = [&heard[..], &tokens(&model, " locker code?")].concat();
        let alone = engine(&model, None, options());
        ask(&alone, endless("chat", &prefix, 0)); // Equal micro-batches.
        ask(&alone, endless("chat", &heard, 0));
        let expected = ask(&alone, endless("chat", &prompt, 32));
        for start in 0..2 {
            let engine = engine(&model, Some(directory.path()), options());
            let ahead = |conversation, prompt: &[Token], purpose| {
                let request = TurnRequest { purpose, ..endless(conversation, prompt, 0) };
                ask(&engine, request).report.tokens
            };
            let warmed = ahead("__system_prefix__", &prefix, Purpose::Prewarm);
            assert_eq!(warmed.computed, if start == 0 { prefix.len() } else { 0 }, "{file}");
            let name = format!("chat {start}");
            let spoken = ahead(&name, &heard, Purpose::Speculate);
            assert_eq!(spoken.computed, heard.len() - prefix.len(), "{file} ({memory})");
            let answer = ask(&engine, endless(&name, &prompt, 32));
            let computed = answer.report.tokens.computed;
            assert_eq!(computed, prompt.len() - heard.len(), "{file} ({memory})");
            assert_eq!(answer.tokens, expected.tokens, "{file} ({memory})");
            engine.shutdown();
        }
    }
}

#[test]
fn prompts_that_begin_alike_and_arrive_at_once_answer_as_if_each_were_alone() {
    for (file, memory) in FAMILIES {
        let model = load(file);
        let rules = story(&model);
        let prompts = ["What is my locker code?", "What is the capital of France?"]
            .map(|question| then(&model, &rules, question));
        let gate = Arc::new(Mutex::new(()));
        let passed = gate.clone();
        let clock = move || {
            drop(passed.lock());
            Timestamp::from(SystemTime::now())
        };
        let crowded = engine(&model, None, EngineOptions { clock: Arc::new(clock), ..options() });
        let held = gate.lock(); // The engine reads its clock before it admits a turn.
        let turns =
            [0, 1].map(|n| crowded.submit(endless(&format!("chat {n}"), &prompts[n], 16)).unwrap());
        drop(held);
        let answers = turns.map(|turn| finish(turn).unwrap());
        let shared: usize = answers.iter().map(|answer| answer.report.tokens.shared).sum();
        let expected = rules.len();
        assert!((expected..=expected + 20).contains(&shared), "{file}: {shared} of {expected}");
        crowded.shutdown();
        for (prompt, answer) in prompts.iter().zip(answers) {
            let alone = engine(&model, None, options());
            ask(&alone, endless("chat", &rules, 0)); // Equal micro-batches.
            let expected = ask(&alone, endless("chat", prompt, 16));
            assert_eq!(answer.tokens, expected.tokens, "{file} ({memory})");
            alone.shutdown();
        }
    }
}

#[test]
fn a_cold_turn_computes_everything_answers_the_same_and_loses_nothing() {
    for (file, memory) in FAMILIES {
        let model = load(file);
        let alone = engine(&model, None, options());
        let prompt = story(&model);
        let expected = ask(&alone, endless("chat", &prompt, 16));
        alone.shutdown();
        let directory = tempfile::tempdir().unwrap();
        for start in 0..2 {
            let engine = engine(&model, Some(directory.path()), options());
            if start == 0 {
                ask(&engine, endless("chat", &prompt, 16)); // Hot the first time, then on disk.
            }
            let cold = TurnRequest { cold: true, ..endless("chat", &prompt, 16) };
            let answer = ask(&engine, cold);
            assert_eq!(answer.report.tokens.computed, prompt.len(), "{file} ({memory})");
            assert_eq!(answer.tokens, expected.tokens, "{file} ({memory})");
            assert_eq!(answer.report.miss, None, "{file} ({memory})");
            engine.shutdown();
        }
        let engine = engine(&model, Some(directory.path()), options());
        let next = then(&model, &expected.timeline, "What is my locker code?");
        let counts = ask(&engine, endless("chat", &next, 4)).report.tokens;
        assert_eq!(counts.disk, expected.timeline.len(), "{file} ({memory})");
        engine.shutdown();
    }
}

#[test]
fn reloaded_weights_give_the_same_answer() {
    for (file, memory) in FAMILIES {
        let model = load(file);
        let directory = tempfile::tempdir().unwrap();
        let engine = engine(&model, Some(directory.path()), options());
        let first = ask(&engine, endless("chat", &story(&model), 16));
        assert!(block_on(engine.unload()), "{file}");
        // The vocabulary stays.
        let prompt = then(&model, &first.timeline, "What is my locker code?");
        let answer = ask(&engine, endless("chat", &prompt, 32));
        let counts = answer.report.tokens;
        assert_eq!(counts.disk + counts.memory, first.timeline.len(), "{file} ({memory})");

        let never = support::engine(&model, None, options());
        ask(&never, endless("chat", &story(&model), 16));
        assert_eq!(answer.tokens, ask(&never, endless("chat", &prompt, 32)).tokens, "{file}");
        // A backend that is a file may be gone before a thread that still computes with it.
        engine.shutdown();
        never.shutdown();
    }
}

#[test]
fn replaced_weights_are_refused_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    std::fs::copy(asset("fixtures/qwen2.gguf"), &path).unwrap();
    let model = Arc::new(LlamaModel::load(&path, LlamaOptions::default()).unwrap());
    let model: Arc<dyn Model> = model;
    let engine = engine(&model, None, options());
    assert!(block_on(engine.unload()));
    std::fs::copy(asset("fixtures/qwen3.gguf"), &path).unwrap();
    let turn = engine.submit(endless("chat", &story(&model), 4)).unwrap();
    let error = finish(turn).unwrap_err().to_string();
    assert!(error.contains("has changed") && error.contains("model.gguf"), "{error}");
}

#[test]
fn a_parked_conversation_comes_back_bit_exactly() {
    for (file, memory) in FAMILIES {
        let model = load(file);
        let engine = engine(&model, None, options());
        let prompts: Vec<_> = (0..3)
            .map(|n| tokens(&model, &user(&format!("My favorite number is {n}. ").repeat(15))))
            .collect();
        let firsts: Vec<_> = prompts
            .iter()
            .enumerate()
            .map(|(n, prompt)| ask(&engine, endless(&format!("chat {n}"), prompt, 16)))
            .collect();
        let prompt = then(&model, &firsts[0].timeline, "What is my favorite number?");
        let back = ask(&engine, endless("chat 0", &prompt, 32));
        let counts = back.report.tokens;
        assert_eq!(counts.computed, prompt.len() - firsts[0].timeline.len(), "{file} ({memory})");
        assert!(counts.memory > counts.shared, "{file} ({memory}): {:?}", back.report);

        let alone = support::engine(&model, None, options());
        let first = ask(&alone, endless("chat 0", &prompts[0], 16));
        assert_eq!(first.tokens, firsts[0].tokens, "{file} ({memory})");
        settle(&alone);
        let expected = ask(&alone, endless("chat 0", &prompt, 32));
        // A device rounds a row otherwise in a micro-batch of another length: `devices` compares there.
        if model.offload().is_none() {
            assert_eq!(back.tokens, expected.tokens, "{file} ({memory})");
        }
    }
}

#[test]
fn regenerate_and_an_edited_message_do_not_start_from_nothing_after_a_restart() {
    for (file, memory) in FAMILIES {
        let model = load(file);
        let directory = tempfile::tempdir().unwrap();
        let before = engine(&model, Some(directory.path()), options());
        let first = ask(&before, endless("chat", &story(&model), 16));
        settle(&before);
        let second = then(&model, &first.timeline, "What is my locker code?");
        let answer = ask(&before, endless("chat", &second, 16));
        before.shutdown();

        let after = engine(&model, Some(directory.path()), options());
        let again = ask(&after, endless("chat", &second, 16));
        let most = if memory.can_drop_newest() { 1 } else { options().micro_batch };
        assert!(again.report.tokens.computed <= most, "{file} ({memory}): {:?}", again.report);
        assert_eq!(again.tokens.len(), answer.tokens.len());
        after.shutdown();

        let later = engine(&model, Some(directory.path()), options());
        let edited = then(&model, &first.timeline, "What is the capital of France?");
        let answer = ask(&later, endless("chat", &edited, 16));
        let kept = answer.report.tokens.disk;
        assert!(kept >= first.timeline.len(), "{file} ({memory}): {:?}", answer.report);
        later.shutdown();
    }
}

#[test]
fn another_answer_and_an_edit_are_the_same_in_the_slot_and_after_a_restart() {
    for (file, memory) in FAMILIES {
        let model = load(file);
        let told = |engine: &Engine| {
            let first = ask(engine, endless("chat", &story(&model), 16)).timeline;
            settle(engine);
            let second = then(&model, &first, "What is my locker code?");
            let answer = ask(engine, endless("chat", &second, 16)).tokens;
            settle(engine);
            (second, then(&model, &first, "What is the capital of France?"), answer)
        };
        let never = engine(&model, None, options());
        let (second, edited, answer) = told(&never);
        let again = ask(&never, endless("chat", &second, 32));
        let most = if memory.can_drop_newest() { 1 } else { options().micro_batch };
        assert!(again.report.tokens.computed <= most, "{file} ({memory}): {:?}", again.report);
        assert!(again.report.tokens.shared > 0, "{file} ({memory}): {:?}", again.report);
        if !memory.can_drop_newest() {
            // It computes the micro-batch again that the answer began with.
            assert_eq!(again.tokens[..16], answer, "{file} ({memory})");
        }
        settle(&never);
        let other = ask(&never, endless("chat", &edited, 32));
        never.shutdown();

        for prompt_again in [true, false] {
            let directory = tempfile::tempdir().unwrap();
            let before = engine(&model, Some(directory.path()), options());
            let told_again = (second.clone(), edited.clone(), answer.clone());
            assert_eq!(told(&before), told_again, "{file} ({memory})");
            before.shutdown();
            let after = engine(&model, Some(directory.path()), options());
            let (prompt, expected) =
                if prompt_again { (&second, &again) } else { (&edited, &other) };
            let answer = ask(&after, endless("chat", prompt, 32));
            assert!(answer.report.tokens.disk > 0, "{file} ({memory}): {:?}", answer.report);
            assert_eq!(answer.tokens, expected.tokens, "{file} ({memory}), again: {prompt_again}");
            after.shutdown();
        }
    }
}

#[test]
fn a_turn_writes_the_kv_of_its_new_tokens_and_at_most_one_snapshot_of_the_rest() {
    for (file, memory) in FAMILIES {
        let model = load(file);
        let (kv_bytes, rest_bytes) = state_bytes(&model);
        let directory = tempfile::tempdir().unwrap();
        let engine = engine(&model, Some(directory.path()), options());
        let mut timeline = ask(&engine, endless("chat", &story(&model), 24)).timeline;
        for turn in 0..2 {
            settle(&engine);
            let before = status(&engine).counters.written_bytes;
            let question = "What is my locker code, and what is the capital? ".repeat(24);
            let prompt = then(&model, &timeline, &question);
            let longer = ask(&engine, endless("chat", &prompt, 24)).timeline;
            settle(&engine);
            let written = (status(&engine).counters.written_bytes - before) as f64;
            let new = (longer.len() - timeline.len()) as f64;
            // The slot file has the tokens; these models have small cells.
            let slot_file = 8.0 * longer.len() as f64 + 1024.0;
            let most = 1.2 * kv_bytes * new + rest_bytes + slot_file;
            assert!(written <= most, "{file} ({memory}), turn {turn}: {written} of {most} bytes");
            timeline = longer;
        }
        engine.shutdown();
    }
}

/// Bytes of a token's cells, and of the rest of a long sequence.
fn state_bytes(model: &Arc<dyn Model>) -> (f64, f64) {
    let shape = ContextShape { context_tokens: 1024, sequences: 3, micro_batch: 128 };
    let (sequence, scratch) = (Sequence(0), Sequence(1));
    let mut bytes = (0.0, 0.0);
    let measure = &mut |backend: &mut dyn Backend| {
        for start in [0, 128, 256, 384] {
            let row = |position: usize| Row {
                token: Token(300 + position as i32 % 100),
                position,
                sequence,
                wants_logits: false,
            };
            backend.decode(&(start..start + 128).map(row).collect::<Vec<_>>()).unwrap();
        }
        if backend.has_ranges() {
            let mut cells = |end| {
                backend.share(sequence, scratch, 0..end);
                let state = backend.export_cells(scratch, Vec::new()).unwrap();
                backend.clear(scratch);
                state.len() as f64
            };
            bytes.0 = (cells(256) - cells(128)) / 128.0;
        }
        if !model.facts().memory.is_plain() {
            bytes.1 = backend.export_rest(sequence).unwrap().len() as f64;
        }
    };
    model.with_context(shape, measure).unwrap();
    bytes
}

#[test]
fn joined_states_equal_llama_cpps_state_of_all_cells_byte_for_byte() {
    for (file, _) in FAMILIES.iter().filter(|(_, memory)| memory.is_plain()) {
        let model = load(file);
        let shape = ContextShape { context_tokens: 512, sequences: 3, micro_batch: 128 };
        let (sequence, scratch, other) = (Sequence(0), Sequence(1), Sequence(2));
        let row = |position: usize| Row {
            token: Token(300 + position as i32 % 100),
            position,
            sequence,
            wants_logits: false,
        };
        let check = &mut |backend: &mut dyn Backend| {
            let states = |range: std::ops::Range<usize>, backend: &mut dyn Backend| {
                backend.share(sequence, scratch, range);
                let state = backend.export(scratch, Vec::new()).unwrap();
                backend.clear(scratch);
                state
            };
            backend.decode(&(0..128).map(row).collect::<Vec<_>>()).unwrap();
            let mut joined = JoinedState::with_room(200, Vec::new());
            for range in [10..64, 64..65, 65..128] {
                assert!(model.append_state(&mut joined, &states(range, backend)), "{file}");
            }
            model.seal_state(&mut joined);
            assert!(joined.as_bytes() == states(10..128, backend), "{file}");
            backend.import(other, joined.as_bytes()).unwrap();
            assert_eq!(backend.end(other), 128, "{file}");
        };
        model.with_context(shape, check).unwrap();
    }
}

#[test]
fn the_bundled_model_remembers_what_it_was_told_across_a_restart() {
    let model = load("hob-tiny-f16.gguf");
    let directory = tempfile::tempdir().unwrap();
    let before = engine(&model, Some(directory.path()), options());
    let told = tokens(&model, &user("My locker code is 48213."));
    let first = ask(&before, request("chat", &told, 40));
    before.shutdown();

    let after = engine(&model, Some(directory.path()), options());
    let prompt = then(&model, &first.timeline, "What is my locker code?");
    let answer = ask(&after, request("chat", &prompt, 40));
    assert_eq!(answer.text, "Your locker code is 48213.");
    assert_eq!(answer.report.tokens.computed, prompt.len() - first.timeline.len());
    after.shutdown();
}

#[test]
fn an_invalid_model_file_gives_a_one_line_error_with_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("not-a-model.gguf");
    std::fs::write(&path, b"GGUF but not really").unwrap();
    let error = LlamaModel::load(&path, LlamaOptions::default()).err().expect("it is refused");
    let message = error.to_string();
    assert!(message.contains("not-a-model.gguf") && !message.contains('\n'), "{message}");
}

#[test]
fn an_unknown_cache_type_is_refused_with_the_known_ones() {
    let options = LlamaOptions { cache_type_k: "f17".to_owned(), ..LlamaOptions::default() };
    let error =
        LlamaModel::load(&asset("hob-tiny-f16.gguf"), options).err().expect("it is refused");
    assert!(error.to_string().contains("q8_0"), "{error}");
}

#[test]
fn quantised_caches_restore_as_exactly() {
    let options8 = LlamaOptions {
        threads: 1,
        cache_type_k: "q8_0".to_owned(),
        cache_type_v: "q8_0".to_owned(),
        ..LlamaOptions::default()
    };
    let model = LlamaModel::load(&asset("hob-tiny-f16.gguf"), options8).unwrap();
    let model: Arc<dyn Model> = Arc::new(model);
    let engine = engine(&model, None, EngineOptions { slots: 1, ..options() });
    let first = ask(&engine, endless("one", &story(&model), 16));
    ask(&engine, endless("two", &tokens(&model, &user("Hello.")), 4));
    let prompt = then(&model, &first.timeline, "What is my locker code?");
    let back = ask(&engine, endless("one", &prompt, 16));
    assert_eq!(back.report.tokens.memory, first.timeline.len());
    engine.shutdown(); // See `reloaded_weights_give_the_same_answer`.
}
