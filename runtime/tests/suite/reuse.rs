//! What a turn reuses of earlier ones: hot cells, memory and disk; and what it computes instead.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hob_runtime::backend::MemoryKind;
use hob_runtime::backend::fake::FakeModel;
use hob_runtime::sample::Sampling;
use hob_runtime::{EngineOptions, MissReason, Model, Purpose, TurnRequest};
use hob_slots::Token;
use hob_slots::store::StoreReader;

use crate::support::held::MicroBatches;
use crate::support::wait::until;
use crate::support::*;
use crate::write_behind::rigged_disk::{RiggedDisk, on};

#[test]
fn a_follow_up_turn_computes_only_its_own_tokens() {
    let model = fake();
    let engine = engine(&model, None, options());
    let first = ask(&engine, request("chat", &tokens(&model, &user("hello")), 40));
    settle(&engine); // The end of the answer is computed behind it.
    let prompt = then(&model, &first.timeline, "and now?");
    let second = ask(&engine, request("chat", &prompt, 40));

    let new = prompt.len() - first.timeline.len();
    assert_eq!(second.report.tokens.computed, new, "{:?}", second.report);
    assert_eq!(second.report.tokens.prompt(), prompt.len());
    assert_eq!(second.report.miss, None);
    assert_eq!(second.tokens, alone(&model, &prompt, 40));
}

#[test]
fn conversations_with_a_common_prefix_share_its_cells() {
    let model = fake();
    let engine = engine(&model, None, options());
    let system = "<|im_start|>system\nYou are a careful assistant.<|im_end|>\n".repeat(4);
    let one = tokens(&model, &format!("{system}{}", user("first")));
    let other = tokens(&model, &format!("{system}{}", user("second")));
    ask(&engine, request("one", &one, 8));
    let answer = ask(&engine, request("other", &other, 8));

    let common = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
    assert_eq!(answer.report.tokens.shared, common);
    assert_eq!(answer.tokens, alone(&model, &other, 8));
}

#[test]
fn the_longest_idle_of_too_many_conversations_is_parked_and_restored() {
    for memory in [MemoryKind::Plain, MemoryKind::Windowed, MemoryKind::Recurrent] {
        let model = of_memory(memory);
        let engine = engine(&model, None, options());
        let firsts: Vec<_> = ["one", "two", "three"]
            .iter()
            .map(|name| ask(&engine, request(name, &tokens(&model, &user(name)), 20)))
            .collect();
        let prompt = then(&model, &firsts[0].timeline, "still there?");
        let back = ask(&engine, request("one", &prompt, 20));

        let new = prompt.len() - firsts[0].timeline.len();
        assert_eq!(back.report.tokens.computed, new, "{memory}: {:?}", back.report);
        assert!(back.report.tokens.memory > new, "{memory}: {:?}", back.report);
        assert_eq!(back.tokens, alone(&model, &prompt, 20), "{memory}");
    }
}

#[test]
fn a_restore_behind_shared_tokens_fits_a_cache_that_has_no_room_for_two_blocks_more() {
    let model = fake();
    let engine = engine(&model, None, EngineOptions { context_tokens: 140, ..options() });
    let said = tokens(&model, &"a long story ".repeat(9)[..108]);
    let first = ask(&engine, request("chat", &said, 8));
    settle(&engine);
    block_on(engine.park(name("chat")));
    // Its first 54 tokens are in the cells of another conversation, in the middle of the first block.
    ask(&engine, request("other", &[&said[..54], &tokens(&model, "!?")[..]].concat(), 1));
    let prompt = [&first.timeline[..], &tokens(&model, "and how does it end?")[..]].concat();
    let back = ask(&engine, request("chat", &prompt, 1));

    let new = prompt.len() - first.timeline.len();
    let counts = back.report.tokens;
    assert_eq!((counts.shared, counts.computed), (54, new), "{:?}", back.report);
    assert_eq!(back.tokens, alone(&model, &prompt, 1));
}

#[test]
fn a_conversation_resumes_from_disk_after_a_restart_and_computes_only_new_tokens() {
    for memory in MEMORIES {
        let model = of_memory(memory);
        let mut disk = OnDisk::new(&model);
        let long = "a long story ".repeat(20);
        let first = ask(&disk.engine, request("chat", &tokens(&model, &user(&long)), 30));
        disk.restart();
        let prompt = then(&model, &first.timeline, "go on");
        let answer = ask(&disk.engine, request("chat", &prompt, 30));
        let counts = answer.report.tokens;
        assert_eq!(counts.disk, first.timeline.len(), "{memory}: {:?}", answer.report);
        assert_eq!(counts.computed, prompt.len() - first.timeline.len(), "{memory}");
        assert_eq!(answer.report.miss, None, "{memory}");
        assert_eq!(answer.tokens, alone(&model, &prompt, 30), "{memory}");
    }
}

