//! KV that was computed at another place: what of a prompt is moved, what is computed, and who never sees it.

#[cfg(feature = "llama")]
mod alike;
mod heads;
mod short;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hob_runtime::backend::MemoryKind;
use hob_runtime::backend::fake::FakeModel;
use hob_runtime::{EngineOptions, Model, Retention, Reuse, TurnRequest};
use hob_slots::archive::{Archive, ImportOptions, export};
use hob_slots::content::Repair;
use hob_slots::content::repair::HEAD;
use hob_slots::format::SegmentRef;
use hob_slots::store::StoreReader;
use hob_slots::{Layer, Timestamp, Token};
use tempfile::TempDir;

use crate::support::held::MicroBatches;
use crate::support::wait::until;
use crate::support::*;

const TOKENS: usize = 280;

/// Text of so many tokens in which each window occurs once.
fn text(number: usize, tokens: usize) -> String {
    let words = (0..tokens).map(|n| format!("{number}.{n} "));
    words.collect::<String>().chars().take(tokens).collect()
}

fn document(number: usize) -> String {
    text(number, TOKENS)
}

/// A prompt of documents in this order, and a question.
fn prompt(model: &Arc<dyn Model>, order: &[usize]) -> Vec<Token> {
    let texts: Vec<String> = order.iter().map(|&number| document(number)).collect();
    tokens(model, &user(&format!("{}\nWhat?", texts.join("\n"))))
}

/// An engine that has answered the prompt in the conversation `first`, which is saved.
fn with_first(model: &Arc<dyn Model>, prompt: &[Token]) -> OnDisk {
    let tiers = OnDisk::new(model);
    ask(&tiers.engine, request("first", prompt, 8));
    settle(&tiers.engine);
    tiers
}

fn repaired(conversation: &str, prompt: &[Token]) -> TurnRequest {
    TurnRequest { reuse: Reuse::Repaired(Repair::default()), ..request(conversation, prompt, 8) }
}

#[test]
fn documents_in_another_order_are_moved_and_their_heads_computed() {
    let model = fake();
    let (first, other) = (prompt(&model, &[1, 2, 3]), prompt(&model, &[3, 1, 2]));
    let tiers = with_first(&model, &first);
    let answer = ask(&tiers.engine, repaired("other", &other));
    check_sum(&answer, &other);
    let counts = answer.report.tokens;
    assert!(counts.moved > 3 * (TOKENS - HEAD) && counts.moved < 3 * TOKENS, "{counts:?}");
    // The first two stay behind each other.
    assert_eq!(counts.repaired, 2 * HEAD, "{counts:?}");
    assert!(counts.computed < 100, "{counts:?}");
    assert_ne!(answer.tokens, alone(&model, &other, 8), "the fake sees where KV was computed");
    let counters = status(&tiers.engine).counters;
    assert_eq!(counters.moved_tokens, counts.moved as u64);
    assert_eq!(counters.repaired_tokens, counts.repaired as u64);
}

#[test]
fn kv_of_one_repair_has_other_names_than_that_of_another() {
    let model = fake();
    let (first, other) = (prompt(&model, &[1, 2, 3]), prompt(&model, &[3, 2, 1]));
    let tiers = with_first(&model, &first);
    let mut known = Vec::new();
    for (name, repair) in
        [("none", Repair::None), ("half", Repair::Head(16)), ("whole", Repair::default())]
    {
        let asked = TurnRequest { reuse: Reuse::Repaired(repair), ..repaired(name, &other) };
        ask(&tiers.engine, asked);
        settle(&tiers.engine);
        // Those before the first moved token are equal.
        let names: Vec<_> = tiers.block_names(name).into_iter().skip(1).map(|(id, _)| id).collect();
        assert!(names.iter().all(|id| !known.contains(id)), "{name}");
        known.extend(names);
    }
}

#[test]
fn a_request_that_takes_exact_kv_alone_is_answered_with_that() {
    let model = fake();
    let (first, other) = (prompt(&model, &[1, 2, 3]), prompt(&model, &[3, 1, 2]));
    let tiers = with_first(&model, &first);
    let exact = ask(&tiers.engine, request("other", &other, 8));
    assert_eq!(exact.tokens, alone(&model, &other, 8));
    assert_eq!((exact.report.tokens.moved, exact.report.tokens.repaired), (0, 0));
}

