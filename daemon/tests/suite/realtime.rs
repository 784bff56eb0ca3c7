//! Speech over a WebSocket: the realtime events and the answer.

use std::net::Shutdown;
use std::time::Duration;

use hob_runtime::SlotState;
use serde_json::{Value, json};
use tungstenite::Message;
use tungstenite::http::StatusCode;

use crate::common::recognizer::shell;
use crate::common::socket::{Client, started, stopped};
use crate::common::{Plan, TOKEN, World, assistant, text, user};

fn hot(world: &World, count: u64) {
    world.until("the conversation is hot", |world| {
        let page = world.get("/metrics").text();
        let hot = page.lines().find_map(|line| {
            line.strip_prefix("hob_ahead_total{outcome=\"hot\"} ")?.parse::<u64>().ok()
        });
        hot >= Some(count)
    });
}

/// A connection whose answer of 10 s has begun.
fn answering() -> (World, Client) {
    let world = Plan::new().pace(Duration::from_millis(5)).start();
    let mut client = Client::new(&world, "a");
    client.partial("Hello");
    client.send(json!({"type": "response.create",
        "response": {"max_tokens": 2000, "ignore_eos": true}}));
    assert_eq!(client.next()["type"], "response.created");
    (world, client)
}

#[test]
fn the_answer_begins_when_speech_has_stopped_and_its_transcript_is_complete() {
    let world = World::new();
    let mut client = Client::new(&world, "a");
    client.send(started());
    hot(&world, 1);
    client.partial("What is");
    client.partial("What is my locker");
    client.complete("What is my locker code?");
    client.send(stopped());
    let events = client.answer();
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds.first(), Some(&"response.created"));
    assert!(kinds.contains(&"response.output_text.delta"));
    let done = events.last().unwrap();
    let streamed: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(done["response"]["output"][0]["content"][0]["text"], streamed);
    assert_eq!(done["hob"]["conversation"], "a");
    assert!(done["hob"]["tokens"]["shared"].as_u64() > Some(0), "{done}");

    let other = World::new();
    let cold = other.chat(json!([user("What is my locker code?")]), json!({}));
    assert_eq!(streamed, text(&cold));
    let stored = world.conversation("a")["messages"].clone();
    assert_eq!(stored[1]["content"], assistant(&streamed)["content"]);
}

#[test]
fn a_transcript_in_pieces_that_comes_after_the_end_of_speech_is_answered_too() {
    let world = World::new();
    let mut client = Client::new(&world, "a");
    client.send(started());
    client.send(stopped());
    let kind = "conversation.item.input_audio_transcription.delta";
    for delta in ["Hello", " there"] {
        client.send(json!({"type": kind, "delta": delta}));
    }
    client.complete("Hello there.");
    assert_eq!(client.answer().last().unwrap()["response"]["object"], "realtime.response");
    assert_eq!(world.conversation("a")["messages"][0]["content"], "Hello there.");
}

#[test]
fn pieces_behind_an_answered_transcript_begin_the_next_one() {
    let world = World::new();
    let mut client = Client::new(&world, "a");
    let kind = "conversation.item.input_audio_transcription.delta";
    for words in ["Hello", "And you?"] {
        client.send(json!({"type": kind, "delta": words}));
        client.send(json!({"type": "response.create"}));
        client.answer();
    }
    assert_eq!(world.conversation("a")["messages"][2]["content"], "And you?");
}

#[test]
fn a_requested_answer_uses_the_transcript_so_far() {
    let world = World::new();
    let mut client = Client::new(&world, "a");
    client.send(json!({"type": "response.create", "event_id": "mine"}));
    let error = client.answer().remove(0);
    assert_eq!(error["error"]["code"], "nothing_heard");
    client.partial("Hello");
    client.send(json!({"type": "response.create", "response": {"max_tokens": 3}}));
    let done = client.answer().pop().unwrap();
    assert_eq!(done["response"]["usage"]["output_tokens"].as_u64().map(|n| n <= 3), Some(true));
}

#[test]
fn words_without_a_start_of_speech_are_answered_with_the_fields_of_the_session() {
    let world = World::new();
    world.profile("kettle", "[[segment]]\nlayer = 'rules'\ntext = 'Speak like a kettle.'\n");
    world.reload();
    let mut client = Client::new(&world, "a");
    client.send(json!({"type": "session.update", "session": {"profile": "kettle"}}));
    client.next();
    client.complete("Is it hot?");
    client.send(json!({"type": "response.create"}));
    let done = client.answer().pop().unwrap();
    let asked = world.chat(json!([user("Is it hot?")]), json!({"hob": {"profile": "kettle"}}));
    assert_eq!(done["response"]["usage"]["input_tokens"], asked["usage"]["prompt_tokens"]);
}

