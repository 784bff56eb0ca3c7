//! A conversation without a name that outgrows its cells: the request that continues its prompt finds it, and no other.

use std::sync::Arc;

use hob_runtime::{Engine, EngineOptions, Model, Retention, TurnRequest, Way};
use hob_slots::format::SegmentRef;
use hob_slots::{Layer, Token};

use crate::support::replay::Replay;
use crate::support::*;

const BUDGET: usize = 400;

fn nameless(prompt: &[Token], max_tokens: usize) -> TurnRequest {
    let turn = TurnRequest::answer(None, prompt.to_vec(), max_tokens);
    TurnRequest { budget: Some(BUDGET), ignore_eog: true, ..turn }
}

/// The user's turn number `n`, of some sixty tokens.
fn question(model: &Arc<dyn Model>, n: usize) -> Vec<Token> {
    let word = n * 7919 % 1000;
    tokens(model, &user(&format!("question {n}: what about the word {word} in the list of words?")))
}

/// A message that does not fit its budget, in which a word occurs often.
fn long(word: &str) -> String {
    (0..100).map(|n| format!("{word} {n} ")).collect()
}

/// How many tokens an answer has in its slot that saw all before them.
fn pure(answer: &Answer) -> usize {
    answer.moved.iter().map(|moved| moved.at).min().expect("it does not fit its budget")
}

/// The end of what `before` says, and what follows: the last token of an answer has no cell.
fn new_tokens(before: &[Token], prompt: &[Token]) -> usize {
    prompt.len() - before.len() + 1
}

#[test]
fn its_next_turn_computes_what_is_new_and_brings_back_what_it_asks_for() {
    let model = fake();
    let ends = model.vocabulary().eog_tokens();
    for stores in [false, true] {
        let directory = empty_directory();
        let engine = engine(&model, stores.then(|| directory.path()), options());
        let mut timeline: Vec<Token> = Vec::new();
        let (mut replay, mut has_left) = (Replay::default(), false);
        let mut go_on = |n, budget| {
            let prompt = [&timeline[..], &question(&model, n)[..]].concat();
            let answer =
                ask(&engine, TurnRequest { budget: Some(budget), ..nameless(&prompt, 24) });
            assert!(answer.cells.peak <= budget, "turn {n}: {:?}", answer.cells);
            if has_left {
                let new = new_tokens(&timeline, &prompt);
                assert_eq!(answer.report.tokens.computed, new, "turn {n}: {:?}", answer.report);
            }
            let expected = replay.answer(&*model, &prompt, &answer, ends);
            assert_eq!(answer.tokens, expected, "turn {n}: {:?}", answer.moved);
            has_left |= answer.moved.iter().any(|moved| moved.way == Way::Out);
            timeline.clone_from(&answer.timeline);
            answer
        };
        let mut away = Vec::new();
        for n in 0..14 {
            away = go_on(n, BUDGET).report.away;
        }
        assert_ne!(away, []);
        let answer = go_on(99, 2_000);
        assert_eq!(answer.report.away, [], "all comes back where there is room");
        settle(&engine);
        assert_eq!(status(&engine).counters.written_bytes, 0, "nothing of it is saved");
        engine.shutdown();
    }
}

#[test]
fn no_other_request_finds_what_did_not_see_everything() {
    let model = fake();
    let prompt = tokens(&model, &user(&long("word")));
    let other_end = [&prompt[..prompt.len() * 3 / 4], &question(&model, 3)[..]].concat();
    let goes_on = |timeline: &[Token]| [timeline, &question(&model, 1)].concat();
    let in_memory = Retention { in_memory: Some(true), ..Retention::default() };
    for other in 0..4 {
        let disk = OnDisk::new(&model);
        let first = ask(&disk.engine, nameless(&prompt, 24));
        let pure = pure(&first);
        assert!(pure < other_end.len() - question(&model, 3).len(), "{pure}");
        let next = goes_on(&first.timeline);
        let whole = match other {
            0 => nameless(&other_end, 24),
            1 => endless("chat", &prompt, 24),
            2 => endless("chat", &next, 24),
            _ => TurnRequest { keep: in_memory.clone(), ..nameless(&next, 24) },
        };
        let whole = TurnRequest { budget: None, ..whole };
        let expected = answered_alone(&model, endless("alone", &whole.prompt, 24));
        let answer = ask(&disk.engine, whole);
        assert!(answer.report.tokens.cached() <= pure, "{other}, {pure}: {:?}", answer.report);
        assert_eq!(answer.tokens, expected, "{other}");

        let answer = ask(&disk.engine, nameless(&next, 24));
        let new = new_tokens(&first.timeline, &next);
        assert_eq!(answer.report.tokens.computed, new, "{other}: {:?}", answer.report);
    }
}