#[test]
fn moved_kv_and_what_follows_it_is_neither_shared_nor_found_by_other_conversations() {
    let model = fake();
    let (first, other) = (prompt(&model, &[1, 2, 3]), prompt(&model, &[3, 1, 2]));
    let mut tiers = with_first(&model, &first);
    let moved = ask(&tiers.engine, repaired("moved", &other));
    settle(&tiers.engine);
    let expected = alone(&model, &other, 8);
    assert_ne!(moved.tokens, expected);
    let impure = tiers.block_names("moved");
    // While it is hot, from its tiers, and after a restart.
    for conversation in ["hot", "again", "restarted"] {
        tiers.assert_exact(conversation, &other, &expected, &impure);
        tiers.restart();
    }
    // Nor is it a source: what is moved was computed exactly.
    let reversed = prompt(&model, &[2, 3, 1]);
    let third = ask(&tiers.engine, repaired("third", &reversed));
    check_sum(&third, &reversed);
    assert!(third.report.tokens.moved > 0);
}

#[test]
fn a_conversation_with_moved_kv_goes_on_with_it_also_after_a_restart_under_equal_names() {
    let model = fake();
    let (first, other) = (prompt(&model, &[1, 2, 3]), prompt(&model, &[3, 1, 2]));
    let mut tiers = with_first(&model, &first);
    let answer = ask(&tiers.engine, repaired("chat", &other));
    settle(&tiers.engine);
    let names = tiers.block_names("chat");
    let next = then(&model, &answer.timeline, "And then?");
    let hot = ask(&tiers.engine, repaired("chat", &next));
    assert_eq!(hot.report.tokens.shared, answer.timeline.len());
    settle(&tiers.engine);

    let mut again = with_first(&model, &first);
    let answer = ask(&again.engine, repaired("chat", &other));
    again.restart();
    assert_eq!(again.block_names("chat"), names);
    let cold = ask(&again.engine, repaired("chat", &then(&model, &answer.timeline, "And then?")));
    assert_eq!(cold.tokens, hot.tokens);
    assert!(cold.report.tokens.disk >= answer.timeline.len() - 64, "{:?}", cold.report.tokens);
    tiers.restart();
}

#[test]
fn an_exact_turn_of_a_conversation_with_moved_kv_computes_it_anew() {
    let model = fake();
    let (first, other) = (prompt(&model, &[1, 2, 3]), prompt(&model, &[3, 1, 2]));
    let mut tiers = with_first(&model, &first);
    for restarts in [false, true] {
        let chat = format!("chat-{restarts}");
        let answer = ask(&tiers.engine, repaired(&chat, &other));
        let next = then(&model, &answer.timeline, "And then?");
        settle(&tiers.engine);
        if restarts {
            tiers.restart();
        }
        let exact = ask(&tiers.engine, request(&chat, &next, 8));
        assert_eq!(exact.tokens, alone(&model, &next, 8), "restarted: {restarts}");
        settle(&tiers.engine);
    }
}

#[test]
fn chunks_are_found_after_a_restart_and_by_anonymous_turns() {
    let model = fake();
    let mut tiers = OnDisk::new(&model);
    let (first, other) = (prompt(&model, &[1, 2, 3]), prompt(&model, &[3, 1, 2]));
    ask(&tiers.engine, request("first", &first, 8));
    tiers.restart();
    let anonymous = TurnRequest { conversation: None, ..repaired("anonymous", &other) };
    let answer = ask(&tiers.engine, anonymous);
    check_sum(&answer, &other);
    assert!(answer.report.tokens.moved > 3 * (TOKENS - HEAD), "{:?}", answer.report.tokens);
    settle(&tiers.engine);
    let exact = TurnRequest { conversation: None, ..request("anonymous", &other, 8) };
    assert_eq!(ask(&tiers.engine, exact).tokens, alone(&model, &other, 8));
}

#[test]
fn chunks_are_found_in_an_archive_that_was_imported_after_another_question() {
    let model = fake();
    let (there, here) = (OnDisk::new(&model), OnDisk::new(&model));
    let (first, other) = (prompt(&model, &[1, 2, 3]), prompt(&model, &[3, 1, 2]));
    ask(&there.engine, request("first", &first, 8));
    settle(&there.engine);
    let mut file = tempfile::tempfile().unwrap();
    let reader = StoreReader::open(there.path()).unwrap();
    export(&reader, &[name("first")], None, Timestamp(0), &mut file).unwrap();
    let archive = Archive::open(file).unwrap();

    let before = ask(&here.engine, repaired("before", &prompt(&model, &[4])));
    assert_eq!(before.report.tokens.moved, 0);
    let imported = here.engine.maintain(move |store, live_refs| {
        archive.put_objects(store)?;
        let now = Timestamp::from(SystemTime::now());
        archive.put_slots(store, live_refs, ImportOptions::default(), now)
    });
    assert_eq!(block_on(imported).unwrap().unwrap().imported.len(), 1);
    let answer = ask(&here.engine, repaired("other", &other));
    check_sum(&answer, &other);
    assert!(answer.report.tokens.moved > 3 * (TOKENS - HEAD), "{:?}", answer.report.tokens);
}

