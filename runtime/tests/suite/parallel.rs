//! Prompts in flight: their order, and what those that begin alike compute once.

use std::sync::Arc;
use std::time::Duration;

use hob_runtime::backend::fake::{BatchLog, FakeModel, RefusesAt};
use hob_runtime::backend::{MemoryKind, Row};
use hob_runtime::{Engine, EngineOptions, Model, Purpose, Turn, TurnRequest};
use hob_slots::Token;

use crate::support::held::MicroBatches;
use crate::support::*;

const ROWS: usize = 32;

/// A model whose micro-batches take some 6 ms, and the log of them.
fn slow(memory: MemoryKind) -> (Arc<dyn Model>, BatchLog) {
    let log = BatchLog::default();
    let model = FakeModel::new().with_memory(memory).with_pace(Duration::from_micros(200));
    (Arc::new(model.with_batch_log(log.clone())), log)
}

fn start(model: &Arc<dyn Model>) -> Started {
    engine(model, None, EngineOptions { slots: 4, micro_batch: ROWS, ..options() })
}

/// Waits until `count` more micro-batches have begun.
fn wait_for_batches(log: &BatchLog, count: usize) {
    let until = log.lock().len() + count;
    while log.lock().len() < until {
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Rows of the micro-batch that compute tokens of `prompt` and of no other.
fn rows_of(batch: &[Row], prompt: &[Token]) -> usize {
    batch.iter().filter(|row| prompt.get(row.position) == Some(&row.token)).count()
}

fn computed(engine: &Engine) -> usize {
    usize::try_from(status(engine).counters.computed_tokens).unwrap()
}

/// What `submit` submits, of which no micro-batch begins before it returns.
fn at_once<T>(log: &BatchLog, submit: impl FnOnce() -> T) -> T {
    let _held = log.lock();
    submit()
}

fn finish_all<const N: usize>(turns: [Turn; N]) -> [Answer; N] {
    turns.map(|turn| finish(turn).expect("the turn succeeds"))
}

#[test]
fn a_short_prompt_passes_a_long_one_within_a_micro_batch() {
    let (model, log) = slow(MemoryKind::Plain);
    let engine = start(&model);
    let (long, short) = (words("a", 1500), words("b", 20));
    let long_turn = engine.submit(request("long", &long, 1)).unwrap();
    wait_for_batches(&log, 3);
    let short_turn = engine.submit(request("short", &short, 1)).unwrap();
    let begun = log.lock().len();
    finish(short_turn).unwrap();
    let first = log.lock().iter().position(|batch| rows_of(batch, &short) > 0).unwrap();
    // The one that had begun, and one that was planned before the short prompt arrived.
    assert!(first <= begun + 1, "{first} after {begun}");
    let rows = [&short, &long].map(|prompt| rows_of(&log.lock()[first], prompt));
    assert_eq!(rows, [short.len(), 0], "all of it, and nothing that its reader would wait for");
    finish(long_turn).unwrap();
    engine.shutdown();
}

#[test]
fn shorter_prompts_do_not_starve_a_long_one() {
    let (model, log) = slow(MemoryKind::Plain);
    let engine = start(&model);
    let prompts = [("a", 400), ("b", 500), ("c", 640)].map(|(word, count)| words(word, count));
    // Any of them may be looked up, and begin, first: it does not become shorter than the next one before that comes.
    let turns =
        [0, 1, 2].map(|n| engine.submit(request(&format!("chat {n}"), &prompts[n], 1)).unwrap());
    finish_all(turns);
    engine.shutdown();

    let log = log.lock();
    let last = |n: usize| log.iter().rposition(|batch| rows_of(batch, &prompts[n]) > 0).unwrap();
    assert!(last(0) < last(1) && last(1) < last(2), "the shortest first");
    for (n, prompt) in prompts.iter().enumerate() {
        let served: Vec<usize> =
            (0..=last(n)).filter(|&at| rows_of(&log[at], prompt) >= ROWS / 2).collect();
        let longest = served.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(longest <= 10, "prompt {n} waited for {longest} micro-batches");
    }
}

#[test]
fn equal_prompts_at_once_are_computed_once() {
    for memory in MEMORIES {
        let (model, log) = slow(memory);
        let engine = start(&model);
        let prompt = words("the same words ", 600);
        let submit = |n| engine.submit(request(&format!("chat {n}"), &prompt, 12)).unwrap();
        let answers = finish_all(at_once(&log, || [0, 1, 2, 3].map(submit)));
        // Each computes its last token, for its logits.
        assert_eq!(computed(&engine), prompt.len() + 3, "{memory}");
        for answer in &answers {
            assert_eq!(answer.tokens, alone(&model, &prompt, 12), "{memory}");
            assert_eq!(answer.report.tokens.prompt(), prompt.len(), "{memory}");
        }
        // The KV of each is whole: it continues after a park.
        for (n, answer) in answers.iter().enumerate() {
            block_on(engine.park(name(&format!("chat {n}"))));
            let next = then(&model, &answer.timeline, "and now?");
            let restored = ask(&engine, request(&format!("chat {n}"), &next, 12));
            assert_eq!(restored.tokens, alone(&model, &next, 12), "{memory}");
        }
        engine.shutdown();
    }
}

#[test]
fn prompts_that_begin_alike_share_that_beginning_and_answer_as_if_each_were_alone() {
    for memory in MEMORIES {
        let (model, log) = slow(memory);
        let engine = start(&model);
        let rules = words("You are a kettle. ", 500);
        let prompts =
            ["one", "another", "the third"].map(|end| [&rules[..], &tokens(&model, end)].concat());
        let submit =
            |n: usize| engine.submit(request(&format!("chat {n}"), &prompts[n], 12)).unwrap();
        let answers = finish_all(at_once(&log, || [0, 1, 2].map(submit)));
        let own: usize = prompts.iter().map(|prompt| prompt.len() - rules.len()).sum();
        assert_eq!(computed(&engine), rules.len() + own, "{memory}");
        for (prompt, answer) in prompts.iter().zip(answers) {
            assert_eq!(answer.tokens, alone(&model, prompt, 12), "{memory}");
        }
        engine.shutdown();
    }
}

#[test]
fn a_follower_whose_window_is_refused_starts_over_and_reports_what_it_computes() {
    let (refuses_at, log) = (RefusesAt::default(), BatchLog::default());
    let fake = FakeModel::new().with_memory(MemoryKind::Windowed);
    let fake = fake.with_pace(Duration::from_micros(200)).with_refusal(refuses_at.clone());
    let model: Arc<dyn Model> = Arc::new(fake.with_batch_log(log.clone()));
    let engine = start(&model);
    let begins = words("You are a kettle. ", 200);
    let told = ["one", "other"].map(|it| ask(&engine, request(it, &begins, 4)).timeline);
    assert_eq!(told[0], told[1]);
    settle(&engine);

    let rules = [&told[0][..], &words("Boil the water. ", 300)].concat();
    let prompts = ["for tea", "and wait"].map(|end| [&rules[..], &tokens(&model, end)].concat());
    *refuses_at.lock() = Some(rules.len());
    let before = computed(&engine);
    let submit = |(it, prompt): (&str, &Vec<Token>)| engine.submit(request(it, prompt, 4)).unwrap();
    let turns = || [("one", &prompts[0]), ("other", &prompts[1])].map(submit);
    let answers = finish_all(at_once(&log, turns));
    assert_eq!(*refuses_at.lock(), None, "the copy of the leader's window was refused");
    let reported: usize = answers.iter().map(|answer| answer.report.tokens.computed).sum();
    assert_eq!(reported, computed(&engine) - before);
    for (prompt, answer) in prompts.iter().zip(&answers) {
        check_sum(answer, prompt);
        assert_eq!(answer.tokens, alone(&model, prompt, 4));
    }
    engine.shutdown();
}

#[test]
fn a_leader_that_is_cancelled_or_forgotten_leaves_its_cells_to_the_followers() {
    // A follower of a window lags behind, so nothing is left to it of a leader that is forgotten.
    for (memory, forget) in
        [(MemoryKind::Plain, false), (MemoryKind::Plain, true), (MemoryKind::Windowed, false)]
    {
        let batches = MicroBatches::default();
        let model = batches.of(FakeModel::new().with_memory(memory));
        let engine = start(&model);
        let prompt = words("the same words ", 600);
        // Of equal prompts that come at once, either may lead.
        let (leader, mut paused) = batches.first_of(&engine, request("leader", &prompt, 12));
        let follower = engine.submit(request("follower", &prompt, 12)).unwrap();
        for _ in 0..6 {
            paused = paused.step();
        }
        if forget {
            let (forgotten, later) = paused.reply(engine.forget(name("leader")));
            forgotten.unwrap();
            paused = later;
        }
        drop(leader);
        drop(paused);
        let answer = finish(follower).unwrap();
        assert_eq!(computed(&engine), prompt.len(), "nothing twice");
        assert!(answer.report.tokens.shared >= 4 * ROWS, "{memory}: {:?}", answer.report);
        assert_eq!(answer.tokens, alone(&model, &prompt, 12));
        // Its KV is whole: it continues after a park.
        block_on(engine.park(name("follower")));
        let next = then(&model, &answer.timeline, "and now?");
        let restored = ask(&engine, request("follower", &next, 12));
        assert_eq!(restored.tokens, alone(&model, &next, 12));
        engine.shutdown();
    }
}

#[test]
fn cold_turns_at_once_each_compute_everything() {
    let (model, _) = slow(MemoryKind::Plain);
    let engine = start(&model);
    let prompt = words("the same words ", 300);
    let cold = |it: &str| TurnRequest { cold: true, ..request(it, &prompt, 4) };
    let turns = ["one", "two"].map(|it| engine.submit(cold(it)).unwrap());
    for answer in finish_all(turns) {
        assert_eq!(answer.report.tokens.computed, prompt.len());
    }
    engine.shutdown();
}

#[test]
fn a_prewarm_takes_the_cells_of_an_answer_that_begins_with_its_prefix() {
    let batches = MicroBatches::default();
    let engine = start(&batches.of(FakeModel::new()));
    let prompt = words("the same words ", 600);
    let (answering, paused) = batches.first_of(&engine, request("chat", &prompt, 4));
    let prefix = &prompt[..400];
    let prewarm = TurnRequest { purpose: Purpose::Prewarm, ..request("__prefix__", prefix, 0) };
    let warmed = engine.submit(prewarm).unwrap();
    drop(paused);
    let warmed = finish(warmed).unwrap();
    assert_eq!(warmed.report.tokens.computed, 0, "{:?}", warmed.report);
    assert_eq!(warmed.timeline, prefix);
    finish(answering).unwrap();
    assert_eq!(computed(&engine), prompt.len());
    engine.shutdown();
}
