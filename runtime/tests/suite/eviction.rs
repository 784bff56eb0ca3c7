//! A conversation longer than its budget of cells: blocks leave, come back, and nothing else changes.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use hob_runtime::backend::fake::FakeModel;
use hob_runtime::{
    Engine, EngineOptions, FinishReason, MissReason, Model, PromptPhase, Purpose, Retention,
    TurnEvent, TurnRequest, Way,
};
use hob_slots::format::SegmentRef;
use hob_slots::{BLOCK_TOKENS, Layer, Timeline, Token};

use crate::support::replay::Replay;
use crate::support::wait::PATIENCE;
use crate::support::*;

pub const BUDGET: usize = 400;

fn with_budget(conversation: &str, prompt: &[Token], max_tokens: usize) -> TurnRequest {
    TurnRequest { budget: Some(BUDGET), ..endless(conversation, prompt, max_tokens) }
}

/// The user's turn number `n`, of some sixty tokens.
pub fn question(n: usize) -> String {
    user(&format!("question {n}: what about the word {} in the list of words?", n * 7919 % 1000))
}

fn within_patience(engine: &Engine, request: TurnRequest) -> Answer {
    let turn = engine.submit(request).expect("a valid turn");
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || send.send(finish(turn)).is_ok());
    receive.recv_timeout(PATIENCE).expect("it ends").expect("the turn succeeds")
}

pub fn ends(model: &Arc<dyn Model>) -> Vec<Token> {
    model.vocabulary().eog_tokens().to_vec()
}

#[test]
fn a_conversation_outgrows_its_budget_and_each_token_saw_what_was_resident() {
    let model = fake();
    let disk = OnDisk::new(&model);
    let (mut timeline, mut replay) = (Vec::new(), Replay::default());
    let (mut out, mut back) = (0, 0);
    for n in 0..20 {
        let prompt = [timeline, tokens(&model, &question(n))].concat();
        let answer = ask(&disk.engine, with_budget("chat", &prompt, 24));
        assert!(answer.cells.peak <= BUDGET, "turn {n}: {:?}", answer.cells);
        assert_eq!(answer.report.tokens.prompt(), prompt.len());
        let expected = replay.answer(&*model, &prompt, &answer, &ends(&model));
        assert_eq!(answer.tokens, expected, "turn {n}: {:?}", answer.moved);
        out += answer.moved.iter().filter(|moved| moved.way == Way::Out).count();
        back += answer.moved.len();
        timeline = answer.timeline;
    }
    back -= out;
    assert!(timeline.len() > 2 * BUDGET, "{}", timeline.len());
    assert!(out > 5 && back > 0, "{out} out, {back} back");
}

#[test]
fn a_message_longer_than_the_budget_is_taken_in() {
    let model = fake();
    let disk = OnDisk::new(&model);
    let text: String = (0..300).map(|n| format!("word {n} ")).collect();
    let prompt = tokens(&model, &user(&text));
    assert!(prompt.len() > 4 * BUDGET);
    let answer = ask(&disk.engine, with_budget("chat", &prompt, 24));
    assert!(answer.cells.peak <= BUDGET, "{:?}", answer.cells);
    let expected = Replay::default().answer(&*model, &prompt, &answer, &ends(&model));
    assert_eq!(answer.tokens, expected);
}

#[test]
fn a_block_that_leaves_before_earlier_ones_are_saved_does_not_hide_them() {
    let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_pace(Duration::from_millis(2)));
    let disk = OnDisk::new(&model);
    let text: String = (0..60).map(|n| format!("word {n} ")).collect();
    let prompt = tokens(&model, &user(&text));
    // Nothing of a speculation is saved.
    let typed = prompt[..350].to_vec();
    let speculation = TurnRequest::prefill(name("chat"), typed, Purpose::Speculate);
    ask(&disk.engine, TurnRequest { budget: Some(BUDGET), ..speculation });
    let mut turn = disk.engine.submit(with_budget("chat", &prompt, 1_000_000)).unwrap();
    let (mut left, mut generated) = (None, 0);
    while generated < 40 {
        match turn.next_blocking().expect("it goes on") {
            TurnEvent::Moved(moved) => left = left.or(Some(moved.range)),
            TurnEvent::Token { .. } => generated += 1,
            TurnEvent::Started(_) | TurnEvent::Progress(_) => {}
            ended => panic!("{ended:?}"),
        }
    }
    let left = left.expect("it does not fit");
    assert!(left.start > 0, "the first block stays");
    let mut timeline = Timeline::new(FINGERPRINT);
    timeline.push(&prompt[..left.start], |token| model.vocabulary().is_eog(token));
    let (in_memory, _) = disk.engine.saved_tokens(timeline.blocks(), &name("chat"));
    assert_eq!(in_memory, left.start, "of the blocks before {left:?}");
}

