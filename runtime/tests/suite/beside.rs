//! The cells of idle conversations, which slow what is computed beside them.

use std::sync::Arc;
use std::time::Duration;

use hob_runtime::backend::Row;
use hob_runtime::backend::fake::FakeModel;
use hob_runtime::turn::{PromptPhase, PromptProgress};
use hob_runtime::{Engine, EngineOptions, Model, Purpose, Turn, TurnEvent, TurnRequest};

use crate::support::held::MicroBatches;
use crate::support::*;

fn options() -> EngineOptions {
    EngineOptions { slots: 4, micro_batch: 512, ..crate::support::options() }
}

/// Tokens in the cells of the conversation.
fn hot(engine: &Engine, conversation: &str) -> usize {
    let slots = status(engine).slots;
    let slot = slots.iter().find(|slot| slot.conversation == Some(name(conversation)));
    slot.map_or(0, |slot| slot.tokens)
}

fn next_token(turn: &mut Turn) {
    while let Some(event) = turn.next_blocking() {
        if let TurnEvent::Token { .. } = event {
            break;
        }
    }
}

#[test]
fn a_long_prompt_parks_idle_conversations_which_come_back_without_computing() {
    let model = fake();
    let engine = OnDisk::with(&model, options());
    let engine = &engine.engine;
    let idle = ask(engine, request("idle", &words("a", 400), 4));
    let small = ask(engine, request("small", &words("b", 100), 4));
    settle(engine);
    ask(engine, request("long", &words("c", 400), 4));
    assert_eq!((hot(engine, "idle"), hot(engine, "small")), (0, small.timeline.len()));
    assert_eq!(status(engine).counters.parked, 1);

    let prompt = then(&model, &idle.timeline, "and now?");
    let again = ask(engine, request("idle", &prompt, 4));
    let (tokens, known) = (again.report.tokens, idle.timeline.len());
    assert_eq!((tokens.memory, tokens.computed), (known, prompt.len() - known));
    assert_eq!(again.tokens, alone(&model, &prompt, 4));
}

#[test]
fn an_idle_conversation_is_parked_once_many_rows_were_computed_beside_it() {
    let model = fake();
    let engine = OnDisk::with(&model, options());
    let engine = &engine.engine;
    let idle = ask(engine, request("idle", &words("a", 400), 4));
    settle(engine);
    for (word, stays) in [("b", true), ("c", true), ("d", false)] {
        ask(engine, request(word, &words(word, 10), 1));
        settle(engine);
        assert_eq!(hot(engine, "idle") >= 400, stays, "{word}: {:?}", status(engine));
    }

    let prompt = then(&model, &idle.timeline, "and now?");
    let again = ask(engine, request("idle", &prompt, 4));
    let (tokens, known) = (again.report.tokens, idle.timeline.len());
    assert_eq!((tokens.memory, tokens.computed), (known, prompt.len() - known));
}

#[test]
fn the_tokens_that_an_answer_may_have_count_before_they_are_computed() {
    let engine = OnDisk::with(&fake(), options());
    let engine = &engine.engine;
    ask(engine, request("idle", &words("a", 400), 4));
    settle(engine);
    let mut answer = engine.submit(request("other", &words("b", 10), 200)).unwrap();
    next_token(&mut answer);
    assert_eq!(hot(engine, "idle"), 0, "at its first token: {:?}", status(engine));
}

#[test]
fn a_conversation_whose_turn_waits_is_not_parked() {
    let batches = MicroBatches::default();
    let engine = OnDisk::with(&batches.of(FakeModel::new()), options());
    let engine = &engine.engine;
    let known = ask(engine, request("waits", &words("a", 150), 1));
    settle(engine);
    // Its rows are too few to park for. Both turns come while they are computed, which they do not cut, and
    // are admitted one after the other.
    let few = TurnRequest { purpose: Purpose::Speculate, ..request("few", &words("b", 20), 0) };
    let prompt = then(&fake(), &known.timeline, "again");
    let paused = batches.pause();
    let few = engine.submit(few).unwrap();
    let ([many, waits], paused) = paused.step_during(|| {
        let turns = [request("many", &words("c", 200), 1), request("waits", &prompt, 1)];
        turns.map(|turn| engine.submit(turn).unwrap())
    });
    drop(paused);
    for turn in [few, many] {
        finish(turn).unwrap();
    }
    let tokens = finish(waits).unwrap().report.tokens;
    assert_eq!((tokens.shared, tokens.memory), (known.timeline.len(), 0), "{:?}", status(engine));
}

