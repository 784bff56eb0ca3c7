//! A spoken dialogue: sound to transcript while it arrives.
//!
//! The commands are shell scripts; the sound of one test is espeak-ng's, if it is installed.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hob_daemon::speech::sound::Sound;
use hob_daemon::speech::vad::SpeechDetector;
use serde_json::{Value, json};
use tungstenite::Message;

use crate::common::recognizer::{RECOGNIZER, shell, without_its_recognizer};
use crate::common::socket::Client;
use crate::common::{Plan, World, user};

/// Appends sound of 24 kHz.
pub fn append(client: &mut Client, pcm: &[u8]) {
    client.send(json!({"type": "input_audio_buffer.append", "audio": BASE64.encode(pcm)}));
}

pub fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[test]
fn appended_sound_is_transcribed_and_prefilled_while_it_arrives() {
    let world = Plan::new().dictates(&shell(RECOGNIZER)).start();
    let mut client = Client::new(&world, "a");
    client.send(json!({"type": "session.update", "session": {"turn_detection": null}}));
    client.next();
    append(&mut client, &[0; 48_000]); // One second.
    let delta = "conversation.item.input_audio_transcription.delta";
    let mut heard = client.until(delta);
    assert_eq!(heard.last().unwrap()["transcript"], "What is my");
    heard.extend(client.until(delta));
    assert_eq!(heard.last().unwrap()["transcript"], "What is my locker");
    assert!(kinds(&heard).contains(&"input_audio_buffer.speech_started"));
    world.until("the words are prefilled", |world| {
        world.status().slots.iter().any(|slot| slot.tokens > 10)
    });
    client.send(json!({"type": "input_audio_buffer.commit"}));
    let events = client.answer();
    let completed = "conversation.item.input_audio_transcription.completed";
    let complete = events.iter().find(|event| event["type"] == completed).unwrap();
    assert_eq!(complete["transcript"], "What is my locker code?");
    assert!(events.last().unwrap()["hob"]["tokens"]["shared"].as_u64() > Some(10));
    let stored = world.conversation("a")["messages"].clone();
    assert_eq!(stored[0]["content"], "What is my locker code?");

    // The next utterance has a command of its own; what is cleared is never answered.
    append(&mut client, &[0; 48_000]);
    client.until("conversation.item.input_audio_transcription.delta");
    client.send(json!({"type": "input_audio_buffer.clear"}));
    client.until("input_audio_buffer.cleared");
    append(&mut client, &[0; 48_000]);
    client.send(json!({"type": "input_audio_buffer.commit"}));
    client.answer();
    assert_eq!(world.conversation("a")["messages"].as_array().unwrap().len(), 4);
}

#[test]
fn a_requested_answer_waits_for_the_final_transcript() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("go");
    let world = Plan::new().dictates(&shell(&after(&file, "echo Hello there"))).start();
    let mut client = committed(&world);
    client.send(json!({"type": "response.create", "response": {"max_tokens": 2}}));
    until_handled(&mut client);
    std::fs::write(&file, "").unwrap();
    let done = client.answer().pop().unwrap();
    assert_eq!(done["response"]["usage"]["output_tokens"], 2, "{done}");
    assert_eq!(world.conversation("a")["messages"][0]["content"], "Hello there");
}

/// A client of `a` that ends each utterance itself, and has sent one.
fn committed(world: &World) -> Client {
    let mut client = Client::new(world, "a");
    client.send(json!({"type": "session.update", "session": {"turn_detection": null}}));
    client.next();
    append(&mut client, &[0; 4_800]);
    client.send(json!({"type": "input_audio_buffer.commit"}));
    client.until("input_audio_buffer.speech_stopped");
    client
}

/// The code of the error with which a requested answer fails.
fn refusal(client: &mut Client) -> Value {
    client.send(json!({"type": "response.create", "response": {"max_tokens": 1}}));
    let events = client.answer();
    let error = events.iter().find(|event| event["type"] == "error").expect("it fails");
    error["error"]["code"].clone()
}

/// A recogniser that writes `transcript` once there is a file.
fn after(file: &std::path::Path, transcript: &str) -> String {
    let wait = format!("while ! [ -e '{}' ]; do sleep 0.02; done", file.display());
    format!("cat >/dev/null; {wait}; {transcript}")
}

/// Waits until the events that were sent are handled.
fn until_handled(client: &mut Client) {
    client.send(json!({"type": "nonsense"}));
    assert_eq!(client.next()["error"]["code"], "unknown_event");
}

#[test]
fn a_requested_answer_to_an_utterance_without_words_fails() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("go");
    let world = Plan::new().dictates(&shell(&after(&file, "true"))).start();
    let mut client = committed(&world);
    client.send(json!({"type": "response.create"}));
    until_handled(&mut client);
    std::fs::write(&file, "").unwrap();
    let events = client.answer();
    let error = events.iter().find(|event| event["type"] == "error").unwrap();
    assert_eq!(error["error"]["code"], "nothing_heard");
    assert_eq!(events.last().unwrap()["response"]["status"], "failed");
}

