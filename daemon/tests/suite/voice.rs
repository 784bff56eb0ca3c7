//! Filler phrases: synthesized while the daemon is idle, served from memory, never while the user
//! speaks.
//!
//! The command is a shell script that the test writes, or espeak-ng if it is installed.

use std::fs;
use std::io::Cursor;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hob_daemon::speech::vad::{SAMPLE_RATE, SpeechDetector, SpeechEvent};
use hound::{SampleFormat, WavReader, WavSpec, WavWriter};
use serde_json::{Value, json};

use crate::common::{Answer, Plan, World, user};

const PHRASES: [&str; 2] = ["One second.", "Let me see."];

#[test]
fn phrases_are_made_while_idle_and_then_served_from_memory_alone() {
    let bench = Bench::new("cat \"$sound\"");
    let world = bench.plan().start();
    bench.until_made(&world, 2);
    // Without script and sound files, only the phrases in memory are left.
    fs::remove_file(bench.script()).unwrap();
    fs::remove_dir_all(world.directory.join("voice")).unwrap();

    let phrases: Vec<_> = (0..4).map(|_| phrase(&world.get("/v1/voice/filler"))).collect();
    assert_eq!(phrases, ["One second.", "Let me see.", "One second.", "Let me see."]);
    let answer = world.get("/v1/voice/filler?voice=en");
    assert_eq!(answer.header("content-type"), Some("audio/wav"));
    assert_eq!(answer.body, fs::read(bench.path("sound.wav")).unwrap());
}

#[test]
fn the_command_gets_voice_and_text_as_they_are_and_meets_no_shell() {
    let text = "Hm, $(touch spilled) {voice}; let me \"think\".";
    let log = "printf '%s|' \"$@\" >>\"$log\"; cat >>\"$log\"; cat \"$sound\"";
    let bench = Bench::new(log);
    let script = bench.script().display().to_string();
    let world = Plan::new().synthesizes(&[&script, "-v{voice}", "{text}"], &[text]).start();
    bench.until_made(&world, 1);
    assert_eq!(bench.log(), format!("-ven|{text}|{text}\n"));
    assert_eq!(phrase(&world.get("/v1/voice/filler")), text);
}

#[test]
fn a_phrase_is_not_served_while_the_user_speaks() {
    let bench = Bench::new("cat \"$sound\"");
    let world = bench.plan().start();
    bench.until_made(&world, 2);
    let filler = |conversation: &str| {
        world.get(&format!("/v1/voice/filler?conversation={conversation}")).status
    };
    let send = |what: &str, body: Value| {
        world.post(&format!("/v1/conversations/kitchen/{what}"), body).status
    };
    for (ends_with, body) in [
        ("transcript", json!({"text": "Hello", "final": true})),
        ("speech-end", json!({"max_tokens": 1})),
    ] {
        assert_eq!(send("speech-start", json!({})), 200);
        assert_eq!(send("transcript", json!({"text": "Hello"})), 200);
        assert_eq!((filler("kitchen"), filler("attic")), (204, 200));
        assert_eq!(
            world.get("/v1/voice/filler").status,
            204,
            "a request without a conversation is refused while any user speaks"
        );
        assert_eq!(send(ends_with, body), 200);
        assert_eq!((filler("kitchen"), world.get("/v1/voice/filler").status), (200, 200));
    }
    assert_eq!(send("speech-start", json!({})), 200);
    assert_eq!((filler("kitchen"), filler("kitchen&stopped=true")), (204, 200));
}

#[test]
fn failed_silent_or_endless_sound_is_never_cached() {
    let silent = "cat \"$silence\"";
    let scripts = ["exit 3", "cat \"$sound\"; exit 1", silent, "echo no sound", "exec yes"];
    for script in scripts {
        let bench = Bench::new(&format!("echo run >>\"$log\"; {script}"));
        let world = bench.plan().start();
        world.until("the command ran", |_| bench.log() == "run\n");
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(world.get("/v1/voice/filler").status, 204, "{script}");
        assert_eq!(bench.log(), "run\n", "{script}: the command must not be retried at once");
        assert_eq!(wavs(&world.directory), [] as [PathBuf; 0], "{script}");
    }
}