#[test]
fn new_speech_interrupts_the_answer() {
    let (_world, mut client) = answering();
    client.send(started());
    let done = client.answer().pop().unwrap();
    assert_eq!(done["response"]["status"], "cancelled");
    client.complete("Stop");
    client.send(stopped());
    assert_eq!(client.answer().pop().unwrap()["hob"]["conversation"], "a");
}

#[test]
fn a_session_ends_its_answer_when_it_moves_to_another_conversation_only() {
    let (world, mut client) = answering();
    let mut update = |conversation: &str| {
        let session = json!({"conversation": conversation});
        client.send(json!({"type": "session.update", "session": session}));
        client.until("session.updated")
    };
    let ends = |events: &[Value]| events.iter().any(|event| event["type"] == "response.done");
    assert!(!ends(&update("a")));
    let events = update("b");
    assert!(ends(&events), "{:?}", events.last());
    world.until("the answer is cancelled", |world| world.status().counters.cancelled >= 1);
}

#[test]
fn an_openai_client_s_voice_is_the_default_one_and_its_changes_of_sound_are_merged() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("voices");
    let script = format!("echo {{voice}} >>'{}'; exit 1", log.display());
    let world = Plan::new().synthesizes(&shell(&script), &[]).start();
    let mut client = Client::new(&world, "a");
    let mut update = |session: Value| {
        client.send(json!({"type": "session.update", "session": session}));
        client.next()
    };
    let pcm = json!({"type": "audio/pcm", "rate": 16_000});
    update(json!({"output_modalities": ["audio"], "audio": {"input": {"format": pcm}}}));
    let changed = update(json!({"audio": {"output": {"voice": "alloy"}}}));
    assert_eq!(changed["session"]["audio"]["input"]["format"], pcm);
    let refused = update(json!({"audio": {"input": {"format": {"type": "audio/pcmu"}}}}));
    assert_eq!(refused["error"]["param"], "session.audio.input.format.type");
    client.partial("Say this: Hello there.");
    client.send(json!({"type": "response.create"}));
    client.answer();
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "en\n");
}

#[test]
fn a_session_that_asks_for_two_choices_gets_the_first() {
    let world = World::new();
    let mut client = Client::new(&world, "a");
    client.send(json!({"type": "session.update", "session": {"n": 2, "max_tokens": 60}}));
    client.next();
    client.partial("Say this: Hello there.");
    client.send(json!({"type": "response.create"}));
    let done = client.answer().pop().unwrap();
    assert_eq!(done["response"]["output"][0]["content"][0]["text"], "Hello there.");
}

#[test]
fn the_next_request_of_a_conversation_does_not_wait_for_the_voice() {
    let world = Plan::new().synthesizes(&shell("exec sleep 20"), &[]).start();
    let mut client = Client::new(&world, "a");
    let session = json!({"output_modalities": ["audio"]});
    client.send(json!({"type": "session.update", "session": session}));
    client.partial("Say this: Hello there.");
    client.send(json!({"type": "response.create"}));
    client.until("response.output_audio_transcript.delta");
    let append = json!({"conversation": "a", "hob": {"append": true}});
    world.chat(json!([user("And you?")]), append);
    client.send(json!({"type": "response.cancel"}));
    let done = client.answer().pop().unwrap();
    assert_eq!(done["response"]["status"], "cancelled", "the voice still speaks");
    assert_eq!(done["response"]["output"][0]["type"], "message");
}

/// As one whose network was lost leaves it a minute after it has connected again.
#[test]
fn a_socket_that_leaves_a_conversation_ends_no_speech_of_another_one() {
    speech_goes_on(|before| {
        before.send(json!({"type": "session.update", "session": {"conversation": "b"}}));
        assert_eq!(before.next()["session"]["conversation"], "b");
    });
}

#[test]
fn a_socket_that_is_closed_ends_no_speech_of_another_one() {
    speech_goes_on(|before| {
        before.socket.get_ref().shutdown(Shutdown::Write).unwrap();
        while before.socket.read().is_ok() {} // It ends once the session has.
    });
}

#[test]
fn a_socket_that_leaves_a_conversation_leaves_the_words_of_requests() {
    let world = World::new();
    let mut client = Client::new(&world, "a");
    client.send(started());
    client.send(json!({"type": "nonsense"}));
    assert_eq!(client.next()["error"]["code"], "unknown_event", "its speech has started");
    let said = json!({"text": "Hello", "final": true});
    assert_eq!(world.post("/v1/conversations/a/transcript", said).status, 200);
    client.send(json!({"type": "session.update", "session": {"conversation": "b"}}));
    client.until("session.updated");
    let ended = world.post("/v1/conversations/a/speech-end", json!({"max_tokens": 4}));
    assert_eq!(ended.status, 200, "{}", ended.text());
    assert_eq!(world.conversation("a")["messages"][0]["content"], "Hello");
}

