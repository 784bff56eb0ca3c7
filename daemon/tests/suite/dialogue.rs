//! A spoken dialogue: sound to transcript while it arrives, and an answer that is spoken while it
//! streams.
//!
//! The commands are shell scripts; the sound of one test is espeak-ng's, if it is installed.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hob_daemon::speech::sound::Sound;
use hob_daemon::speech::vad::SpeechDetector;
use serde_json::{Value, json};
use tungstenite::Message;

use crate::common::recognizer::{RECOGNIZER, shell};
use crate::common::socket::{Client, started, stopped};
use crate::common::{Plan, World, user};

/// Appends sound of 24 kHz.
fn append(client: &mut Client, pcm: &[u8]) {
    client.send(json!({"type": "input_audio_buffer.append", "audio": BASE64.encode(pcm)}));
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

/// A sound of 250 ms at 16 kHz, as a WAV on standard output.
fn voice(directory: &tempfile::TempDir) -> String {
    let samples = (0..4_000).map(|at| if at % 100 < 50 { 8_000 } else { -8_000 }).collect();
    let path = directory.path().join("sound.wav");
    std::fs::write(&path, Sound { rate: 16_000, samples }.to_wav()).unwrap();
    format!("cat >/dev/null; cat '{}'", path.display())
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
    let world = Plan::new().dictates(&shell("cat >/dev/null; sleep 0.3; echo Hello there")).start();
    let mut client = Client::new(&world, "a");
    client.send(json!({"type": "session.update", "session": {"turn_detection": null}}));
    append(&mut client, &[0; 4_800]);
    client.send(json!({"type": "input_audio_buffer.commit"}));
    client.send(json!({"type": "response.create", "response": {"max_tokens": 2}}));
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
fn an_answer_is_spoken_a_sentence_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let world = Plan::new().synthesizes(&shell(&voice(&directory)), &[]).start();
    let mut client = Client::new(&world, "a");
    let session = json!({"output_modalities": ["audio"], "max_tokens": 60});
    client.send(json!({"type": "session.update", "session": session}));
    client.next();
    client.partial("Say this: The kettle sings. It is night.");
    client.send(json!({"type": "response.create"}));
    let events = client.answer();
    let spoken: Vec<&Value> =
        events.iter().filter(|event| event["type"] == "response.output_audio.delta").collect();
    assert!(!spoken.is_empty(), "{:?}", kinds(&events));
    for sound in &spoken {
        let pcm = BASE64.decode(sound["delta"].as_str().unwrap()).unwrap();
        assert!(pcm.len().abs_diff(12_000) <= 8, "250 ms at 24 kHz, not {} bytes", pcm.len());
    }
    let transcript = events.iter().find(|e| e["type"] == "response.output_audio_transcript.done");
    let letters = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
    let said: String =
        spoken.iter().map(|sound| letters(sound["text"].as_str().unwrap())).collect();
    assert_eq!(said, letters(transcript.unwrap()["transcript"].as_str().unwrap()));
    assert!(!kinds(&events).contains(&"response.output_text.delta"));
    assert_eq!(kinds(&events).iter().filter(|kind| **kind == "response.done").count(), 1);
}

#[test]
fn the_first_sentence_is_heard_while_the_answer_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let world = Plan::new().synthesizes(&shell(&voice(&directory)), &[]).start();
    let mut client = Client::new(&world, "a");
    let session = json!({"output_modalities": ["audio"], "max_tokens": 4000});
    client.send(json!({"type": "session.update", "session": session}));
    client.next();
    // 10 ms a letter: most of a minute.
    client.partial(&format!("Say this slowly: The kettle sings. {}", "And then ".repeat(440)));
    client.send(json!({"type": "response.create"}));
    let events = client.until("response.output_audio.delta");
    assert_eq!(events.last().unwrap()["text"], "The kettle sings.");
    let kind = "response.output_audio_transcript.delta";
    let letters = events.iter().filter(|event| event["type"] == kind).count();
    assert!(letters < 3000, "the answer is far from its end");
    client.send(json!({"type": "response.cancel"}));
    assert_eq!(client.answer().pop().unwrap()["response"]["status"], "cancelled");
}

#[test]
fn speech_interrupts_the_voice_and_ends_its_command() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("pid");
    let script = format!("echo $$ >>'{}'; exec sleep 60", log.display());
    let world = Plan::new().synthesizes(&shell(&script), &[]).start();
    let mut client = Client::new(&world, "a");
    client.send(json!({"type": "session.update", "session": {"output_modalities": ["audio"]}}));
    client.partial("Say this: Hello there.");
    client.send(json!({"type": "response.create"}));
    let pid = || std::fs::read_to_string(&log).unwrap_or_default();
    world.until("the command runs", |_| pid().ends_with('\n'));
    client.send(started());
    let done = client.answer().pop().unwrap();
    assert_eq!(done["response"]["status"], "cancelled");
    let pid = pid();
    let lives = || Command::new("kill").args(["-0", pid.trim()]).output().unwrap().status.success();
    world.until("the command is killed", |_| !lives());
    client.complete("Stop");
    client.send(stopped());
    client.until("response.created");
}