#[test]
fn tokens_of_an_answer_that_are_computed_count_once() {
    let engine = OnDisk::with(&fake(), options());
    let engine = &engine.engine;
    ask(engine, request("idle", &words("a", 400), 4));
    settle(engine);
    ask(engine, request("other", &words("b", 10), 10));
    assert!(hot(engine, "idle") >= 400, "20 rows: {:?}", status(engine));
}

/// The answer to `long`, beside which `short` has an answer until that of `long` begins.
fn outlives(
    batches: &MicroBatches,
    engine: &Engine,
    short: TurnRequest,
    long: TurnRequest,
) -> Answer {
    let (short, mut paused) = batches.first_of(engine, short);
    let (sequence, prompt) = (paused.begun.last().unwrap()[0].sequence, long.prompt.len());
    let long = engine.submit(long).unwrap();
    let is_answered = |row: &Row| row.sequence != sequence && row.position >= prompt;
    while !paused.begun.last().unwrap().iter().any(is_answered) {
        paused = paused.step();
    }
    drop(short);
    drop(paused);
    finish(long).unwrap()
}

/// The other one has the cells in front of its own, and leaves them first.
#[test]
fn an_answer_that_outlives_another_is_gathered_in_the_cells_that_it_left() {
    let batches = MicroBatches::default();
    let engine = OnDisk::with(&batches.of(FakeModel::new()), options());
    let engine = &engine.engine;
    let (first, second) = (words("a", 200), words("b", 300));
    let short = endless("short", &first, 1_000);
    let answer = outlives(&batches, engine, short, request("long", &second, 300));
    let gathered = status(engine).counters.gathered_tokens;
    assert!((300..=answer.timeline.len() as u64).contains(&gathered), "{gathered}");
    let model = fake();
    assert_eq!(answer.tokens, alone(&model, &second, 300));

    settle(engine);
    let prompt = then(&model, &answer.timeline, "and now?");
    let again = ask(engine, request("long", &prompt, 4));
    assert_eq!(again.tokens, alone(&model, &prompt, 4));
}

#[test]
fn of_cells_that_others_share_none_is_gathered() {
    let batches = MicroBatches::default();
    let engine = OnDisk::with(&batches.of(FakeModel::new()), options());
    let engine = &engine.engine;
    let instructions = words("s", 300);
    let prompt = |word| [instructions.clone(), words(word, 150)].concat();
    ask(engine, request("first", &prompt("a"), 1));
    settle(engine);
    let short = endless("short", &prompt("b"), 1_000);
    let answer = outlives(&batches, engine, short, request("long", &prompt("c"), 300));
    let gathered = status(engine).counters.gathered_tokens as usize;
    let own = answer.timeline.len() - instructions.len();
    assert!(0 < gathered && gathered <= own, "{gathered} of {own}");
    assert_eq!(answer.tokens, alone(&fake(), &prompt("c"), 300));
}

#[test]
fn rows_of_its_own_and_of_turns_that_share_its_cells_park_no_conversation() {
    let engine = OnDisk::with(&fake(), options());
    let engine = &engine.engine;
    for count in [300, 400] {
        ask(engine, request("first", &words("a", count), 1));
        settle(engine);
    }
    ask(engine, request("short", &words("c", 10), 1));
    assert!(hot(engine, "first") >= 400, "its own rows do not count: {:?}", status(engine));
    let shares = [words("a", 400), words("b", 200)].concat();
    ask(engine, request("second", &shares, 1));
    assert!(hot(engine, "first") >= 400, "{:?}", status(engine));
}

#[test]
fn on_a_device_many_more_rows_are_computed_beside_an_idle_conversation() {
    let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_device());
    let engine = OnDisk::with(&model, options());
    let engine = &engine.engine;
    ask(engine, request("idle", &words("a", 400), 4));
    settle(engine);
    ask(engine, request("long", &words("b", 400), 4));
    assert!(hot(engine, "idle") >= 400, "{:?}", status(engine));
    ask(engine, request("longer", &words("c", 400), 4));
    assert_eq!(hot(engine, "idle"), 0, "{:?}", status(engine));
}

