//! The engine's promises, on the fake backend, where every wrong, missing or foreign cell changes
//! the answer.

use std::sync::Arc;
use std::time::Duration;

use hob_runtime::backend::MemoryKind;
use hob_runtime::backend::fake::FakeModel;
use hob_runtime::{Engine, EngineOptions, FinishReason, Model, NoEviction, TurnError, TurnRequest};
use hob_slots::Token;

use crate::support::held::MicroBatches;
use crate::support::wait::{PATIENCE, until};
use crate::support::*;

#[test]
fn kv_stays_in_its_cells_until_the_disk_has_room_and_is_saved_then() {
    for memory in [MemoryKind::Plain, MemoryKind::Hybrid] {
        let model = of_memory(memory);
        let one_at_a_time = EngineOptions { unsaved_budget_bytes: 1, ..options() };
        let mut disk = OnDisk::with(&model, one_at_a_time);
        let first =
            ask(&disk.engine, request("chat", &tokens(&model, &user(&"hello ".repeat(80))), 8));
        settle(&disk.engine);
        assert!(status(&disk.engine).counters.written_bytes > 0, "written behind: {memory}");
        disk.restart();
        let prompt = then(&model, &first.timeline, "and now?");
        let answer = ask(&disk.engine, request("chat", &prompt, 8));
        assert_eq!(answer.report.tokens.disk, first.timeline.len(), "{memory}");
    }
}

#[test]
fn a_disk_that_is_too_slow_costs_computing_and_neither_memory_nor_waiting() {
    for memory in [MemoryKind::Plain, MemoryKind::Hybrid] {
        let model = of_memory(memory);
        let never = EngineOptions { unsaved_budget_bytes: 0, slots: 1, ..options() };
        let disk = OnDisk::with(&model, never);
        let engine = &disk.engine;
        let first = ask(engine, request("chat", &tokens(&model, &user("hello")), 8));
        ask(engine, request("other", &tokens(&model, &user("good evening")), 8)); // Parks it.
        assert_eq!(status(engine).memory_bytes, 0, "{memory}");
        let prompt = then(&model, &first.timeline, "and now?");
        let answer = ask(engine, request("chat", &prompt, 40));
        assert_eq!(answer.tokens, alone(&model, &prompt, 40), "{memory}");
    }
}

#[test]
fn logits_that_are_not_numbers_are_named_as_such() {
    let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_nan_logits());
    let engine = engine(&model, None, options());
    let turn = engine.submit(request("chat", &tokens(&model, &user("hello")), 4)).unwrap();
    assert_eq!(finish(turn).unwrap_err(), TurnError::NotANumber);
    engine.shutdown();
}

#[test]
fn an_embedding_may_be_as_long_as_the_context() {
    for pooling in ["mean", "last"] {
        let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_pooling(pooling));
        let engine = engine(&model, None, EngineOptions { micro_batch: 64, ..options() });
        let most = options().context_tokens;
        for len in [65, most] {
            assert!(block_on(engine.embed(vec![Token(65); len])).is_ok(), "{pooling}");
        }
        let refused = block_on(engine.embed(vec![Token(65); most + 1])).unwrap_err();
        assert!(matches!(refused, TurnError::TooLong { .. }), "{pooling}: {refused}");
        engine.shutdown();
    }
}

#[test]
fn four_conversations_interleaved_over_two_slots_answer_as_if_each_were_alone() {
    for memory in [MemoryKind::Plain, MemoryKind::Recurrent] {
        let model = of_memory(memory);
        let disk = OnDisk::new(&model);
        let mut chats: Vec<Chat> = (0..4).map(|n| Chat::new(&format!("chat {n}"))).collect();
        for round in 0..12 {
            // All four at once: two run, two wait.
            let turns: Vec<_> =
                chats.iter_mut().map(|chat| chat.submit(&model, &disk.engine, round)).collect();
            for (chat, turn) in chats.iter_mut().zip(turns) {
                let answer = finish(turn).expect("the turn succeeds");
                assert_eq!(answer.tokens, alone(&model, &chat.prompt, 12), "{memory}");
                chat.timeline = answer.timeline;
            }
        }
    }
}