#[test]
fn an_utterance_that_is_discarded_ends_no_speech_of_a_socket() {
    let world = World::new();
    let mut client = Client::new(&world, "a");
    client.send(started());
    client.partial("Hello");
    client.send(json!({"type": "nonsense"}));
    assert_eq!(client.next()["error"]["code"], "unknown_event", "its words have arrived");
    for path in ["audio", "typing"] {
        let left = world.call("DELETE", &format!("/v1/conversations/a/{path}")).send();
        assert_eq!(left.status, 200, "{}", left.text());
    }
    client.send(json!({"type": "response.create", "response": {"max_tokens": 1}}));
    let done = client.answer().pop().unwrap();
    assert_eq!(done["response"]["usage"]["output_tokens"], 1, "{done}");
    assert_eq!(world.conversation("a")["messages"][0]["content"], "Hello");
}

/// A client speaks over a new socket while its old one `leaves`.
fn speech_goes_on(leaves: impl FnOnce(&mut Client)) {
    let world = World::new();
    let mut before = Client::new(&world, "a");
    before.send(started());
    before.send(json!({"type": "nonsense"}));
    assert_eq!(before.next()["error"]["code"], "unknown_event", "its speech has started");
    let mut client = Client::new(&world, "a");
    client.send(json!({"type": "session.update", "session": {"max_tokens": 1}}));
    assert_eq!(client.next()["session"]["max_tokens"], 1);
    client.send(started());
    client.partial("Hello");
    client.send(json!({"type": "nonsense"}));
    assert_eq!(client.next()["error"]["code"], "unknown_event", "its words have arrived");

    leaves(&mut before);
    client.send(json!({"type": "response.create"})); // With the words so far.
    let done = client.answer().pop().unwrap();
    assert_eq!(done["response"]["usage"]["output_tokens"], 1, "the session's options: {done}");
}

#[test]
fn words_that_the_queue_refused_end_when_their_socket_leaves_the_conversation() {
    let world = Plan::new().slots(1).queue(1).pace(Duration::from_millis(5)).start();
    let queue = world.fill_queue();
    let mut client = Client::new(&world, "a");
    client.partial("What is my locker code?");
    client.send(json!({"type": "response.create"}));
    let events = client.answer();
    let error = events.iter().find(|event| event["type"] == "error").unwrap();
    assert_eq!(error["error"]["code"], "queue_full");

    client.send(json!({"type": "session.update", "session": {"conversation": "b"}}));
    client.until("session.updated");
    let end = world.post("/v1/conversations/a/speech-end", json!({"max_tokens": 4}));
    assert_eq!((end.status, &end.error()["code"]), (400, &json!("nothing_heard")));
    drop(queue);
}

#[test]
fn a_stop_lets_a_spoken_answer_end_and_then_closes_the_sockets() {
    let mut world = Plan::new().pace(Duration::from_millis(5)).start();
    let mut idle = Client::new(&world, "b");
    let mut client = Client::new(&world, "a");
    client.partial("Hello");
    client.send(json!({"type": "response.create",
        "response": {"max_tokens": 40, "ignore_eos": true}}));
    assert_eq!(client.next()["type"], "response.created");
    world.stop();
    let done = client.answer().pop().unwrap();
    let response = &done["response"];
    assert_eq!(
        (&response["status"], &response["usage"]["output_tokens"]),
        (&json!("incomplete"), &json!(40))
    );
    for client in [&mut client, &mut idle] {
        let end = loop {
            match client.socket.read() {
                Ok(Message::Text(_) | Message::Ping(_)) => {}
                end => break end,
            }
        };
        assert!(matches!(end, Ok(Message::Close(Some(_)))), "{end:?}");
    }
}

#[test]
fn closing_the_socket_cancels_the_speculative_prefill() {
    let world = Plan::new().pace(Duration::from_millis(2)).micro_batch(16).start();
    let mut client = Client::new(&world, "a");
    let system = json!([{"role": "system", "content": "x".repeat(6_000)}]); // 12 s.
    client.send(json!({"type": "session.update", "session": {"messages": system}}));
    client.next();
    client.send(started());
    world.until("the prefill has begun", |world| {
        world.status().slots.iter().any(|slot| slot.tokens > 20)
    });
    drop(client);
    world.until("the prefill is cancelled", |world| world.status().counters.cancelled == 1);
}