#[test]
fn a_requested_answer_is_cancelled_before_its_transcript_is_complete() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("go");
    let world = Plan::new().dictates(&shell(&after(&file, "echo Hello there"))).start();
    let mut client = committed(&world);
    client.send(json!({"type": "response.create", "response": {"max_tokens": 1}}));
    client.send(json!({"type": "response.cancel"}));
    until_handled(&mut client);
    std::fs::write(&file, "").unwrap();
    client.until("conversation.item.input_audio_transcription.completed");
    append(&mut client, &[0; 4_800]);
    client.send(json!({"type": "input_audio_buffer.commit"}));
    let done = client.answer().pop().unwrap();
    assert!(done["response"]["usage"]["output_tokens"].as_u64() > Some(1), "{done}");
    assert_eq!(world.conversation("a")["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn what_was_said_in_one_conversation_is_no_message_of_the_next() {
    let world = Plan::new().dictates(&shell("cat >/dev/null; exec sleep 60")).start();
    let mut client = committed(&world);
    client.send(json!({"type": "session.update", "session": {"conversation": "b"}}));
    client.until("session.updated");
    assert_eq!(refusal(&mut client), "nothing_heard", "no transcript is waited for");
}

#[test]
fn cleared_words_are_not_answered() {
    let world = Plan::new().dictates(&shell(RECOGNIZER)).start();
    let mut client = Client::new(&world, "a");
    client.send(json!({"type": "session.update", "session": {"turn_detection": null}}));
    append(&mut client, &[0; 48_000]);
    client.until("conversation.item.input_audio_transcription.delta");
    client.send(json!({"type": "input_audio_buffer.clear"}));
    client.until("input_audio_buffer.cleared");
    assert_eq!(refusal(&mut client), "nothing_heard");
}

#[test]
fn a_change_of_the_session_does_not_end_an_utterance() {
    let world = World::new();
    let mut client = Client::new(&world, "a");
    client.send(json!({"type": "session.update", "session": {"turn_detection": null}}));
    append(&mut client, &[0; 4_800]);
    client.until("input_audio_buffer.speech_started");
    client.send(json!({"type": "session.update", "session": {"temperature": 0.5}}));
    client.until("session.updated");
    client.send(json!({"type": "input_audio_buffer.commit"}));
    client.until("input_audio_buffer.committed");
    assert_eq!(client.next()["type"], "input_audio_buffer.speech_stopped");
}

/// Does `rest` once it has heard sound and the sound has ended.
fn heard_all(rest: &str) -> String {
    format!("[ $(head -c 100 | wc -c) = 100 ] || exit; cat >/dev/null; {rest}")
}

#[test]
fn new_speech_replaces_an_answer_that_waits_for_its_transcript() {
    let directory = tempfile::tempdir().unwrap();
    let flag = directory.path().join("heard");
    let rest = format!(
        "if [ -e '{0}' ]; then echo Hello; else touch '{0}'; exec sleep 600; fi",
        flag.display()
    );
    let world = Plan::new().dictates(&shell(&heard_all(&rest))).start();
    let mut client = Client::new(&world, "a");
    let session = json!({"turn_detection": null, "ignore_eos": true});
    client.send(json!({"type": "session.update", "session": session}));
    append(&mut client, &[0; 48_000]);
    client.send(json!({"type": "input_audio_buffer.commit"}));
    client.send(json!({"type": "response.create", "response": {"max_tokens": 2}}));
    world.until("the recognizer finishes", |_| flag.exists());
    append(&mut client, &[0; 48_000]);
    client.send(json!({"type": "input_audio_buffer.commit"}));
    let done = client.answer().pop().unwrap();
    assert_eq!(done["response"]["usage"]["output_tokens"], 8, "the session's options: {done}");
}

#[test]
fn another_conversation_ends_the_recognizer_of_the_one_before() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("pid");
    let rest = format!("echo $$ >>'{}'; exec sleep 600", log.display());
    let world = Plan::new().dictates(&shell(&heard_all(&rest))).start();
    let mut client = Client::new(&world, "a");
    client.send(json!({"type": "session.update", "session": {"turn_detection": null}}));
    append(&mut client, &[0; 48_000]);
    client.send(json!({"type": "input_audio_buffer.commit"}));
    let pid = || std::fs::read_to_string(&log).unwrap_or_default();
    world.until("the recognizer finishes", |_| pid().ends_with('\n'));
    let pid = pid();
    client.send(json!({"type": "session.update", "session": {"conversation": "b"}}));
    let lives = || Command::new("kill").args(["-0", pid.trim()]).output().unwrap().status.success();
    world.until("its transcript cannot reach the other conversation", |_| !lives());
}

