//! Spoken answers: a session that asks for sound, and the routes for speech and for transcripts of files.
//!
//! The commands are shell scripts.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hob_daemon::speech::sound::Sound;
use serde_json::{Value, json};

use crate::common::recognizer::shell;
use crate::common::socket::{Client, started, stopped};
use crate::common::{Plan, World};
use crate::dialogue::{append, kinds};

/// A sound of 250 ms at 16 kHz, as a WAV on standard output.
fn voice(directory: &tempfile::TempDir) -> String {
    let samples = (0..4_000).map(|at| if at % 100 < 50 { 8_000 } else { -8_000 }).collect();
    let path = directory.path().join("sound.wav");
    std::fs::write(&path, Sound { rate: 16_000, samples }.to_wav()).unwrap();
    format!("cat >/dev/null; cat '{}'", path.display())
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
fn the_last_update_switches_sound_off_under_either_name() {
    let directory = tempfile::tempdir().unwrap();
    let world = Plan::new().synthesizes(&shell(&voice(&directory)), &[]).start();
    let mut client = Client::new(&world, "a");
    for [on, off] in [["modalities", "output_modalities"], ["output_modalities", "modalities"]] {
        for session in [json!({on: ["audio"]}), json!({off: ["text"]})] {
            client.send(json!({"type": "session.update", "session": session}));
            client.until("session.updated");
        }
        client.partial("Say this: Hello.");
        client.send(json!({"type": "response.create"}));
        let events = client.answer();
        assert!(kinds(&events).contains(&"response.output_text.delta"), "{:?}", kinds(&events));
    }
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