#[test]
fn a_restore_that_times_out_is_computed_instead() {
    for memory in [MemoryKind::Plain, MemoryKind::Hybrid] {
        let model = of_memory(memory);
        let mut disk = OnDisk::new(&model);
        let first =
            ask(&disk.engine, request("chat", &tokens(&model, &user(&"hello ".repeat(80))), 8));
        disk.restart_with(EngineOptions { restore_patience: Duration::ZERO, ..options() });
        let prompt = then(&model, &first.timeline, "and now?");
        let answer = ask(&disk.engine, request("chat", &prompt, 40));
        assert_eq!(answer.tokens, alone(&model, &prompt, 40), "{memory}");
        assert_eq!(answer.report.tokens.prompt(), prompt.len(), "{memory}");

        disk.restart();
        let prompt = then(&model, &answer.timeline, "why?");
        let later = ask(&disk.engine, request("chat", &prompt, 8));
        assert_eq!(later.report.tokens.disk, answer.timeline.len(), "all of it is saved: {memory}");
    }
}

#[test]
fn a_restore_whose_data_arrives_during_a_longer_micro_batch_is_used() {
    const PATIENCE: Duration = Duration::from_secs(1);
    for memory in [MemoryKind::Plain, MemoryKind::Hybrid] {
        let batches = MicroBatches::default();
        let model = batches.of(FakeModel::new().with_memory(memory));
        let (disk, directory) = (Arc::new(RiggedDisk::default()), empty_directory());
        let small = EngineOptions { micro_batch: 64, restore_patience: PATIENCE, ..options() };
        let before = on(&disk, directory.path(), &model, small.clone());
        let first = ask(&before, request("chat", &tokens(&model, &user(&"hello ".repeat(40))), 0));
        before.shutdown();
        let engine = on(&disk, directory.path(), &model, small);
        let other = tokens(&model, &user(&"good evening ".repeat(30)));
        let (beside, paused) = batches.first_of(&engine, request("other", &other, 0));
        disk.hold_objects.store(true, Ordering::SeqCst);
        let prompt = then(&model, &first.timeline, "and now?");
        let (turn, paused) =
            paused.step_during(|| engine.submit(request("chat", &prompt, 0)).unwrap());
        until("a block is to be read", || disk.is_object_held.load(Ordering::SeqCst));
        disk.hold_objects.store(false, Ordering::SeqCst);
        std::thread::sleep(PATIENCE); // The reader has delivered all of it long before.
        drop(paused);
        let report = finish(turn).unwrap().report;
        assert_eq!(report.tokens.cached(), first.timeline.len(), "{memory}: {report:?}");
        assert_eq!(report.miss, None, "{memory}");
        finish(beside).unwrap();
        engine.shutdown();
    }
}

#[test]
fn a_record_counts_the_turns_of_its_conversation_also_across_restarts() {
    let model = fake();
    let mut disk = OnDisk::new(&model);
    let mut prompt = tokens(&model, &user("hello"));
    for turns in 1..=4 {
        let answer = ask(&disk.engine, request("chat", &prompt, 8));
        settle(&disk.engine);
        prompt = then(&model, &answer.timeline, "and now?");
        let answer = ask(&disk.engine, request("chat", &prompt, 8));
        prompt = then(&model, &answer.timeline, "and then?");
        block_on(disk.engine.park(name("chat")));
        disk.restart();
        let store = StoreReader::open(disk.path()).unwrap();
        let record = store.get_slot(FINGERPRINT, &name("chat")).unwrap();
        assert_eq!(record.turns, 2 * turns);
    }
}

