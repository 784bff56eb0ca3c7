//! From the queue into a slot and out of it again: order, names, room, and callers that go away.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use hob_runtime::backend::MemoryKind;
use hob_runtime::backend::fake::FakeModel;
use hob_runtime::{EngineOptions, Model, Turn, TurnError, TurnEvent, TurnRequest};
use hob_slots::Token;
use support::*;

/// Slow enough to be met while it runs.
fn slow() -> Arc<dyn Model> {
    Arc::new(FakeModel::new().with_pace(Duration::from_millis(1)))
}

#[test]
fn a_turn_without_a_conversation_has_no_name_that_a_conversation_could_have() {
    let model = slow();
    let engine = engine(&model, None, options());
    let prompt = tokens(&model, &user("hello"));
    let endless = |name: &str| TurnRequest { ignore_eog: true, ..request(name, &prompt, 40) };
    let named = started(engine.submit(endless("anonymous-turn-1")).unwrap());
    let nameless = TurnRequest { conversation: None, ..endless("any") };
    let nameless = started(engine.submit(nameless).unwrap());

    let names = status(&engine).slots.into_iter().filter_map(|slot| slot.conversation);
    assert_eq!(names.collect::<Vec<_>>(), [name("anonymous-turn-1")]);
    assert_eq!([named, nameless].map(tokens_left), [40, 40]);
}

#[test]
fn a_turn_that_was_put_aside_waits_for_the_end_of_another_one() {
    let model = slow();
    let engine = engine(&model, None, tight());
    let turns = [0, 1, 2].map(|n| engine.submit(long(&model, n)).unwrap());
    let answers = turns.map(|turn| finish(turn).unwrap());

    let counters = status(&engine).counters;
    assert!((1..=3).contains(&counters.preempted), "not again and again: {counters:?}");
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(
            answer.tokens,
            ask(&support::engine(&model, None, options()), long(&model, n)).tokens
        );
        assert_eq!(answer.report.tokens.prompt(), long(&model, n).prompt.len());
    }
}

#[test]
fn turns_of_one_conversation_keep_their_order_when_the_first_is_put_aside() {
    let model = slow();
    let engine = engine(&model, None, tight());
    let turns = [0, 1].map(|n| started(engine.submit(long(&model, n)).unwrap()));
    let follows = engine.submit(request("chat 1", &long(&model, 2).prompt, 1)).unwrap();

    let [_, aside] = turns;
    let ends = [aside, follows]
        .map(|turn| std::thread::spawn(move || (tokens_left(turn), Instant::now())));
    let [(aside, aside_ended), (follows, follows_ended)] = ends.map(|end| end.join().unwrap());
    assert_eq!((aside, follows), (50, 1));
    assert!(aside_ended < follows_ended);
    assert!(status(&engine).counters.preempted > 0, "the one waited for room");
}

#[test]
fn a_turn_that_is_cancelled_while_it_restores_costs_nothing_of_what_is_kept() {
    let model: Arc<dyn Model> = Arc::new(FakeModel::new());
    let directory = tempfile::tempdir().unwrap();
    let before = engine(&model, Some(directory.path()), options());
    let system = "<|im_start|>system\nA long and careful instruction.<|im_end|>\n".repeat(3);
    let story = format!("{system}{}", user(&"a long story ".repeat(30)));
    let kept = ask(&before, request("chat", &tokens(&model, &story), 20)).timeline;
    before.shutdown();

    for micros in (0..400).step_by(20) {
        let after = engine(&model, Some(directory.path()), options());
        // So that something of it is hot when it comes back.
        ask(&after, request("other", &tokens(&model, &system), 1));
        let prompt = then(&model, &kept, "go on");
        let cancelled = after.submit(request("chat", &prompt, 5)).unwrap();
        std::thread::sleep(Duration::from_micros(micros));
        drop(cancelled);
        if micros % 40 == 0 {
            let report = ask(&after, request("chat", &prompt, 1)).report;
            assert!(report.tokens.computed <= prompt.len() - kept.len(), "{report:?}");
        }
        after.shutdown();
    }
}