#[test]
fn kv_that_did_not_see_everything_is_found_by_no_other_conversation() {
    let model = fake();
    let disk = OnDisk::new(&model);
    // One message without an end inside: its blocks end at the same places whatever they saw, because blocks
    // leave between micro-batches of one block.
    let budget = 8 * BLOCK_TOKENS;
    let text: String = (0..200).map(|n| format!("word {n} ")).collect();
    let prompt = tokens(&model, &user(&text));
    let impure = TurnRequest { budget: Some(budget), ..with_budget("chat", &prompt, 24) };
    let answer = ask(&disk.engine, impure);
    assert!(
        answer
            .moved
            .iter()
            .all(|moved| moved.at % BLOCK_TOKENS == 0 || moved.at > prompt.len() - 300)
    );
    let expected = answered_alone(&model, endless("alone", &prompt, 24));
    assert_ne!(answer.tokens, expected, "what it did not see matters");
    for parks in [false, true] {
        if parks {
            block_on(disk.engine.park(name("chat")));
        }
        let other = format!("other {parks}");
        let request = endless(&other, &prompt, 24);
        assert_eq!(ask(&disk.engine, request).tokens, expected, "parked: {parks}");
        block_on(disk.engine.forget(name(&other))).unwrap();
    }
}

#[test]
fn without_a_disk_what_is_away_stays_in_memory() {
    let model = fake();
    // Enough for what is away, and for little else.
    let memory = EngineOptions { memory_budget_bytes: 24_000, ..options() };
    let engine = engine(&model, None, memory);
    let (mut timeline, mut replay) = (Vec::new(), Replay::default());
    for n in 0..14 {
        let prompt = [timeline, tokens(&model, &question(n))].concat();
        let answer = ask(&engine, with_budget("chat", &prompt, 24));
        let expected = replay.answer(&*model, &prompt, &answer, &ends(&model));
        assert_eq!(answer.tokens, expected, "turn {n}: {:?}", answer.moved);
        timeline = answer.timeline;
        // Others would push it out of memory.
        let other = tokens(&model, &user(&format!("{n} {}", "something else ".repeat(30))));
        ask(&engine, request("other", &other, 8));
    }
    let prompt = [timeline, tokens(&model, &question(99))].concat();
    let larger = TurnRequest { budget: Some(2_000), ..with_budget("chat", &prompt, 8) };
    let answer = ask(&engine, larger);
    assert_eq!(answer.report.away, [], "all comes back where there is room");
    engine.shutdown();
}

#[test]
fn without_a_disk_a_parked_conversation_continues_with_its_holes() {
    let model = fake();
    let engine = engine(&model, None, options());
    let mut timeline = Vec::new();
    for n in 0..14 {
        let prompt = [timeline, tokens(&model, &question(n))].concat();
        timeline = ask(&engine, with_budget("chat", &prompt, 24)).timeline;
    }
    settle(&engine);
    block_on(engine.park(name("chat")));
    let prompt = [timeline.clone(), tokens(&model, &question(99))].concat();
    let answer = ask(&engine, with_budget("chat", &prompt, 24));
    assert_eq!(answer.report.tokens.computed, prompt.len() - timeline.len(), "{:?}", answer.report);
    engine.shutdown();
}

