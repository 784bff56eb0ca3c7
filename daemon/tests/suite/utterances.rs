//! Sound in pieces over HTTP, transcribed and prefilled while it arrives.
//!
//! The recognisers are shell scripts; `tests/openai/test_dialogue.py` has a real one.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use hob_testkit::http::Answer;
use hob_testkit::{Client, Launch, wait};
use serde_json::{Value, json};

use crate::common::recognizer::{RECOGNIZER, shell, without_its_recognizer};
use crate::common::{Plan, World, user};

/// Tokens that the fake model's template writes behind a user message and before the answer.
const END: usize = 13;

fn piece(world: &World, query: &str, pcm: &[u8]) -> Answer {
    let call = world.call("POST", &format!("/v1/conversations/a/audio?{query}"));
    call.header("content-type", "audio/pcm").body(pcm.to_vec()).send()
}

fn append(id: &str) -> Value {
    json!({"conversation": id, "hob": {"append": true}})
}

#[test]
fn the_built_hobd_prefills_the_words_before_the_speaker_ends() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("recognizer");
    std::fs::write(&script, format!("#!/bin/sh\n{RECOGNIZER}\n")).unwrap();
    std::fs::set_permissions(&script, Permissions::from_mode(0o700)).unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let recognizer = script.display().to_string();
    let hobd = launch.args(["--model", "fake", "--voice-recognizer-stream", &recognizer]).start();
    let client = &hobd.client;
    assert_eq!(client.get("/v1/status")["recognizer_stream"], true);
    client.chat(&crate::common::chat_body(json!([user("My locker code is 48213.")]), append("a")));
    let post = |query: &str, pcm: &[u8]| {
        let call = client.call("POST", &format!("/v1/conversations/a/audio?{query}"));
        let answer = call.header("content-type", "audio/pcm").body(pcm.to_vec()).send();
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };

    // At 48 kHz a third of the samples reaches the command.
    let begun = post("rate=48000", &[0; 48_000]);
    assert_eq!((&begun["final"], &begun["object"]), (&json!(false), &json!("conversation.audio")));
    let query = format!("utterance={}", begun["utterance"].as_str().unwrap());
    wait::until("the words so far are shown", || {
        let heard = post(&query, &[0; 4_800]);
        (heard["transcript"] == "What is my locker").then_some(())
    });
    wait::until("they are prefilled", || (ahead(client) >= "What is my".len()).then_some(()));
    let ended = post(&format!("{query}&end=true"), &[]);
    let whole = "What is my locker code?";
    assert_eq!((&ended["transcript"], &ended["final"]), (&json!(whole), &json!(true)));
    assert_eq!(client.get("/v1/conversations/a")["messages"].as_array().unwrap().len(), 2);
    wait::until("the turn is prefilled", || (ahead(client) >= whole.len() + END).then_some(()));
    let answer = client.chat(&crate::common::chat_body(json!([user(whole)]), append("a")));
    let computed = answer["hob"]["tokens"]["computed"].as_u64();
    assert!(computed.is_some_and(|computed| computed <= 1), "{answer}");
}

/// Tokens that were computed ahead.
fn ahead(client: &Client) -> usize {
    let page = client.call("GET", "/metrics").send().text();
    let tokens = page.lines().find_map(|line| line.strip_prefix("hob_ahead_tokens_total "));
    tokens.and_then(|tokens| tokens.parse().ok()).unwrap_or(0)
}