#[test]
fn regenerate_computes_one_token_or_one_micro_batch_also_after_a_restart() {
    for memory in MEMORIES {
        let model = of_memory(memory);
        let prompt = tokens(&model, &user(&"tell me something ".repeat(9)));
        let last_batch = (prompt.len() - 1) % options().micro_batch + 1;
        let computed = if memory.can_drop_newest() { 1 } else { last_batch };
        let mut disk = OnDisk::new(&model);
        let first = ask(&disk.engine, request("chat", &prompt, 30));
        let again = ask(&disk.engine, request("chat", &prompt, 30));
        assert_eq!(again.report.tokens.computed, computed, "{memory}: {:?}", again.report);
        assert_eq!(again.tokens, first.tokens);
        assert_eq!(again.report.miss, None);
        disk.restart();
        let again = ask(&disk.engine, request("chat", &prompt, 30));
        assert_eq!(again.report.tokens.computed, computed, "{memory}: {:?}", again.report);
        assert_eq!(again.tokens, first.tokens);
    }
}

#[test]
fn regenerate_computes_as_little_after_a_chat_has_left_its_slot_with_words_typed_ahead() {
    for memory in MEMORIES {
        let model = of_memory(memory);
        let prompt = tokens(&model, &user(&"tell me something ".repeat(9)));
        let last_batch = (prompt.len() - 1) % options().micro_batch + 1;
        let computed = if memory.can_drop_newest() { 1 } else { last_batch };
        let mut disk = OnDisk::new(&model);
        let first = ask(&disk.engine, request("chat", &prompt, 30));
        settle(&disk.engine);
        for words in ["and", "and what"] {
            let typed = then(&model, &first.timeline, words);
            ask(&disk.engine, TurnRequest::prefill(name("chat"), typed, Purpose::Speculate));
        }
        block_on(disk.engine.park(name("chat")));
        assert_eq!(disk.record("chat").tokens, first.timeline, "{memory}");
        let again = ask(&disk.engine, request("chat", &prompt, 30));
        assert_eq!(again.report.tokens.computed, computed, "{memory}: {:?}", again.report);
        assert_eq!(again.tokens, first.tokens, "{memory}");

        let typed = then(&model, &again.timeline, "and");
        ask(&disk.engine, TurnRequest::prefill(name("chat"), typed, Purpose::Speculate));
        disk.restart();
        let again = ask(&disk.engine, request("chat", &prompt, 30));
        assert_eq!(again.report.tokens.computed, computed, "{memory}: {:?}", again.report);
    }
}

#[test]
fn a_turn_that_computes_nothing_leaves_the_end_of_the_answer_before_it() {
    let model = fake();
    let engine = engine(&model, None, options());
    let prompt = tokens(&model, &user("hello"));
    let timeline = [prompt.clone(), alone(&model, &prompt, 10)].concat();
    let next = then(&model, &timeline, "and now?");
    let first = engine.submit(request("chat", &prompt, 10)).unwrap();
    let restore = TurnRequest { restores_only: true, ..request("chat", &next, 0) };
    let restore = engine.submit(restore).unwrap();
    assert_eq!(finish(first).unwrap().timeline, timeline);
    finish(restore).unwrap();
    settle(&engine);

    let report = ask(&engine, request("chat", &next, 10)).report;
    assert_eq!(report.tokens.computed, next.len() - timeline.len(), "{report:?}");
}

/// Also where nothing was saved of the answer when the other one was asked for, and where the other one
/// repeats it and goes on.
#[test]
fn after_another_answer_the_one_before_goes_on_and_computes_only_new_tokens() {
    let seeded = Sampling { seed: Some(7), ..Sampling::default() };
    let memories = [MemoryKind::Plain, MemoryKind::Windowed, MemoryKind::Recurrent];
    for (memory, most, sampling) in memories.into_iter().flat_map(|memory| {
        [(1, Sampling::greedy()), (1, seeded.clone()), (9, Sampling::greedy()), (9, seeded.clone())]
            .map(|(most, sampling)| (memory, most, sampling))
    }) {
        let model = of_memory(memory);
        let disk = OnDisk::new(&model);
        let prompt = tokens(&model, &user(&"tell me something ".repeat(9)));
        let first = disk.engine.submit(request("chat", &prompt, most)).unwrap();
        let other = TurnRequest { sampling, ..request("chat", &prompt, 30) };
        let other = disk.engine.submit(other).unwrap();
        let (first, _) = (finish(first).unwrap(), finish(other).unwrap());

        let next = then(&model, &first.timeline, "and then?");
        let report = ask(&disk.engine, request("chat", &next, 3)).report;
        let new = next.len() - first.timeline.len();
        assert_eq!(report.tokens.computed, new, "{memory}, {most} tokens: {report:?}");
    }
}