#[test]
fn what_a_private_conversation_holds_in_memory_stays_on_disk_for_another() {
    let model = fake();
    let mut disk = OnDisk::new(&model);
    let text: String = (0..100).map(|n| format!("word {n} ")).collect();
    let prompt = tokens(&model, &user(&text));
    let timeline = ask(&disk.engine, with_budget("chat", &prompt, 24)).timeline;
    settle(&disk.engine);
    let keep = Retention { in_memory: Some(true), ..Retention::default() };
    ask(&disk.engine, TurnRequest { keep, ..with_budget("private", &prompt, 24) });
    let prompt = [timeline, tokens(&model, &question(1))].concat();
    let timeline = ask(&disk.engine, with_budget("chat", &prompt, 24)).timeline;
    settle(&disk.engine);
    disk.restart();
    let prompt = [timeline.clone(), tokens(&model, &question(2))].concat();
    let answer = ask(&disk.engine, with_budget("chat", &prompt, 24));
    assert_eq!(answer.report.tokens.computed, prompt.len() - timeline.len(), "{:?}", answer.report);
}

#[test]
fn a_private_conversation_that_may_go_to_the_disk_is_saved_with_what_is_away() {
    let model = fake();
    let mut disk = OnDisk::new(&model);
    let text: String = (0..100).map(|n| format!("word {n} ")).collect();
    let prompt = tokens(&model, &user(&text));
    let kept = |in_memory| Retention { in_memory: Some(in_memory), ..Retention::default() };
    let private = TurnRequest { keep: kept(true), ..with_budget("chat", &prompt, 24) };
    let private = ask(&disk.engine, private);
    assert!(private.moved.iter().any(|moved| moved.way == Way::Out), "{:?}", private.moved);
    let prompt = [private.timeline, tokens(&model, &question(1))].concat();
    let saved = TurnRequest { keep: kept(false), ..with_budget("chat", &prompt, 24) };
    let timeline = ask(&disk.engine, saved).timeline;
    assert_eq!(disk.record("chat").tokens, timeline);
    disk.restart();
    let prompt = [timeline.clone(), tokens(&model, &question(2))].concat();
    let answer = ask(&disk.engine, with_budget("chat", &prompt, 24));
    assert_eq!(answer.report.tokens.computed, prompt.len() - timeline.len(), "{:?}", answer.report);
}

#[test]
fn a_block_that_is_lost_while_it_is_away_is_computed_again_and_recorded() {
    let model = fake();
    // What is on disk is not in memory, too.
    let memory = EngineOptions { memory_budget_bytes: 0, ..options() };
    for (parks, budget) in [(false, BUDGET), (true, BUDGET), (false, 2_000), (true, 2_000)] {
        let mut disk = OnDisk::with(&model, memory.clone());
        let (mut timeline, mut away) = (Vec::new(), Vec::new());
        for n in 0..14 {
            let prompt = [timeline, tokens(&model, &question(n))].concat();
            let answer = ask(&disk.engine, with_budget("chat", &prompt, 24));
            (timeline, away) = (answer.timeline, answer.report.away);
        }
        settle(&disk.engine);
        let is_away = |range: &Range<usize>| {
            away.iter().any(|away| away.start <= range.start && range.end <= away.end)
        };
        let mut blocks = disk.block_names("chat").into_iter().filter(|(_, range)| is_away(range));
        let (lost, range) = blocks.nth(3).expect("blocks are away");
        let hex = lost.to_string();
        let objects = disk.path().join(FINGERPRINT.to_string()).join("objects");
        std::fs::remove_file(objects.join(&hex[..2]).join(format!("{hex}.kv"))).unwrap();

        let ask_in = |disk: &OnDisk, timeline: &[Token], n, budget| {
            let prompt = [timeline, &tokens(&model, &question(n))].concat();
            let larger = TurnRequest { budget: Some(budget), ..with_budget("chat", &prompt, 24) };
            (ask(&disk.engine, larger), prompt)
        };
        // All is asked for: the loss shows.
        let (answer, _) = ask_in(&disk, &timeline, 20, 2_000);
        assert!(answer.report.away.contains(&range), "{range:?} {:?}", answer.report.away);
        settle(&disk.engine);
        if parks {
            block_on(disk.engine.park(name("chat")));
        }
        let (answer, prompt) = ask_in(&disk, &answer.timeline, 21, budget);
        let report = &answer.report;
        assert!(report.tokens.computed >= prompt.len() - range.start, "{report:?}");
        assert!(
            matches!(report.miss, Some(MissReason::Unusable { from, .. }) if from <= range.start),
            "parks: {parks}, {range:?}: {report:?}"
        );
        settle(&disk.engine);
        assert_eq!(status(&disk.engine).counters.lost_blocks, 1);
        let timeline = answer.timeline;
        disk.restart_with(memory.clone());

        let (answer, prompt) = ask_in(&disk, &timeline, 22, 2_000);
        let report = answer.report;
        assert_eq!(report.tokens.computed, prompt.len() - timeline.len(), "{report:?}");
        assert_eq!(report.away, [], "parks: {parks}, budget: {budget}");
    }
}