#[test]
fn on_a_device_a_turn_is_saved_when_it_has_ended() {
    for (fake, is_saved_before) in
        [(FakeModel::new(), true), (FakeModel::new().with_device(), false)]
    {
        let batches = MicroBatches::default();
        let engine = engine(&batches.of(fake), None, options());
        let asked = endless("chat", &words("a", 400), 400);
        let (mut turn, mut paused) = batches.first_of(&engine, asked);
        // The engine sends a token first, and saves what it has computed after that.
        for _ in 0..10 {
            paused = paused.step();
        }
        let (during, paused) = paused.reply(engine.status());
        let during = during.unwrap().memory_bytes;
        assert_eq!(during > 0, is_saved_before, "of 400 tokens, {during} bytes");
        drop(paused);
        let bytes = || status(&engine).memory_bytes;
        while turn.next_blocking().is_some() {}
        settle(&engine);
        assert!(bytes() > 0);
        engine.shutdown();
    }
}

#[test]
fn what_is_not_saved_and_what_memory_has_no_room_for_stays() {
    for saved in [false, true] {
        let budget = if saved { 0 } else { 1 << 30 };
        let options = EngineOptions { memory_budget_bytes: budget, ..options() };
        let engine = OnDisk::with(&fake(), options);
        let engine = &engine.engine;
        let idle = request("idle", &words("a", 400), 4);
        if saved {
            ask(engine, idle);
        } else {
            ask(engine, TurnRequest { conversation: None, ..idle });
        }
        settle(engine);
        let before = status(engine).used_tokens;
        ask(engine, request("long", &words("b", 400), 4));
        assert!(status(engine).used_tokens > before + 400, "saved: {saved}");
    }
}

#[test]
fn a_reader_hears_of_a_long_micro_batch_while_it_is_computed() {
    let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_pace(Duration::from_millis(1)));
    let engine = engine(&model, None, EngineOptions { micro_batch: 512, ..options() });
    ask(&engine, request("first", &words("a", 512), 1)); // The number of nodes becomes known.
    let prompt = words("b", 512);
    let asked = TurnRequest { reports_progress: true, ..request("read", &prompt, 1) };
    let mut turn = engine.submit(asked).unwrap();
    let mut heard = Vec::new();
    while let Some(event) = turn.next_blocking() {
        if let TurnEvent::Progress(PromptProgress { phase: PromptPhase::Reading, tokens, .. }) =
            event
        {
            heard.push(tokens.computed);
        }
    }
    let within = heard.iter().filter(|&&computed| 0 < computed && computed < prompt.len());
    assert!(within.count() >= 2, "{heard:?}");
    assert!(
        heard.is_sorted() && heard.iter().all(|&computed| computed <= prompt.len()),
        "{heard:?}"
    );
    engine.shutdown();
}

/// The cells that were moved hold what was saved of them before.
#[cfg(feature = "llama")]
#[test]
fn gathered_cells_of_llama_cpp_answer_as_restored_ones() {
    let model = load("hob-tiny-f16.gguf");
    let engine = OnDisk::with(&model, EngineOptions { drafts: false, ..options() });
    let engine = &engine.engine;
    let story = |name: &str, count| {
        tokens(&model, &user(&format!("My locker code is 48213. {name} is large. ").repeat(count)))
    };
    let mut short = engine.submit(endless("short", &story("Rome", 12), 1_000)).unwrap();
    next_token(&mut short);
    let mut long = engine.submit(endless("long", &story("Paris", 20), 200)).unwrap();
    let mut begun = Vec::new();
    while !matches!(begun.last(), Some(TurnEvent::Token { .. })) {
        begun.push(long.next_blocking().expect("it answers"));
    }
    drop(short);
    let rest = std::iter::from_fn(|| long.next_blocking());
    let answer = answer(begun.into_iter().chain(rest)).unwrap();
    settle(engine);
    let gathered = status(engine).counters.gathered_tokens;
    assert!(gathered >= 128, "{gathered}: {:?}", status(engine));

    let prompt = then(&model, &answer.timeline, "What is my locker code?");
    let moved = ask(engine, request("long", &prompt, 16));
    assert_eq!(moved.report.tokens.shared, answer.timeline.len());
    settle(engine);
    block_on(engine.park(name("long")));
    let restored = ask(engine, request("long", &prompt, 16));
    assert!(restored.report.tokens.memory > 0, "{:?}", restored.report);
    assert_eq!(moved.tokens, restored.tokens);
}