#[test]
fn the_next_daemon_finds_the_phrases_and_only_the_owner_can_read_them() {
    let bench = Bench::new("echo run >>\"$log\"; cat \"$sound\"");
    let first = bench.plan().directory(bench.path("data")).start();
    bench.until_made(&first, 2);
    drop(first);
    let made = wavs(&bench.path("data"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert!(made.iter().all(|wav| mode(wav) == 0o600 && mode(wav.parent().unwrap()) == 0o700));
    fs::write(&made[1], "torn").unwrap();

    let second = bench.plan().directory(bench.path("data")).start();
    second.until("the damaged phrase is made again", |_| bench.log() == "run\n".repeat(3));
    bench.until_made(&second, 2);
    assert_eq!(phrase(&second.get("/v1/voice/filler?voice=en")), PHRASES[0]);
    assert_eq!(phrase(&second.get("/v1/voice/filler?voice=en")), PHRASES[1]);
    assert_eq!(bench.log(), "run\n".repeat(3), "the intact phrase must not be made again");
    drop(second);

    let script = bench.script().display().to_string();
    let other = Plan::new().synthesizes(&[&script, "--other"], &["Wait."]);
    let other = other.directory(bench.path("data")).start();
    // While the two of the previous command are deleted, there is one for a moment, too.
    other.until("the phrases of the previous command are deleted, and its own is made", |_| {
        let left = wavs(&bench.path("data"));
        left.len() == 1 && !made.contains(&left[0])
    });
}

#[test]
fn a_turn_interrupts_synthesis_and_the_interruption_is_no_failure() {
    let slow_once = "if [ -s \"$log\" ]; then cat \"$sound\"; \
                     else echo run >>\"$log\"; exec sleep 60; fi";
    let bench = Bench::new(slow_once);
    let script = bench.script().display().to_string();
    let plan = Plan::new().pace(Duration::from_millis(60));
    let world = plan.synthesizes(&[&script], &["Wait."]).start();
    world.until("the command runs", |_| bench.log() == "run\n");
    world.chat(json!([user("Hello")]), json!({}));
    bench.until_made(&world, 1);
}

#[test]
fn another_voice_is_made_on_request() {
    let bench = Bench::new("cat \"$sound\"");
    let world = bench.plan().start();
    bench.until_made(&world, 2);
    assert_eq!(world.get("/v1/voice/filler?voice=en-us%2Bf3").status, 204);
    bench.until_made(&world, 4);
    assert_eq!(world.get("/v1/voice/filler?voice=en-us%2Bf3").status, 200);
    let refused = world.get("/v1/voice/filler?voice=-w%2Ftmp%2Fx");
    assert_eq!((refused.status, refused.error()["param"].as_str()), (400, Some("voice")));
}

#[test]
fn a_daemon_without_a_voice_serves_no_phrase() {
    assert_eq!(World::new().get("/v1/voice/filler").status, 204);
}

#[test]
fn the_configured_command_transcribes_speech() {
    // The script prints the number of bytes that it receives.
    let bench =
        Bench::new("printf ' [BLANK_AUDIO]\\n  %s\\nbytes, %s\\n' \"$(wc -c | tr -d ' ')\" \"$*\"");
    let script = bench.script().display().to_string();
    let world = Plan::new().transcribes(&[&script, "-m", "a model", "$(id)"]).start();
    assert_eq!(world.get("/v1/status").json()["recognizer"], true);
    let answer = dictate(&world, wav(8_000));
    assert_eq!(
        (answer.status, answer.json()["text"].as_str()),
        (200, Some("8044 bytes, -m a model $(id)"))
    );
    let silent = dictate(&world, wav(0));
    assert_eq!(silent.json()["text"], "", "silence must not run the command");
}

#[test]
fn a_failed_transcription_names_the_remedy() {
    let without = World::new();
    let refused = dictate(&without, wav(8_000));
    assert_eq!((refused.status, &refused.error()["code"]), (501, &json!("no_recognizer")));
    assert!(refused.error()["message"].as_str().unwrap().contains("voice_recognizer"));
    assert_eq!(without.get("/v1/status").json()["recognizer"], false);

    let bench = Bench::new("cat >/dev/null; echo 'no such model' >&2; exit 3");
    let script = bench.script().display().to_string();
    let world = Plan::new().transcribes(&[&script]).body_bytes(16 << 10).start();
    let failed = dictate(&world, wav(8_000));
    assert_eq!((failed.status, &failed.error()["code"]), (503, &json!("recognizer")));
    assert_eq!(failed.header("retry-after"), Some("1"));
    let message = failed.error()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("no such model") && message.contains("correct voice_recognizer"));
    let damaged = dictate(&world, b"RIFF".to_vec());
    assert_eq!((damaged.status, &damaged.error()["code"]), (400, &json!("invalid_audio")));
    assert_eq!(dictate(&world, vec![0; 20 << 10]).status, 413);
    let path = "/v1/voice/transcriptions";
    assert_eq!(world.call("POST", path).json(&json!({})).send().status, 415);
}

#[test]
fn speech_of_espeak_is_detected() {
    if Command::new("espeak-ng").arg("--version").output().is_err() {
        assert!(std::env::var_os("HOB_TEST_ALL").is_none(), "install espeak-ng");
        return;
    }
    let bench = Bench::new("");
    let espeak = ["espeak-ng", "-v", "{voice}", "--stdin", "--stdout"];
    let world = Plan::new().synthesizes(&espeak, &["Hm, let me think about that."]).start();
    bench.until_made(&world, 1);
    let wav = world.get("/v1/voice/filler").body;

    let second = vec![0; SAMPLE_RATE as usize];
    let sound = [second.clone(), at_16_khz(&wav), second].concat();
    let bytes: Vec<u8> = sound.iter().flat_map(|sample: &i16| sample.to_le_bytes()).collect();
    let mut detector = SpeechDetector::default();
    let events: Vec<_> = bytes.chunks(1_000).flat_map(|chunk| detector.process(chunk)).collect();
    let [SpeechEvent::SpeechStarted { at_ms: start }, SpeechEvent::SpeechStopped { at_ms: stop }] =
        events[..]
    else {
        panic!("{events:?}")
    };
    assert!((1_000..1_300).contains(&start) && stop > start + 1_000, "{start} to {stop}");
}

/// A directory with a stand-in synthesizer script and the sounds that it can print.
struct Bench {
    directory: tempfile::TempDir,
}

impl Bench {
    fn new(script: &str) -> Self {
        let bench = Self { directory: tempfile::tempdir().unwrap() };
        fs::write(bench.path("sound.wav"), wav(8_000)).unwrap();
        fs::write(bench.path("silence.wav"), wav(0)).unwrap();
        let variables = ["sound=sound.wav", "silence=silence.wav", "log=log"].map(|variable| {
            let (name, file) = variable.split_once('=').unwrap();
            format!("{name}='{}'\n", bench.path(file).display())
        });
        let script = format!("#!/bin/sh\n{}{script}\n", variables.concat());
        fs::write(bench.script(), script).unwrap();
        fs::set_permissions(bench.script(), fs::Permissions::from_mode(0o700)).unwrap();
        bench
    }

    fn plan(&self) -> Plan {
        Plan::new().synthesizes(&[&self.script().display().to_string(), "{voice}"], &PHRASES)
    }

    fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    fn script(&self) -> PathBuf {
        self.path("say")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    fn until_made(&self, world: &World, count: usize) {
        world.until("the phrases are made", |world| wavs(&world.directory).len() == count);
    }
}

fn dictate(world: &World, wav: Vec<u8>) -> Answer {
    let call = world.call("POST", "/v1/voice/transcriptions");
    call.header("content-type", "audio/wav").body(wav).send()
}

fn phrase(answer: &Answer) -> String {
    assert_eq!(answer.status, 200);
    answer.header("x-hob-phrase").unwrap().to_owned()
}

fn wavs(data_dir: &Path) -> Vec<PathBuf> {
    let voices = fs::read_dir(data_dir.join("voice")).into_iter().flatten().flatten();
    let files = voices.flat_map(|voice| fs::read_dir(voice.path()).into_iter().flatten().flatten());
    let paths = files.map(|file| file.path());
    let mut wavs: Vec<_> = paths.filter(|path| path.extension() == Some("wav".as_ref())).collect();
    wavs.sort();
    wavs
}

/// A WAV file of 250 ms.
fn wav(loudness: i16) -> Vec<u8> {
    let spec = WavSpec {
        channels: 1,
        sample_rate: 16_000,
        bits_per_sample: 16,
        sample_format: SampleFormat::Int,
    };
    let mut out = Cursor::new(Vec::new());
    let mut writer = WavWriter::new(&mut out, spec).unwrap();
    for at in 0..4_000 {
        writer.write_sample(if at % 100 < 50 { loudness } else { -loudness }).unwrap();
    }
    writer.finalize().unwrap();
    out.into_inner()
}

/// Resamples to 16 kHz by linear interpolation, which is accurate enough for the detector.
fn at_16_khz(wav: &[u8]) -> Vec<i16> {
    let reader = WavReader::new(Cursor::new(wav)).unwrap();
    let step = f64::from(reader.spec().sample_rate) / SAMPLE_RATE as f64;
    let samples: Vec<f64> = reader.into_samples::<i16>().map(|s| f64::from(s.unwrap())).collect();
    let between = |at: usize| {
        let place = at as f64 * step;
        let (index, part) = (place as usize, place.fract());
        (samples[index] * (1.0 - part) + samples[index + 1] * part) as i16
    };
    (0..((samples.len() - 1) as f64 / step) as usize).map(between).collect()
}