#[test]
fn a_recognizer_that_fails_is_an_error_and_the_next_utterance_tries_again() {
    let directory = tempfile::tempdir().unwrap();
    let flag = directory.path().join("failed");
    let script = format!(
        "[ $(head -c 100 | wc -c) = 100 ] || exit; if [ -e '{0}' ]; then cat >/dev/null; echo Hello; \
         else touch '{0}'; echo no model >&2; exit 3; fi",
        flag.display()
    );
    let world = Plan::new().dictates(&shell(&script)).start();
    let mut client = Client::new(&world, "a");
    client.send(json!({"type": "session.update", "session": {"turn_detection": null}}));
    append(&mut client, &[0; 48_000]);
    let error = client.until("error").pop().unwrap();
    assert_eq!(error["error"]["code"], "recognizer");
    assert!(error["error"]["message"].as_str().unwrap().contains("no model"));
    client.send(json!({"type": "input_audio_buffer.commit"}));
    client.until("input_audio_buffer.speech_stopped");
    append(&mut client, &[0; 48_000]);
    client.send(json!({"type": "input_audio_buffer.commit"}));
    client.answer();
    assert_eq!(world.conversation("a")["messages"][0]["content"], "Hello");
}

#[test]
fn a_recognizer_that_ends_before_an_utterance_leaves_the_words_of_another_client() {
    let world = Plan::new().dictates(&shell("exit 0")).start();
    let said = json!({"text": "Hello there", "final": true});
    assert_eq!(world.post("/v1/conversations/a/transcript", said).status, 200);
    let mut client = Client::new(&world, "a");
    client.until("conversation.item.input_audio_transcription.completed");
    let ended = world.post("/v1/conversations/a/speech-end", json!({"max_tokens": 4}));
    assert_eq!(ended.status, 200, "{}", ended.text());
    assert_eq!(world.conversation("a")["messages"][0]["content"], "Hello there");
}

#[test]
fn an_utterance_whose_recognizer_cannot_be_started_is_an_error() {
    let world = without_its_recognizer();
    let mut client = Client::new(&world, "a");
    client.send(json!({"type": "session.update", "session": {"turn_detection": null}}));
    append(&mut client, &[0; 4_800]);
    let error = client.until("error").pop().unwrap();
    assert_eq!(error["error"]["code"], "recognizer", "{error}");
}

#[test]
fn the_recognizer_gets_the_speech_that_espeak_says_and_the_moment_before_it() {
    let Some(said) = espeak("What is my locker code?") else { return };
    let world = Plan::new().dictates(&shell("wc -c")).start();
    let mut client = Client::new(&world, "a");
    let pause = vec![0; 32_000];
    for piece in [pause.clone(), said.clone(), pause].concat().chunks(3_200) {
        client.socket.send(Message::binary(piece.to_vec())).unwrap();
    }
    let events = client.until("conversation.item.input_audio_transcription.completed");
    let bytes: usize = events.last().unwrap()["transcript"].as_str().unwrap().parse().unwrap();
    // Half a second before the speech, the speech, and 608 ms in which it may go on.
    let most = said.len() + 16_000 + 22_400;
    assert!((said.len()..=most).contains(&bytes), "{bytes} bytes of {}", said.len());
    client.answer();
}

#[test]
fn a_session_restores_its_conversation_before_anybody_speaks() {
    let world = World::new();
    let said = json!({"conversation": "a", "max_tokens": 4});
    world.chat(json!([user("My locker code is 48213.")]), said);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(world.engine.park("a".parse().unwrap()));
    assert!(world.status().slots.iter().all(|slot| slot.conversation.is_none()));
    let _client = Client::new(&world, "a");
    world.until("the conversation is hot", |world| {
        world.status().slots.iter().any(|slot| slot.tokens > 20)
    });
}

/// What espeak-ng says, as PCM of 16 kHz. `None`: it is not installed.
fn espeak(text: &str) -> Option<Vec<u8>> {
    let espeak = Command::new("espeak-ng").args(["--stdout", text]).output();
    let Ok(wav) = espeak.map(|output| output.stdout) else {
        assert!(std::env::var_os("HOB_TEST_ALL").is_none(), "install espeak-ng");
        return None;
    };
    Some(Sound::from_wav(wav).unwrap().at_rate(16_000).to_pcm())
}

#[test]
fn the_first_frames_of_speech_restore_the_conversation_before_speech_is_certain() {
    let Some(said) = espeak("What is my locker code?") else { return };
    let sound = [vec![0; 32_000], said].concat();
    let mut detector = SpeechDetector::default();
    let frames: Vec<&[u8]> = sound.chunks(512).collect();
    let suspected = frames.iter().position(|frame| {
        assert!(detector.process(frame).is_empty(), "speech is suspected before it is certain");
        detector.suspects_speech()
    });
    let heard = frames[..=suspected.unwrap()].concat();

    let world = World::new();
    let said = json!({"conversation": "a", "max_tokens": 4});
    world.chat(json!([user("My locker code is 48213.")]), said);
    let is_hot = |world: &World| world.status().slots.iter().any(|slot| slot.tokens > 20);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let park = || runtime.block_on(world.engine.park("a".parse().unwrap()));
    park();
    let mut client = Client::new(&world, "a");
    world.until("the session's start has restored it", is_hot);
    park();
    assert!(!is_hot(&world));
    client.socket.send(Message::binary(heard)).unwrap();
    world.until("the conversation is hot", is_hot);
    client.send(json!({"type": "nonsense"}));
    assert_eq!(client.next()["error"]["code"], "unknown_event", "speech has not started");
}