struct Chat {
    name: String,
    timeline: Vec<Token>,
    prompt: Vec<Token>,
}

impl Chat {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), timeline: Vec::new(), prompt: Vec::new() }
    }

    fn submit(
        &mut self,
        model: &Arc<dyn Model>,
        engine: &Engine,
        round: usize,
    ) -> hob_runtime::Turn {
        self.prompt = then(model, &self.timeline, &format!("{} says {round}", self.name));
        engine.submit(request(&self.name, &self.prompt, 12)).expect("a valid turn")
    }
}

#[test]
fn turns_that_do_not_fit_together_run_in_turn_and_answer_the_same() {
    let batches = MicroBatches::default();
    let model = batches.of(FakeModel::new());
    let small = EngineOptions { context_tokens: 256, micro_batch: 64, ..options() };
    let engine = engine(&model, None, small);
    let prompts: Vec<Vec<Token>> =
        (0..2).map(|n| tokens(&model, &user(&format!("number {n} ").repeat(12)))).collect();
    let endless = |n: usize| endless(&format!("chat {n}"), &prompts[n], 60);
    let (first, paused) = batches.first_of(&engine, endless(0));
    let second = engine.submit(endless(1)).unwrap();
    drop(paused);
    let answers = [first, second].map(|turn| finish(turn).unwrap());

    assert!(prompts[0].len() + prompts[1].len() + 120 > 256, "they do not fit together");
    assert!(status(&engine).counters.preempted > 0, "one of them waited");
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer.tokens, answered_alone(&model, endless(n)));
    }
}

#[test]
fn an_answer_that_fills_the_context_ends_with_length() {
    let model = fake();
    let options = EngineOptions { context_tokens: 128, away: None, ..options() };
    let engine = engine(&model, None, options);
    let prompt = tokens(&model, &user("talk for ever"));
    let answer = ask(&engine, endless("chat", &prompt, 10_000));
    assert_eq!(answer.reason, FinishReason::Length);
    assert_eq!(answer.timeline.len(), 128);
}

#[test]
fn a_prompt_that_cannot_fit_is_refused_with_both_numbers() {
    let model = fake();
    let options = EngineOptions { context_tokens: 64, away: None, ..options() };
    let engine = engine(&model, None, options);
    let error = engine.submit(request("chat", &[Token(65); 65], 1)).unwrap_err();
    let no_eviction = Some(NoEviction::Off);
    let expected = TurnError::TooLong { prompt_tokens: 65, context_tokens: 64, no_eviction };
    assert_eq!(error, expected);
    assert!(error.to_string().contains("set `eviction` to restore"), "{error}");
    let error = engine.submit(request("chat", &[], 1)).unwrap_err();
    assert_eq!(error, TurnError::EmptyPrompt);
    let error = engine.submit(request("chat", &[Token(999_999)], 1)).unwrap_err();
    assert!(matches!(error, TurnError::UnknownToken { token: 999_999, .. }));
}

#[test]
fn the_queue_is_bounded_and_a_cancelled_turn_makes_room() {
    let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_pace(Duration::from_millis(2)));
    let engine = engine(&model, None, EngineOptions { slots: 1, queue: 2, ..options() });
    let endless = |name: &str| endless(name, &tokens(&model, &user("go")), 1_000_000);
    let mut running = engine.submit(endless("a")).unwrap();
    running.next_blocking().expect("it runs, so it left the queue");
    let waiting = [engine.submit(endless("b")).unwrap(), engine.submit(endless("c")).unwrap()];
    assert_eq!(engine.submit(endless("d")).unwrap_err(), TurnError::Busy { waiting: 2 });

    drop(running);
    drop(waiting);
    until("none waits", || status(&engine).waiting == 0);
    let answer = ask(&engine, request("e", &tokens(&model, &user("hi")), 3));
    assert_eq!(answer.tokens.len(), 3);
    assert_eq!(status(&engine).counters.cancelled, 3);
}