#[test]
fn the_conversation_is_restored_when_the_user_begins_to_speak() {
    let world = Plan::new().dictates(&shell("cat >/dev/null")).start();
    world.chat(json!([user("My locker code is 48213.")]), append("a"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(world.engine.park("a".parse().unwrap()));
    assert!(world.status().slots.iter().all(|slot| slot.conversation.is_none()));
    piece(&world, "", &[]);
    world.until("the conversation is hot", |world| {
        world.status().slots.iter().any(|slot| slot.tokens > 20)
    });
}

#[test]
fn what_cannot_be_heard_is_refused_with_its_reason() {
    let plan = Plan::new().dictates(&shell("cat >/dev/null; echo Hello"));
    let world = plan.body_bytes(4 << 20).start();
    let refused = |query: &str, pcm: &[u8]| {
        let answer = piece(&world, query, pcm);
        (answer.status, answer.error()["code"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(refused("", &[0; 3]), (400, "invalid_audio".into()));
    assert_eq!(refused("rate=7", &[]), (400, "invalid_value".into()));
    assert_eq!(refused("utterance=other", &[0; 2]), (404, "utterance_not_found".into()));
    assert_eq!(refused("", &vec![0; (1 << 20) + 2]), (413, "body_too_large".into()));
    assert_eq!(world.post("/v1/conversations/a/audio", json!({})).status, 415);
    let without = World::new();
    let answer = piece(&without, "", &[]);
    assert_eq!((answer.status, &answer.error()["code"]), (501, &json!("no_recognizer")));
    assert_eq!(without.get("/v1/status").json()["recognizer_stream"], false);

    // Ten minutes at most: at 8 kHz a second has 16,000 bytes.
    let begun = piece(&world, "rate=8000", &[]).json();
    let query = format!("utterance={}", begun["utterance"].as_str().unwrap());
    let minute = vec![0; 60 * 16_000];
    let sent: Vec<u16> = (0..11).map(|_| piece(&world, &query, &minute).status).collect();
    assert_eq!((sent[..10].to_vec(), sent[10]), (vec![200; 10], 413));
}

#[test]
fn a_second_utterance_replaces_the_first_and_a_discarded_one_is_never_sent() {
    let world = Plan::new().dictates(&shell("cat >/dev/null; echo Hello")).start();
    let begin = || {
        let begun = piece(&world, "", &[0; 320]).json();
        format!("utterance={}", begun["utterance"].as_str().unwrap())
    };
    let (first, second) = (begin(), begin());
    assert_eq!(piece(&world, &first, &[]).status, 404);
    let ended = piece(&world, &format!("{second}&end=true"), &[]).json();
    assert_eq!((&ended["transcript"], &ended["final"]), (&json!("Hello"), &json!(true)));
    assert_eq!(piece(&world, &second, &[]).status, 404, "it has ended");

    let third = begin();
    let discarded = world.call("DELETE", "/v1/conversations/a/audio").send();
    assert_eq!(discarded.json()["discarded"], true);
    assert_eq!(piece(&world, &third, &[]).status, 404);
    let refused = world.post("/v1/conversations/a/speech-end", json!({}));
    assert_eq!(refused.error()["code"], "nothing_heard");
}

#[test]
fn a_recognizer_that_fails_is_an_error_and_the_next_utterance_tries_again() {
    let directory = tempfile::tempdir().unwrap();
    let flag = directory.path().join("failed");
    let script = format!(
        "if [ -e '{0}' ]; then cat >/dev/null; echo Hello; \
         else touch '{0}'; echo no model >&2; exit 3; fi",
        flag.display()
    );
    let world = Plan::new().dictates(&shell(&script)).start();
    let begun = piece(&world, "", &[0; 320]).json();
    let query = format!("utterance={}&end=true", begun["utterance"].as_str().unwrap());
    let failed = piece(&world, &query, &[]);
    assert_eq!((failed.status, &failed.error()["code"]), (503, &json!("recognizer")));
    let message = failed.error()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("no model") && message.contains("correct voice_recognizer_stream"));
    let ended = piece(&world, "end=true", &[0; 320]).json();
    assert_eq!(ended["transcript"], "Hello");
}

#[test]
fn a_recognizer_that_cannot_be_started_drops_no_earlier_words() {
    let world = without_its_recognizer();
    world.post("/v1/conversations/a/transcript", json!({"text": "Hello", "final": true}));
    let failed = piece(&world, "", &[0; 320]);
    assert_eq!((failed.status, &failed.error()["code"]), (503, &json!("recognizer")));
    let answer = world.post("/v1/conversations/a/speech-end", json!({"max_tokens": 8}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(world.conversation("a")["messages"][0]["content"], "Hello");
}

#[test]
fn the_command_of_a_client_that_is_gone_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("pid");
    let script = format!("echo $$ >'{}'; exec sleep 60", log.display());
    let world = Plan::new().dictates(&shell(&script)).start();
    let begun = piece(&world, "", &[0; 320]).json();
    let pid = wait::until("the command runs", || {
        std::fs::read_to_string(&log).ok().filter(|pid| pid.ends_with('\n'))
    });
    let lives = || Command::new("kill").args(["-0", pid.trim()]).output().unwrap().status.success();
    assert!(lives());
    wait::until("the command is killed", || (!lives()).then_some(()));
    let query = format!("utterance={}", begun["utterance"].as_str().unwrap());
    assert_eq!(piece(&world, &query, &[]).error()["code"], "utterance_not_found");
}

#[test]
fn eight_utterances_at_most_are_transcribed_at_once() {
    let world = Plan::new().dictates(&shell("cat >/dev/null")).start();
    let begin = |id: usize| {
        let call = world.call("POST", &format!("/v1/conversations/room-{id}/audio"));
        call.header("content-type", "audio/pcm").body(Vec::new()).send()
    };
    assert!((0..8).all(|id| begin(id).status == 200));
    let refused = begin(8);
    assert_eq!((refused.status, &refused.error()["code"]), (503, &json!("too_many_utterances")));
    assert_eq!(begin(3).status, 200, "it replaces its own");
    world.call("DELETE", "/v1/conversations/room-3/audio").send();
    assert_eq!(begin(8).status, 200);
}