#[test]
fn a_conversation_continues_with_its_holes_after_a_restart() {
    let model = fake();
    let mut disk = OnDisk::new(&model);
    let (mut timeline, mut replay) = (Vec::new(), Replay::default());
    for n in 0..24 {
        if n % 4 == 3 {
            disk.restart();
        }
        // The engine computes the last token of an answer when no turn waits.
        settle(&disk.engine);
        let prompt = [timeline, tokens(&model, &question(n))].concat();
        let answer = ask(&disk.engine, with_budget("chat", &prompt, 24));
        assert!(answer.cells.peak <= BUDGET, "turn {n}: {:?}", answer.cells);
        let new = prompt.len() - replay.len();
        assert!(answer.report.tokens.computed <= new, "turn {n}: {:?}", answer.report);
        let expected = replay.answer(&*model, &prompt, &answer, &ends(&model));
        assert_eq!(answer.tokens, expected, "turn {n}: {:?}", answer.moved);
        timeline = answer.timeline;
    }
}

#[test]
fn after_a_wrong_speculation_a_long_message_continues_what_is_saved() {
    let model = fake();
    let disk = OnDisk::new(&model);
    let mut timeline = Vec::new();
    for n in 0..8 {
        let prompt = [timeline, tokens(&model, &question(n))].concat();
        timeline = ask(&disk.engine, with_budget("chat", &prompt, 24)).timeline;
    }
    settle(&disk.engine);
    let other = tokens(&model, "another branch, which nobody has said");
    ask(&disk.engine, TurnRequest::prefill(name("chat"), other, Purpose::Speculate));
    let long = user(&(0..30).map(|n| format!("word {n} ")).collect::<String>());
    let prompt = [timeline.clone(), tokens(&model, &long)].concat();
    let answer = ask(&disk.engine, with_budget("chat", &prompt, 24));
    assert_eq!(answer.report.tokens.computed, prompt.len() - timeline.len(), "{:?}", answer.report);
}

#[test]
fn an_answer_begins_while_the_turn_typed_ahead_of_it_brings_blocks_back() {
    let model = fake();
    let disk = OnDisk::new(&model);
    let (mut timeline, mut restoring) = (Vec::new(), 0);
    for n in 0..40 {
        let prompt = [timeline, tokens(&model, &question(n))].concat();
        let typed = prompt[..prompt.len() - 1 - n % 3].to_vec();
        let mut ahead = TurnRequest::prefill(name("chat"), typed, Purpose::Speculate);
        (ahead.budget, ahead.reports_progress) = (Some(BUDGET), true);
        let mut ahead = disk.engine.submit(ahead).unwrap();
        // The answer comes while it restores, more often than not.
        while let Some(TurnEvent::Progress(progress)) = ahead.next_blocking() {
            if progress.phase == PromptPhase::Restoring {
                restoring += 1;
                break;
            }
        }
        let answer = within_patience(&disk.engine, with_budget("chat", &prompt, 24));
        timeline = answer.timeline;
    }
    assert!(restoring > 0, "no turn typed ahead brought blocks back");
}

#[test]
fn a_conversation_that_goes_on_inside_a_saved_block_stays_within_its_budget() {
    let model = fake();
    let disk = OnDisk::new(&model);
    let prompt = tokens(&model, &"word ".repeat(100));
    let longer = TurnRequest { budget: None, ..with_budget("chat", &prompt, 1) };
    ask(&disk.engine, longer);
    // In the middle of a block, a few tokens before the end of the budget.
    let edited = [&prompt[..BUDGET - 10], &tokens(&model, "!")].concat();
    block_on(disk.engine.park(name("chat")));
    let answer = ask(&disk.engine, with_budget("chat", &edited, 4));
    assert!(answer.cells.peak <= BUDGET, "{:?}", answer.cells);
    assert!(answer.report.tokens.cached() >= BUDGET - 2 * BLOCK_TOKENS, "{:?}", answer.report);
}