/// The timeline of a first turn and the prompt of a second one, which an engine answered before a restart.
fn two_turns(model: &Arc<dyn Model>) -> (OnDisk, Vec<Token>, Vec<Token>) {
    let mut disk = OnDisk::new(model);
    let first = ask(&disk.engine, request("chat", &tokens(model, &user("the first words")), 30));
    let second = then(model, &first.timeline, "a question");
    ask(&disk.engine, request("chat", &second, 30));
    disk.restart();
    (disk, first.timeline, second)
}

#[test]
fn an_edit_after_a_regenerated_answer_still_finds_the_turn_before() {
    for memory in [MemoryKind::Plain, MemoryKind::Windowed, MemoryKind::Recurrent] {
        let model = of_memory(memory);
        let (mut disk, first, second) = two_turns(&model);
        ask(&disk.engine, request("chat", &second, 30));

        disk.restart();
        let edited = then(&model, &first, "another question");
        let answer = ask(&disk.engine, request("chat", &edited, 30));
        assert!(answer.report.tokens.disk >= first.len(), "{memory}: {:?}", answer.report);
    }
}

#[test]
fn an_edited_last_message_does_not_start_from_nothing_and_says_where_it_differs() {
    for memory in [MemoryKind::Plain, MemoryKind::Recurrent] {
        let model = of_memory(memory);
        let (disk, first, _) = two_turns(&model);
        let edited = then(&model, &first, "another question");
        let answer = ask(&disk.engine, request("chat", &edited, 30));
        assert!(answer.report.tokens.disk >= first.len(), "{:?}", answer.report);
        let miss = answer.report.miss.expect("part of the old turn is of no use");
        assert_eq!(miss.kind(), "differs", "{miss}");
        assert_eq!(answer.tokens, alone(&model, &edited, 30));
    }
}

#[test]
fn a_hot_conversation_that_diverges_reports_the_tokens_it_had() {
    for memory in [MemoryKind::Plain, MemoryKind::Recurrent] {
        let model = of_memory(memory);
        let engine = engine(&model, None, options());
        let prompt = tokens(&model, &user("what is the time?"));
        let first = ask(&engine, request("chat", &prompt, 30));
        let edited = tokens(&model, &user("what is the date?"));
        let answer = ask(&engine, request("chat", &edited, 30));
        let Some(MissReason::Differs { at, saved }) = answer.report.miss else {
            panic!("{memory}: {:?}", answer.report)
        };
        assert_eq!(prompt[..at], edited[..at]);
        assert_ne!(prompt[at], edited[at]);
        assert!(first.timeline[at..].starts_with(&saved) && !saved.is_empty());
        // A second answer to the same prompt does not diverge.
        assert_eq!(ask(&engine, request("chat", &edited, 30)).report.miss, None);
    }
}

#[test]
fn a_damaged_file_is_a_miss_with_a_reason_and_the_answer_is_the_same() {
    let model = fake();
    let mut disk = OnDisk::new(&model);
    let first =
        ask(&disk.engine, request("chat", &tokens(&model, &user(&"words ".repeat(40))), 20));
    disk.engine.shutdown();
    for object in files::with_extensions(disk.path(), &["kv"]) {
        let mut bytes = std::fs::read(&object).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&object, bytes).unwrap();
    }

    disk.restart();
    let prompt = then(&model, &first.timeline, "go on");
    let answer = ask(&disk.engine, request("chat", &prompt, 20));
    assert_eq!(answer.report.tokens.computed, prompt.len());
    assert!(answer.report.miss.is_some());
    assert_eq!(answer.tokens, alone(&model, &prompt, 20));
}

#[test]
fn a_forgotten_conversation_starts_from_nothing() {
    let model = fake();
    let disk = OnDisk::new(&model);
    let engine = &disk.engine;
    let prompt = tokens(&model, &user("remember me"));
    ask(engine, request("chat", &prompt, 10));
    settle(engine);
    assert_eq!(files::with_extensions(disk.path(), &["bin"]).len(), 1);
    block_on(engine.forget(name("chat"))).unwrap();
    block_on(engine.park(name("chat"))); // Nothing to park; the writer has finished by then.
    settle(engine);
    assert_eq!(files::with_extensions(disk.path(), &["bin"]).len(), 0);
    assert_eq!(files::with_extensions(disk.path(), &["kv"]).len(), 0, "deleted means gone");
    let again = ask(engine, request("chat", &prompt, 10));
    assert_eq!(again.report.tokens.computed, prompt.len());
}