#[test]
fn a_session_that_asks_for_sound_needs_a_voice() {
    let world = World::new();
    let mut client = Client::new(&world, "a");
    client.send(json!({"type": "session.update", "session": {"output_modalities": ["audio"]}}));
    assert_eq!(client.next()["error"]["code"], "no_voice");
    let rate = json!({"audio": {"input": {"format": {"rate": 7}}}});
    client.send(json!({"type": "session.update", "session": rate}));
    assert_eq!(client.next()["error"]["param"], "session.audio.input.format.rate");
    append(&mut client, b"x");
    client.send(json!({"type": "input_audio_buffer.append", "audio": "§"}));
    assert_eq!(client.next()["error"]["param"], "audio");
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

#[test]
fn a_text_is_spoken_and_a_form_with_a_wav_is_transcribed() {
    let directory = tempfile::tempdir().unwrap();
    let world = Plan::new()
        .synthesizes(&shell(&voice(&directory)), &[])
        .transcribes(&shell("cat >/dev/null; echo What is my locker code?"))
        .start();
    let speak = |body: Value| world.post("/v1/audio/speech", body);
    let spoken = speak(json!({"model": "tts-1", "voice": "alloy", "input": "Hello. How are you?"}));
    assert_eq!(spoken.header("content-type"), Some("audio/wav"));
    let sound = Sound::from_wav(spoken.body).unwrap();
    assert_eq!(
        (sound.rate, sound.samples.len()),
        (16_000, 4_000),
        "a short sentence joins the next"
    );
    let pcm = speak(json!({"input": "Hello.", "response_format": "pcm"}));
    assert!(pcm.body.len().abs_diff(12_000) <= 8, "{}", pcm.body.len());
    let refused = speak(json!({"input": "Hello.", "response_format": "mp3"}));
    assert_eq!((refused.status, &refused.error()["param"]), (400, &json!("response_format")));
    assert_eq!(speak(json!({"input": " ... "})).error()["param"], "input");

    let wav = std::fs::read(directory.path().join("sound.wav")).unwrap();
    let form = |fields: &[(&str, &[u8])]| {
        let mut body = Vec::new();
        for (name, value) in fields {
            let file = if *name == "file" { "; filename=\"a.wav\"" } else { "" };
            let head =
                format!("--X\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
            body.extend([head.as_bytes(), value, b"\r\n"].concat());
        }
        body.extend(b"--X--\r\n");
        let call = world.call("POST", "/v1/audio/transcriptions");
        call.header("content-type", "multipart/form-data; boundary=X").body(body).send()
    };
    let answer = form(&[("model", b"whisper-1"), ("file", &wav)]);
    assert_eq!(answer.json()["text"], "What is my locker code?");
    let text = form(&[("file", &wav), ("response_format", b"text")]).text();
    assert_eq!(text, "What is my locker code?\n");
    assert_eq!(answer.json()["usage"], json!({"type": "duration", "seconds": 1}));
    let verbose = form(&[("file", &wav), ("response_format", b"verbose_json")]).json();
    let seconds = verbose["duration"].as_f64().unwrap();
    assert!(seconds > 0.0 && seconds <= 1.0, "{verbose}");
    assert_eq!(verbose["segments"][0]["end"], seconds);
    assert_eq!(
        (&verbose["text"], &verbose["language"]),
        (&answer.json()["text"], &json!("unknown"))
    );
    let subtitles = form(&[("file", &wav), ("response_format", b"vtt")]).text();
    assert!(subtitles.starts_with("WEBVTT\n\n00:00:00.000 --> 00:00:00."), "{subtitles}");
    let events = form(&[("file", &wav), ("stream", b"true")]).text();
    assert!(events.contains("\"type\":\"transcript.text.done\""), "{events}");
    for (name, value, param) in [
        ("response_format", "diarized_json", "response_format"),
        ("timestamp_granularities[]", "word", "timestamp_granularities"),
        ("stream", "perhaps", "stream"),
    ] {
        let refused = form(&[("file", &wav), (name, value.as_bytes())]);
        assert_eq!((refused.status, &refused.error()["param"]), (400, &json!(param)));
    }
    assert_eq!(form(&[("model", b"whisper-1")]).error()["param"], "file");
    let path = "/v1/audio/transcriptions";
    assert_eq!(world.call("POST", path).json(&json!({})).send().status, 415);
    for path in ["/v1/audio/translations", "/audio/translations"] {
        let refused = world.post(path, json!({})).error();
        assert_eq!(refused["code"], "unsupported");
        assert!(
            refused["message"].as_str().unwrap().contains("/v1/audio/translations"),
            "{refused}"
        );
    }
    let without = World::new();
    let refused = without.post("/v1/audio/speech", json!({"input": "Hello."}));
    assert_eq!((refused.status, &refused.error()["code"]), (501, &json!("no_voice")));
}