#[test]
fn what_is_kept_takes_the_place_of_less_that_is_hot() {
    for memory in [MemoryKind::Plain, MemoryKind::Recurrent] {
        let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_memory(memory));
        let engine = engine(&model, None, EngineOptions { slots: 1, ..options() });
        let story = tokens(&model, &user(&"a long story ".repeat(9)));
        let kept = ask(&engine, request("chat", &story, 20)).timeline;
        let nameless = request("any", &story[..30], 0);
        ask(&engine, TurnRequest { conversation: None, ..nameless });

        let prompt = then(&model, &kept, "go on");
        let report = ask(&engine, request("chat", &prompt, 5)).report;
        assert_eq!(report.tokens.computed, prompt.len() - kept.len(), "{memory}: {report:?}");
        assert_eq!(report.tokens.prompt(), prompt.len(), "{memory}: {report:?}");
        assert_eq!(status(&engine).counters.wasted_restores, 0);
    }
}

#[test]
fn as_many_idle_conversations_give_way_to_a_restore_as_it_takes() {
    for memory in [MemoryKind::Plain, MemoryKind::Recurrent] {
        let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_memory(memory));
        let engine = engine(&model, None, tight());
        let kept = ask(&engine, TurnRequest { max_tokens: 80, ..long(&model, 0) }).timeline;
        block_on(engine.park(name("chat 0")));
        for n in [1, 2] {
            ask(&engine, TurnRequest { max_tokens: 10, ..long(&model, n) });
        }

        let prompt = then(&model, &kept, "go on");
        let report = ask(&engine, request("chat 0", &prompt, 2)).report;
        assert_eq!(report.tokens.computed, prompt.len() - kept.len(), "{memory}: {report:?}");
        assert_eq!(status(&engine).counters.import_failures, 0);
    }
}

#[test]
fn a_disk_that_takes_nothing_holds_nobody_up() {
    for memory in [MemoryKind::Plain, MemoryKind::Recurrent] {
        let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_memory(memory));
        let directory = tempfile::tempdir().unwrap();
        let no_place = directory.path().join(FINGERPRINT.to_string());
        std::fs::write(no_place, "a file where a directory should be").unwrap();
        let options = EngineOptions { memory_budget_bytes: 0, ..options() };
        let engine = engine(&model, Some(directory.path()), options);
        let prompt = tokens(&model, &user(&"a long story ".repeat(150)));
        let first = ask(&engine, request("chat", &prompt, 20));
        block_on(engine.park(name("chat")));
        let second = ask(&engine, request("chat", &prompt, 20));
        assert_eq!(first.tokens, second.tokens, "{memory}");
        assert!(status(&engine).counters.write_errors > 0, "{memory}");
        engine.shutdown();
    }
}

#[test]
fn a_turn_that_comes_while_the_engine_stops_is_told_so() {
    let model = slow();
    let engine = engine(&model, None, options());
    let stopping = engine.clone();
    let stopping = std::thread::spawn(move || stopping.shutdown());
    while let Ok(turn) = engine.submit(request("chat", &[Token(65)], 1)) {
        finish(turn).map_or_else(|error| assert_eq!(error, TurnError::Stopped), drop);
    }
    stopping.join().unwrap();
}

/// Room for one long turn and a half.
fn tight() -> EngineOptions {
    EngineOptions { context_tokens: 256, slots: 3, micro_batch: 64, ..options() }
}

/// Turn `n`, which takes 150 cells.
fn long(model: &Arc<dyn Model>, n: usize) -> TurnRequest {
    let prompt = tokens(model, &"0123456789".repeat(10).replace('0', &n.to_string()));
    TurnRequest { ignore_eog: true, ..request(&format!("chat {n}"), &prompt, 50) }
}

/// The turn, once its prompt is computed.
fn started(mut turn: Turn) -> Turn {
    let first = turn.next_blocking();
    assert!(matches!(first, Some(TurnEvent::Started(_))), "{first:?}");
    turn
}

/// How many tokens a turn still says.
fn tokens_left(mut turn: Turn) -> usize {
    let events = std::iter::from_fn(|| turn.next_blocking());
    events.filter(|event| matches!(event, TurnEvent::Token { .. })).count()
}
