//! Concurrent clients: order, cancellation, and the limit of the queue.

use std::thread;
use std::time::Duration;

use hob_runtime::SlotState;
use hob_runtime::backend::Row;
use hob_testkit::Stream;
use serde_json::{Value, json};

use crate::common::{Plan, World, user};

fn endless() -> Value {
    json!({"max_tokens": 5000, "ignore_eos": true})
}

fn busy(world: &World) -> bool {
    world.status().slots.iter().any(|slot| !matches!(slot.state, SlotState::Free | SlotState::Idle))
}

#[test]
fn a_client_that_disconnects_frees_its_slot() {
    let world = Plan::new().slots(1).pace(Duration::from_millis(2)).start();
    let mut stream = world.stream(json!([user("Hello")]), endless());
    stream.next().unwrap();
    assert!(busy(&world));
    drop(stream);
    world.until("no slot is busy", |world| !busy(world));
    assert_eq!(world.status().counters.cancelled, 1);
}

#[test]
fn a_client_that_waits_for_a_complete_answer_may_disconnect_too() {
    let world = Plan::new().slots(1).pace(Duration::from_millis(2)).start();
    let body = crate::common::chat_body(json!([user("Hello")]), endless());
    let call = world.call("POST", "/v1/chat/completions").json(&body);
    let waiting = call.open();
    world.until("a slot is busy", busy);
    drop(waiting);
    world.until("no slot is busy", |world| !busy(world));
    assert_eq!(world.status().counters.cancelled, 1);
}

#[test]
fn a_client_beyond_the_queue_gets_a_retry_after() {
    let world = Plan::new().slots(1).queue(1).pace(Duration::from_millis(2)).start();
    let (mut first, _waiting) = world.fill_queue();

    let refused = world.post(
        "/v1/chat/completions",
        crate::common::chat_body(json!([user("Me too")]), json!({"conversation": "c"})),
    );
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert_eq!(refused.error()["code"], "queue_full");
    assert_eq!(world.get("/v1/conversations/c").status, 404, "a refused chat stores nothing");
    assert!(first.next().is_some(), "the running answer continues");
}

#[test]
fn prewarms_without_a_client_wait_for_an_answer_and_take_no_place_of_a_message() {
    let world = Plan::new().queue(4).pace(Duration::from_millis(5)).start();
    let append = || json!({"conversation": "a", "hob": {"append": true}});
    let mut extra = endless();
    extra.as_object_mut().unwrap().extend(append().as_object().unwrap().clone());
    let mut stream = world.stream(json!([user("Hello")]), extra);
    stream.next().unwrap();
    for _ in 0..20 {
        let accepted = world.post("/v1/prewarm", json!({"conversation": "a", "wait": false}));
        assert_eq!(accepted.status, 202, "{}", accepted.text());
    }
    assert!(busy(&world), "none has waited for the end of the answer");
    thread::scope(|scope| {
        scope.spawn(|| world.chat(json!([user("Go on")]), append()));
        drop(stream);
    });
}

#[test]
fn appends_of_one_conversation_are_served_in_order() {
    let world = Plan::new().pace(Duration::from_micros(300)).start();
    let say = |message: &str| {
        world.chat(json!([user(message)]), json!({"conversation": "a", "hob": {"append": true}}))
    };
    say("Start");
    thread::scope(|scope| {
        for n in 0..4 {
            scope.spawn(move || say(&format!("Message {n}")));
        }
    });
    let conversation = world.get("/v1/conversations/a").json();
    let messages = conversation["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 10, "the appends form one branch");
    let roles: Vec<_> = messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert!(roles.chunks(2).all(|pair| pair == ["user", "assistant"]));
    assert!(messages.iter().all(|m| m["status"] == "complete"));
}

#[test]
fn different_conversations_are_decoded_together() {
    let world = Plan::new().slots(4).start();
    let paused = world.pause();
    // A stream begins when it is queued.
    let asked = ["a", "b", "c"].map(|id| {
        let extra = json!({"conversation": id, "max_tokens": 100, "ignore_eos": true});
        world.stream(json!([user("Hello")]), extra)
    });
    drop(paused);
    for chunks in asked.map(Stream::collect) {
        assert!(chunks.len() > 1, "{chunks:?}");
    }
    let are_of_three = |rows: &[Row]| match rows {
        [a, b, c] => [(a, b), (b, c), (a, c)].iter().all(|(a, b)| a.sequence != b.sequence),
        _ => false,
    };
    let together = world.pause().iter().filter(|rows| are_of_three(rows)).count();
    assert!(together > 50, "{together} micro-batches of 100 tokens of three answers");
    for id in ["a", "b", "c"] {
        assert_eq!(world.conversation(id)["messages"][1]["status"], "complete");
    }
}

#[test]
fn a_stop_interrupts_answers_and_saves_their_text() {
    let directory = tempfile::tempdir().unwrap();
    let plan = || Plan::new().directory(directory.path());
    let mut world = plan().pace(Duration::from_millis(5)).start();
    let mut extra = endless();
    extra["conversation"] = "a".into();
    let mut stream = world.stream(json!([user("Hello")]), extra);
    for _ in 0..5 {
        stream.next().unwrap();
    }
    world.stop();
    drop(world);

    let world = plan().start();
    let conversation = world.conversation("a");
    assert_eq!(conversation["messages"][1]["status"], "interrupted");
    assert!(!conversation["messages"][1]["content"].as_str().unwrap().is_empty());
}