#[test]
fn private_kv_and_kv_of_a_forgotten_conversation_is_not_moved() {
    let model = fake();
    let tiers = OnDisk::new(&model);
    let (first, other) = (prompt(&model, &[1, 2, 3]), prompt(&model, &[3, 1, 2]));
    let keep = Retention { in_memory: Some(true), ..Retention::default() };
    ask(&tiers.engine, TurnRequest { keep, ..request("private", &first, 8) });
    settle(&tiers.engine);
    let answer = ask(&tiers.engine, repaired("other", &other));
    assert_eq!(answer.report.tokens.moved, 0);
    block_on(tiers.engine.forget(name("other"))).unwrap();
    ask(&tiers.engine, request("gone", &first, 8));
    settle(&tiers.engine);
    block_on(tiers.engine.forget(name("gone"))).unwrap();
    let answer = ask(&tiers.engine, repaired("third", &other));
    assert_eq!(answer.report.tokens.moved, 0);
    assert_eq!(answer.tokens, alone(&model, &other, 8));
}

#[test]
fn rules_and_tools_are_computed_exactly() {
    let model = fake();
    let tiers = OnDisk::new(&model);
    ask(&tiers.engine, request("first", &prompt(&model, &[1, 2, 3]), 8));
    settle(&tiers.engine);
    let segment = |end, layer| SegmentRef {
        end,
        layer,
        key: "it".to_owned(),
        weight: SegmentRef::DEFAULT_WEIGHT,
        pinned: false,
    };
    let whole = u32::try_from(prompt(&model, &[3, 1, 2]).len()).unwrap();
    // Each in an order of its own: what is computed exactly is the beginning of later prompts.
    for (order, segments, moves) in [
        ([3, 1, 2], vec![segment(whole, Layer::Rules)], false),
        ([2, 1, 3], vec![segment(whole, Layer::Capabilities)], false),
        ([3, 2, 1], vec![segment(whole - 250, Layer::Axioms), segment(whole, Layer::User)], true),
        ([2, 3, 1], vec![segment(whole, Layer::User)], true),
    ] {
        let other = prompt(&model, &order);
        let keep = Retention { segments: segments.clone(), ..Retention::default() };
        let asked = TurnRequest { keep, conversation: None, ..repaired("anonymous", &other) };
        let moved = ask(&tiers.engine, asked).report.tokens.moved;
        assert_eq!(moved > 0, moves, "{segments:?}");
        assert!(segments.len() < 2 || moved <= 250);
    }
}

#[test]
fn a_model_whose_kv_cannot_be_moved_answers_exactly_and_says_why() {
    for memory in [MemoryKind::Windowed, MemoryKind::Hybrid, MemoryKind::Recurrent] {
        let model = of_memory(memory);
        let (first, other) = (prompt(&model, &[1, 2, 3]), prompt(&model, &[3, 1, 2]));
        let tiers = with_first(&model, &first);
        let answer = ask(&tiers.engine, repaired("other", &other));
        assert_eq!(answer.tokens, alone(&model, &other, 8), "{memory}");
        let why = answer.report.immovable.expect("it says why").to_string();
        assert!(why.contains(&memory.to_string()), "{why}");
    }
}

#[test]
fn a_chunk_whose_file_is_lost_is_computed() {
    let model = fake();
    let (first, other) = (prompt(&model, &[1, 2, 3]), prompt(&model, &[3, 1, 2]));
    let mut tiers = with_first(&model, &first);
    let names = tiers.block_names("first");
    tiers.restart();
    // The first document, and the beginning of the second, stay.
    let kept = 5;
    for (id, _) in &names[kept..] {
        let hex = id.to_string();
        let files = files::below(tiers.path());
        let lost: Vec<_> =
            files.iter().filter(|file| file.to_string_lossy().contains(&hex[..16])).collect();
        assert_eq!(lost.len(), 1, "{hex} has a file");
        std::fs::remove_file(lost[0]).unwrap();
    }
    let answer = ask(&tiers.engine, repaired("other", &other));
    check_sum(&answer, &other);
    let counts = answer.report.tokens;
    assert!(counts.moved >= TOKENS - HEAD && counts.moved <= kept * 64, "{counts:?}");
    assert!(counts.computed >= 2 * TOKENS - kept * 64 % TOKENS, "{counts:?}");
    let again =
        ask(&tiers.engine, TurnRequest { conversation: None, ..request("anonymous", &other, 8) });
    assert_eq!(again.tokens, alone(&model, &other, 8));
}