#[test]
fn an_invalid_event_is_an_error_that_names_it() {
    let world = World::new();
    let token = ("authorization", format!("Bearer {TOKEN}"));
    let mut client = Client::with(&world, &[token]).unwrap();
    client.next();
    for (event, code) in [
        (started(), "missing"),
        (json!({"type": "nonsense"}), "unknown_event"),
        (json!([]), "invalid_type"),
        (json!({"type": "session.update", "session": {"conversation": ""}}), "invalid_value"),
    ] {
        let mut event = event;
        if event.is_object() {
            event["event_id"] = "mine".into();
        }
        client.send(event.clone());
        let error = client.next();
        assert_eq!((&error["type"], &error["error"]["code"]), (&json!("error"), &json!(code)));
        assert_eq!(error["error"]["event_id"], event["event_id"]);
    }
    client.socket.send(Message::text("{")).unwrap();
    assert_eq!(client.next()["error"]["code"], "invalid_json");
    assert_eq!(world.get("/v1/realtime/events").error()["code"], "websocket_required");
}

#[test]
fn a_session_and_a_transcript_are_bounded_however_many_messages_they_come_in() {
    let world = World::new();
    let mut client = Client::new(&world, "a");
    let long = "x".repeat(600 << 10);
    client.send(json!({"type": "session.update", "session": {"user": long}}));
    assert_eq!(client.next()["type"], "session.updated");
    client.send(json!({"type": "session.update", "session": {"metadata": {"a": long}}}));
    let error = client.next();
    assert_eq!(error["error"]["code"], "session_too_large", "{error}");
    assert_eq!(error["error"]["param"], "session");
    client.send(json!({"type": "session.update", "session": {"user": "me"}}));
    assert_eq!(
        client.next()["session"]["user"],
        "me",
        "the session is as before, and takes changes"
    );

    let kind = "conversation.item.input_audio_transcription.delta";
    client.send(started());
    for _ in 0..2 {
        client.send(json!({"type": kind, "delta": long}));
    }
    let error = client.next();
    assert_eq!(error["error"]["code"], "transcript_too_long", "{error}");
    client.send(json!({"type": kind, "transcript": "Hello"}));
    client.send(json!({"type": "response.create", "response": {"max_tokens": 3}}));
    assert_eq!(client.answer().last().unwrap()["hob"]["conversation"], "a");
}

#[test]
fn sound_without_speech_starts_nothing() {
    let world = World::new();
    let mut client = Client::new(&world, "a");
    client.socket.send(Message::binary(vec![0u8; 32_000])).unwrap();
    client.send(json!({"type": "nonsense"}));
    assert_eq!(client.next()["error"]["code"], "unknown_event");
}

#[test]
fn the_socket_requires_the_token_and_a_known_origin() {
    let world = World::new();
    let refused = |headers: &[(&'static str, String)]| Client::with(&world, headers).err();
    assert_eq!(refused(&[]), Some(StatusCode::UNAUTHORIZED));
    let wrong = ("sec-websocket-protocol", "realtime, hob-token.wrong".to_owned());
    assert_eq!(refused(&[wrong]), Some(StatusCode::UNAUTHORIZED));
    let protocol = ("sec-websocket-protocol", format!("realtime, hob-token.{TOKEN}"));
    assert_eq!(refused(std::slice::from_ref(&protocol)), None);
    let foreign = ("origin", "http://evil.example".to_owned());
    assert_eq!(refused(&[protocol, foreign]), Some(StatusCode::FORBIDDEN));
}

#[test]
fn speech_reloads_an_unloaded_model_and_its_conversation_and_reports_the_progress() {
    let world = World::new();
    let mut client = Client::new(&world, "parlour");
    client.send(started());
    client.complete("My locker code is 48213.");
    client.send(stopped());
    client.answer();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(runtime.block_on(world.engine.unload()));
    let event = client.next();
    assert_eq!((&event["type"], &event["residency"]), (&json!("hob.model"), &json!("unloaded")));

    client.send(started());
    let mut residency = client.next()["residency"].clone();
    while residency == "loading" {
        residency = client.next()["residency"].clone();
    }
    assert_eq!(residency, "resident");
    world.until("the conversation is hot", |world| {
        let status = world.status();
        status.slots.iter().any(|slot| slot.tokens > 40 && slot.state == SlotState::Idle)
    });
    client.complete("What is my locker code?");
    client.send(stopped());
    let answer = client.answer().pop().unwrap();
    assert!(answer["hob"]["tokens"]["shared"].as_u64() > Some(40), "{answer}");
}