#[test]
fn two_of_them_go_on_side_by_side() {
    let model = fake();
    let engine = engine(&model, None, options());
    let mut timelines = ["first", "second"].map(|word| {
        let prompt = tokens(&model, &user(&long(word)));
        ask(&engine, nameless(&prompt, 24)).timeline
    });
    for n in 0..3 {
        for timeline in &mut timelines {
            let prompt = [&timeline[..], &question(&model, n)[..]].concat();
            let answer = ask(&engine, nameless(&prompt, 24));
            let new = new_tokens(timeline, &prompt);
            assert_eq!(answer.report.tokens.computed, new, "turn {n}: {:?}", answer.report);
            *timeline = answer.timeline;
        }
    }
    engine.shutdown();
}

#[test]
fn another_answer_to_the_same_prompt_computes_its_last_token_alone() {
    let model = fake();
    let engine = engine(&model, None, options());
    let prompt = tokens(&model, &user(&long("word")));
    let mut replay = Replay::default();
    for computed in [prompt.len(), 1, 1] {
        let answer = ask(&engine, nameless(&prompt, 24));
        assert_eq!(answer.report.tokens.computed, computed, "{:?}", answer.report);
        let expected = replay.answer(&*model, &prompt, &answer, model.vocabulary().eog_tokens());
        assert_eq!(answer.tokens, expected, "{:?}", answer.moved);
    }
    engine.shutdown();
}

#[test]
fn the_start_of_its_answer_may_be_written_otherwise_behind_a_message_that_is_known() {
    let model = fake();
    let said = tokens(&model, &format!("<|im_start|>user\n{}<|im_end|>\n", long("word")));
    let begun = tokens(&model, "<|im_start|>assistant\n<think>\n");
    let prompt = [&said[..], &begun[..]].concat();
    let answered = tokens(&model, "<|im_start|>assistant\nYes.<|im_end|>\n");
    let next = [&said[..], &answered[..], &question(&model, 1)[..]].concat();
    let message = SegmentRef::new(said.len() as u32, Layer::User, "message 1");
    for (segments, is_found) in [(vec![message], true), (Vec::new(), false)] {
        let engine = engine(&model, None, options());
        let keep = Retention { segments, ..Retention::default() };
        let first = ask(&engine, TurnRequest { keep, ..nameless(&prompt, 24) });
        let report = ask(&engine, nameless(&next, 24)).report;
        if is_found {
            assert!(report.tokens.computed <= next.len() - said.len(), "{report:?}");
        } else {
            assert!(report.tokens.cached() <= pure(&first), "{report:?}");
        }
        engine.shutdown();
    }
}

/// What needs its slot or its cells, and does.
type Displacement<'a> = (&'a str, &'a dyn Fn(&Engine));

#[test]
fn nothing_stays_of_it_where_it_gives_way() {
    let model = fake();
    let say = |engine: &Engine, conversation: &str, text: &str| {
        ask(engine, request(conversation, &tokens(&model, &user(text)), 5));
    };
    let slots = |engine: &Engine| ["one", "two"].into_iter().for_each(|id| say(engine, id, id));
    let cells = |engine: &Engine| say(engine, "one", &"hello ".repeat(310));
    let deletion = |engine: &Engine| {
        let deleted = block_on(engine.forget(name("nobody")));
        deleted.expect("the engine deletes what it does not know");
    };
    let unloading = |engine: &Engine| assert!(block_on(engine.unload()));
    let ways: [Displacement<'_>; 4] = [
        ("slots", &slots),
        ("cells", &cells),
        ("a deletion", &deletion),
        ("the weights", &unloading),
    ];
    for (why, gives_way) in ways {
        let memory_bytes = |has_outgrown: bool| {
            let engine = engine(&fake(), None, options()); // An unloaded model stays unloaded.
            if has_outgrown {
                ask(&engine, nameless(&tokens(&model, &user(&long("word"))), 24));
                settle(&engine);
                assert!(status(&engine).memory_bytes > 0, "blocks of it have left");
            }
            gives_way(&engine);
            settle(&engine);
            let status = status(&engine);
            assert_eq!(status.counters.parked, 0, "{why}: none with a name");
            engine.shutdown();
            status.memory_bytes
        };
        assert_eq!(memory_bytes(true), memory_bytes(false), "{why}");
    }
}

#[test]
fn it_gives_the_memory_of_its_blocks_to_another() {
    let model = fake();
    let text = |word| tokens(&model, &user(&long(word)));
    // As much as one of them has away.
    let roomy = engine(&model, None, options());
    ask(&roomy, nameless(&text("first"), 24));
    settle(&roomy);
    let memory_budget_bytes = status(&roomy).memory_bytes * 3 / 2;
    roomy.shutdown();
    let tight = engine(&model, None, EngineOptions { memory_budget_bytes, ..options() });
    for word in ["first", "other"] {
        let answer = ask(&tight, nameless(&text(word), 24));
        assert_eq!(answer.tokens.len(), 24, "{word}: {:?}", answer.cells);
    }
    tight.shutdown();
}