#[test]
fn moved_kv_in_small_caches_budgets_and_beside_other_turns_is_sound() {
    let model: Arc<dyn Model> = Arc::new(FakeModel::new());
    let small = EngineOptions { context_tokens: 1024, ..options() };
    let tiers = OnDisk::with(&model, small);
    let first = prompt(&model, &[1, 2, 3]);
    ask(&tiers.engine, request("first", &first, 8));
    settle(&tiers.engine);
    let mut moved = 0;
    for (turn, order) in [[3, 1, 2], [2, 1, 3], [3, 2, 1], [2, 3, 1]].iter().enumerate() {
        let other = prompt(&model, order);
        let one = tiers.engine.submit(repaired(&format!("one-{turn}"), &other)).unwrap();
        let asked = TurnRequest { budget: Some(512), ..repaired(&format!("two-{turn}"), &other) };
        let two = tiers.engine.submit(asked).unwrap();
        for answer in [finish(one), finish(two)] {
            let answer = answer.expect("it is answered");
            check_sum(&answer, &other);
            moved += answer.report.tokens.moved;
        }
    }
    assert!(moved > 0, "some of it was moved");
}

/// The answer of a turn that gives up its cells for an answer beside it, which `long` begins.
fn behind_a_longer_turn(directory: &TempDir, long: &[Token], prompt: &[Token]) -> Answer {
    let batches = MicroBatches::default();
    let slow = batches.of(FakeModel::new().with_pace(Duration::from_millis(3)));
    let small = EngineOptions { context_tokens: 1024, ..options() };
    assert!(long.len() + prompt.len() > small.context_tokens);
    let full = engine(&slow, Some(directory.path()), small);
    let (beside, paused) = batches.first_of(&full, endless("long", long, 1_000_000));
    let turn = full.submit(repaired("chat", prompt)).unwrap();
    drop(paused);
    until("it gives up its cells", || status(&full).counters.preempted > 0);
    drop(beside);
    let answer = finish(turn).unwrap();
    check_sum(&answer, prompt);
    answer
}

/// The cache is full when a part of the first chunk is in its cells. What of it was moved has its own head, which is
/// not what the turn asks for.
#[test]
fn a_turn_that_gives_up_its_cells_within_a_chunk_is_answered_as_if_it_had_room() {
    let (fast, directory) = (fake(), empty_directory());
    let (first, other) = (prompt(&fast, &[1, 2, 3]), prompt(&fast, &[3, 1, 2]));
    let long = vec![Token(97); 744];
    let expected = {
        let roomy = engine(&fast, Some(directory.path()), options());
        ask(&roomy, request("first", &first, 8));
        ask(&roomy, request("long", &long, 1));
        settle(&roomy);
        ask(&roomy, repaired("expected", &other))
    };
    assert_eq!(expected.report.tokens.repaired, 2 * HEAD, "{:?}", expected.report.tokens);

    let answer = behind_a_longer_turn(&directory, &long, &other);
    assert_eq!(answer.report.tokens.repaired, 2 * HEAD, "{:?}", answer.report.tokens);
    assert_eq!(answer.tokens, expected.tokens);
}

#[test]
fn exact_answers_stay_exact_in_random_histories_of_moved_kv() {
    let mut state = 7_u64;
    let mut draw = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % below
    };
    // Turns take a while, so that some are cancelled between the import of chunks and their heads.
    let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_pace(Duration::from_micros(20)));
    let small = EngineOptions { context_tokens: 2048, slots: 2, ..options() };
    let mut tiers = OnDisk::with(&model, small.clone());
    ask(&tiers.engine, request("source", &prompt(&model, &[1, 2, 3, 4, 5]), 8));
    settle(&tiers.engine);
    let mut moved = 0;
    for round in 0..40 {
        let mut order: Vec<usize> = (1..=5).collect();
        (0..4).for_each(|at| order.swap(at, at + draw(5 - at)));
        order.truncate(3);
        let other = prompt(&model, &order);
        let conversation = format!("chat-{}", draw(4));
        let asked = match draw(3) {
            0 => request(&conversation, &other, 8),
            1 => TurnRequest { budget: Some(512), ..repaired(&conversation, &other) },
            _ => repaired(&conversation, &other),
        };
        let is_exact = asked.reuse == Reuse::Exact;
        let beside = tiers.engine.submit(repaired(&format!("beside-{round}"), &other)).unwrap();
        let turn = tiers.engine.submit(asked).unwrap();
        if draw(2) == 0 {
            std::thread::sleep(Duration::from_millis(draw(12) as u64));
            drop(beside);
        }
        let answer = finish(turn).expect("it is answered");
        check_sum(&answer, &other);
        moved += answer.report.tokens.moved;
        if is_exact {
            assert_eq!(answer.tokens, alone(&model, &other, 8), "round {round}");
        }
        if draw(8) == 0 {
            tiers.restart_with(small.clone());
        }
    }
    assert!(moved > 1000, "{moved}");
}