/// Another conversation has the beginning hot, up to the middle of a saved block: the rest of that block is
/// restored beside cells that leave for it.
#[test]
fn saved_kv_behind_shared_cells_is_restored_in_a_budget_that_they_nearly_fill() {
    let model = fake();
    for shared in [290, 320, 350] {
        let disk = OnDisk::new(&model);
        let text = tokens(&model, &"words that are read once ".repeat(20));
        let first = ask(&disk.engine, with_budget("chat", &text[..370], 4));
        block_on(disk.engine.park(name("chat")));
        ask(&disk.engine, request("other", &text[..shared], 0));

        let next = [first.timeline, tokens(&model, " and what is next")].concat();
        let answer = ask(&disk.engine, with_budget("chat", &next, 4));
        let counts = answer.report.tokens;
        assert_eq!(counts.computed, next.len() - 374, "{shared} shared: {:?}", answer.report);
        assert!(answer.cells.peak <= BUDGET, "{:?}", answer.cells);
    }
}

#[test]
fn an_answer_that_fills_its_budget_leaves_no_cell_beyond_it() {
    let model = fake();
    let disk = OnDisk::new(&model);
    let prompt = vec![Token(97); BUDGET - 60];
    let rules = SegmentRef::new((BUDGET - 60) as u32, Layer::Rules, "rules"); // They stay.
    let keep = Retention { segments: vec![rules], ..Retention::default() };
    for max_tokens in [61, 200] {
        let request =
            TurnRequest { keep: keep.clone(), ..with_budget("chat", &prompt, max_tokens) };
        let answer = ask(&disk.engine, request);
        assert_eq!((answer.tokens.len(), answer.cells.peak), (61, BUDGET), "{max_tokens}");
        assert_eq!(answer.reason, FinishReason::Length, "{max_tokens}");
        settle(&disk.engine); // The engine computes the last token of an answer when no turn waits.
        let map = block_on(disk.engine.map()).unwrap();
        assert_eq!(map.used_tokens, BUDGET, "{max_tokens}");
    }
}

#[test]
fn regenerating_and_editing_continue_behind_a_cell() {
    let model = fake();
    let disk = OnDisk::new(&model);
    let (mut timeline, mut replay, mut ends_of_turns) = (Vec::new(), Replay::default(), Vec::new());
    for n in 0..16 {
        let prompt = [timeline, tokens(&model, &question(n))].concat();
        let answer = ask(&disk.engine, with_budget("chat", &prompt, 24));
        replay.answer(&*model, &prompt, &answer, &ends(&model));
        // The same once more, of which the last answer stays.
        let again = ask(&disk.engine, with_budget("chat", &prompt, 24));
        assert!(again.cells.peak <= BUDGET, "{:?}", again.cells);
        assert!(again.report.tokens.computed <= BLOCK_TOKENS, "{:?}", again.report);
        let expected = replay.answer(&*model, &prompt, &again, &ends(&model));
        assert_eq!(again.tokens, expected, "turn {n} again: {:?}", again.moved);
        timeline = again.timeline;
        ends_of_turns.push(timeline.len());
    }
    // Back to a place in the middle, where blocks are away; then on from there.
    for (n, turn) in [14, 9, 4, 1].into_iter().enumerate() {
        let kept = &timeline[..ends_of_turns[turn]];
        let prompt = [kept.to_vec(), tokens(&model, &question(100 + n))].concat();
        let answer = ask(&disk.engine, with_budget("chat", &prompt, 24));
        assert!(answer.cells.peak <= BUDGET, "{:?}", answer.cells);
        let expected = replay.answer(&*model, &prompt, &answer, &ends(&model));
        assert_eq!(answer.tokens, expected, "back to turn {turn}: {:?}", answer.moved);
    }
}