#[test]
fn turns_of_one_conversation_are_served_in_their_order() {
    let model = fake();
    let engine = engine(&model, None, options());
    let prompt = tokens(&model, &user("hello"));
    let first = engine.submit(request("chat", &prompt, 10)).unwrap();
    let second = engine.submit(request("chat", &prompt, 10)).unwrap();
    let second = finish(second).unwrap();
    let first = finish(first).unwrap();
    assert_eq!(first.tokens, second.tokens);
    assert_eq!(second.report.tokens.computed, 1, "the second found the first one's prompt");
}

#[test]
fn an_anonymous_prompt_is_not_saved_but_its_cells_can_be_shared() {
    let model = fake();
    let disk = OnDisk::new(&model);
    let engine = &disk.engine;
    let prompt = tokens(&model, &user(&"no one in particular ".repeat(10)));
    let nameless = TurnRequest { conversation: None, ..request("any", &prompt, 5) };
    ask(engine, nameless.clone());
    let again = ask(engine, nameless);
    assert_eq!(again.report.tokens.shared, prompt.len() - 1);
    settle(engine);
    assert_eq!(status(engine).counters.written_bytes, 0);
}

#[test]
fn a_turn_that_waits_for_the_slot_of_an_anonymous_one_gets_it() {
    let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_pace(Duration::from_millis(1)));
    let engine = engine(&model, None, EngineOptions { slots: 1, ..options() });
    let prompt = tokens(&model, &user("hello"));
    let anonymous = || TurnRequest { conversation: None, ..request("any", &prompt, 20) };
    let turns = [anonymous(), anonymous()].map(|request| engine.submit(request).unwrap());

    let (done, answers) = std::sync::mpsc::channel();
    std::thread::spawn(move || turns.map(|turn| done.send(finish(turn)).unwrap()));
    let answers = [(); 2].map(|()| answers.recv_timeout(PATIENCE));
    let [first, second] = answers.map(|answer| answer.expect("it does not wait forever").unwrap());
    assert_eq!(second.tokens, first.tokens);
}

#[test]
fn max_tokens_0_computes_the_prompt_and_generates_nothing() {
    let model = fake();
    let engine = engine(&model, None, options());
    let prompt = tokens(&model, &user("warm this up"));
    let warmed = ask(&engine, request("chat", &prompt, 0));
    assert_eq!((warmed.tokens.len(), warmed.reason), (0, FinishReason::Length));
    let answer = ask(&engine, request("chat", &prompt, 10));
    assert_eq!(answer.report.tokens.computed, 1);
}

#[test]
fn a_stop_text_ends_the_answer_and_is_not_part_of_it() {
    let model = fake();
    let engine = engine(&model, None, options());
    let prompt = tokens(&model, &user("say something"));
    let whole = ask(&engine, request("a", &prompt, 30)).text;
    let stop = whole[3..6].to_owned();
    let cut = whole.find(&stop).unwrap();
    let answer = ask(&engine, TurnRequest { stop: vec![stop], ..request("b", &prompt, 30) });
    assert_eq!(answer.text, whole[..cut]);
    assert_eq!(answer.reason, FinishReason::Stop);
}

#[test]
fn every_call_after_shutdown_returns_stopped() {
    let model = fake();
    let engine = engine(&model, None, options());
    engine.shutdown();
    let error = engine.submit(request("chat", &[Token(65)], 1)).map(drop);
    assert!(matches!(error, Err(TurnError::Stopped)));
    assert_eq!(block_on(engine.status()).unwrap_err(), TurnError::Stopped);
}
