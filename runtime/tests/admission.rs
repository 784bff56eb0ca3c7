//! From the queue into a slot and out of it again: order, names, room, and callers that go away.

mod support;

use std::sync::Arc;
use std::time::Duration;

use hob_runtime::backend::fake::FakeModel;
use hob_runtime::{Model, Turn, TurnEvent, TurnRequest};
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
