//! Push to talk. The browser's fake microphone beeps.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use hob_checks::chat::slowly;
use hob_checks::{Hobd, Model, Page};
use hob_testkit::{files, wait};
use hound::{SampleFormat, WavSpec, WavWriter};
use serde_json::json;

/// Counts what the page gets of the microphone from here on.
const COUNT_SAMPLES: &str = "
    window.samples = 0;
    const Node = window.AudioWorkletNode;
    window.AudioWorkletNode = class extends Node {
        constructor(...options) {
            super(...options);
            this.port.addEventListener('message', ({ data }) => { window.samples += data.length; });
        }
    };";

/// Of sound, at 48,000 samples a second; more at a lower rate.
const A_SECOND: &str = "window.samples >= 48000";

#[test]
fn speech_during_the_press_is_transcribed_and_sent() {
    let recognizer = Recognizer::new();
    let hobd = recognizer.hobd();
    let page = Page::open(&hobd);
    page.script(COUNT_SAMPLES);

    button(&page, "pointerdown");
    page.until("it records", "one('@talk-button').dataset.phase === 'recording'");
    page.until("a second is recorded", A_SECOND);
    button(&page, "pointerup");
    page.answered(1);

    assert_eq!(page.last_answer(), "heard");
    page.until("it is idle", "one('@talk-button').dataset.phase === 'idle'");
}

#[test]
fn the_words_appear_and_are_computed_while_the_user_speaks() {
    let recognizer = Recognizer::new();
    let hobd = recognizer.streaming();
    let page = Page::open(&hobd);

    button(&page, "pointerdown");
    let shown = "one('@composer').value === 'Say this: my locker code is'";
    page.until("the words so far are shown", shown);
    assert_eq!(page.script("return one('@composer').readOnly"), true);
    wait::until("they are computed", || (hobd.idle_tokens() > 30).then_some(()));
    assert_eq!(page.count("@user"), 0, "nothing is sent yet");
    if std::env::var_os("HOB_SCREENSHOTS").is_some() {
        page.save_picture("speaking");
    }
    button(&page, "pointerup");
    page.answered(1);

    assert_eq!(page.last_answer(), "my locker code is four");
    assert_eq!(page.script("return one('@composer').value"), "");
    // " is four", and the 13 tokens of the template's end.
    let list = hobd.client.get("/v1/conversations");
    let chat = format!("/v1/conversations/{}", list["data"][0]["id"].as_str().unwrap());
    let answer = hobd.client.get(&chat)["messages"][1].clone();
    let computed = answer["finish"]["hob"]["tokens"]["computed"].as_u64();
    assert!(computed <= Some(8 + 13), "{answer}");
}

#[test]
fn speaking_stops_the_answer_under_way_and_escape_drops_the_words() {
    let recognizer = Recognizer::new();
    let hobd = recognizer.streaming();
    let page = Page::open(&hobd);
    page.send(&slowly(200));
    page.reads("@live", "word");

    button(&page, "pointerdown");
    page.hides("@live");
    page.until("the words are shown", "one('@composer').value.startsWith('Say this:')");
    page.press("Escape");
    page.until("it is idle", "one('@talk-button').dataset.phase === 'idle'");
    assert_eq!(page.script("return one('@composer').value"), "");
    button(&page, "pointerup");

    button(&page, "pointerdown");
    page.until("the words are shown", "one('@composer').value.startsWith('Say this:')");
    button(&page, "pointerup");
    page.answered(2);
    assert_eq!(page.last_answer(), "my locker code is four");
}

#[test]
fn the_button_has_the_accent_under_the_pointer_that_holds_it() {
    let recognizer = Recognizer::new();
    let hobd = recognizer.hobd();
    let page = Page::open(&hobd);
    page.hover("@talk-button");
    page.until("the pointer is on it", "one('@talk-button').matches(':hover')");

    button(&page, "pointerdown");
    page.until("it records", "one('@talk-button').dataset.phase === 'recording'");
    let paint = |place: &str| {
        page.script(&format!("return getComputedStyle(one('{place}')).backgroundColor"))
    };
    assert_eq!(paint("@talk-button"), paint("@send"));
    page.press("Escape");
    page.until("it is idle", "one('@talk-button').dataset.phase === 'idle'");
}

#[test]
fn a_press_ends_where_the_pointer_is_released() {
    let recognizer = Recognizer::new();
    let hobd = recognizer.streaming();
    let page = Page::open(&hobd);

    button(&page, "pointerdown");
    page.until("the words are shown", "one('@composer').value.startsWith('Say this:')");
    // Meanwhile the mouse has moved to the title.
    page.script("one('@title').dispatchEvent(new PointerEvent('pointerup', {bubbles: true}))");
    page.answered(1);

    assert_eq!(page.last_answer(), "my locker code is four");
}

#[test]
fn a_filler_plays_to_its_end_during_the_transcription() {
    let recognizer = Recognizer::new();
    let voice = recognizer.program("voice", &format!("cat '{}'", recognizer.sound(1).display()));
    let hobd = recognizer.hobd_with(&["--voice-command", &voice]);
    let page = Page::open(&hobd);
    page.script(
        "window.played = [];
         const play = HTMLMediaElement.prototype.play;
         HTMLMediaElement.prototype.play = function () {
             for (const kind of ['play', 'pause', 'ended']) this.addEventListener(kind, () => window.played.push(kind));
             return play.call(this);
         };",
    );
    page.script(COUNT_SAMPLES);
    page.focus("@composer"); // The browser plays no sound before the user clicks.
    wait::until("there is a phrase", || {
        let phrases = files::with_extension(&hobd.directory().join("data/voice"), "wav");
        (!phrases.is_empty()).then_some(())
    });

    button(&page, "pointerdown");
    page.until("it records", "one('@talk-button').dataset.phase === 'recording'");
    page.until("a second is recorded", A_SECOND);
    button(&page, "pointerup");
    page.answered(1);

    page.until("it has ended", "window.played.includes('ended')");
    assert_eq!(page.script("return window.played[0]"), "play");
}

#[test]
fn the_answer_to_speech_is_spoken_by_the_sentence_until_the_user_speaks_again() {
    let recognizer = Recognizer::new();
    let said = recognizer.0.path().join("said");
    let sound = recognizer.sound(20);
    let script = format!("cat >>'{}'; cat '{}'", said.display(), sound.display());
    let voice = recognizer.program("voice", &script);
    let hears = "Say this: The first sentence is here. The second one is the last.";
    let hobd = recognizer.streaming_with(hears, &["--voice-command", &voice]);
    let page = Page::open(&hobd);
    page.script(
        "window.sounds = [];
         const play = HTMLMediaElement.prototype.play;
         HTMLMediaElement.prototype.play = function () { window.sounds.push(this); return play.call(this); };",
    );
    page.focus("@composer");
    page.open_page("settings");
    page.shows("@speaks");
    page.script("history.back()");

    button(&page, "pointerdown");
    page.until("it records", "one('@talk-button').dataset.phase === 'recording'");
    page.until("the words are shown", "one('@composer').value.startsWith('Say this:')");
    button(&page, "pointerup");
    page.answered(1);
    page.until("it is spoken", "sounds.some(sound => !sound.paused)");
    wait::until("the voice gets both sentences", || {
        let said = fs::read_to_string(&said).unwrap_or_default();
        let has = |words: &str| said.lines().any(|line| line == words);
        (has("The first sentence is here.") && has("The second one is the last.")).then_some(())
    });

    button(&page, "pointerdown");
    page.until("it is silent", "sounds.every(sound => sound.paused)");
    assert_eq!(page.script("return sounds.some(sound => sound.ended)"), false, "it was stopped");
    page.press("Escape");
    button(&page, "pointerup");
}

#[test]
fn a_muted_microphone_is_named_where_nothing_was_heard() {
    let recognizer = Recognizer::new();
    let hears_nothing = recognizer.program("recognizer", "cat >/dev/null");
    let hobd = Hobd::start_with(Model::Fake, &["--voice-recognizer", &hears_nothing]);
    let page = Page::open(&hobd);
    page.script(
        "Object.defineProperty(MediaStreamTrack.prototype, 'muted', { get: () => window.isMuted })",
    );
    for (is_muted, said) in [(false, "No speech was recognised"), (true, "microphone is muted")] {
        page.script(&format!("window.isMuted = {is_muted}"));
        button(&page, "pointerdown");
        // The press has begun: before it, `button` waits for the list of microphones.
        page.script("window.since = performance.now()");
        page.until("it records", "one('@talk-button').dataset.phase === 'recording'");
        page.until(
            "it is held for as long as a press is",
            "performance.now() - window.since > 300",
        );
        button(&page, "pointerup");
        page.reads("@toast", said);
    }
}

#[test]
fn escape_discards_the_recording() {
    let recognizer = Recognizer::new();
    let hobd = recognizer.hobd();
    let page = Page::open(&hobd);

    button(&page, "pointerdown");
    page.until("it records", "one('@talk-button').dataset.phase === 'recording'");
    page.press("Escape");
    page.until("it is idle", "one('@talk-button').dataset.phase === 'idle'");
    button(&page, "pointerup");

    page.ask("Say this: written");
    assert_eq!(page.count("@answer"), 1);
    assert_eq!(page.last_answer(), "written");
}

#[test]
fn without_a_microphone_the_button_is_disabled_and_says_why() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    let is_off = "one('@talk-button').getAttribute('aria-disabled') === 'true'";
    page.until("there is a microphone", &format!("one('@talk-button') && !({is_off})"));

    page.script(
        "navigator.mediaDevices.enumerateDevices = () => Promise.resolve([]);
         navigator.mediaDevices.dispatchEvent(new Event('devicechange'))",
    );

    page.until("it is off", is_off);
    page.until("it says so", "one('@talk-button').title.includes('No microphone')");
}

/// As a browser has it of plain HTTP from another machine.
const INSECURE: &str = "
    Object.defineProperty(window, 'isSecureContext', { value: false });
    Object.defineProperty(navigator, 'mediaDevices', { value: undefined });
    window.AudioWorkletNode = undefined;";

#[test]
fn on_a_page_without_https_the_button_says_what_helps() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    page.cdp("Page.addScriptToEvaluateOnNewDocument", &json!({"source": INSECURE}));
    page.go(&hobd.origin());
    page.until("it says so", "one('@talk-button')?.title.includes('HTTPS')");
    assert_eq!(page.script("return one('@talk-button').getAttribute('aria-disabled')"), "true");
}

#[test]
fn without_a_recogniser_the_composer_gets_the_focus() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    page.script("document.activeElement.blur()");

    button(&page, "pointerdown");

    page.reads("@toast", "voice_recognizer");
    assert_eq!(page.focused(), ("textbox".to_owned(), "Message".to_owned()));
}

fn button(page: &Page, event: &str) {
    page.shows("@talk-button[aria-disabled=false]"); // The browser has listed its microphone.
    page.script(&format!(
        "one('@talk-button').dispatchEvent(new PointerEvent('{event}', {{bubbles: true}}))"
    ));
}

/// A directory with a recogniser, which hears "heard" in at least half a second of sound.
struct Recognizer(tempfile::TempDir);

impl Recognizer {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("there is room for temporary files"))
    }

    fn hobd(&self) -> Hobd {
        self.hobd_with(&[])
    }

    fn streaming(&self) -> Hobd {
        self.streaming_with("Say this: my locker code is four", &[])
    }

    /// Understands more words after each quarter of a second of sound; at the end `whole`.
    fn streaming_with(&self, whole: &str, arguments: &[&str]) -> Hobd {
        let hears = format!(
            "head -c 8000 >/dev/null; echo Say this: my locker code; \
             head -c 8000 >/dev/null; echo Say this: my locker code is; \
             cat >/dev/null; echo '{whole}'"
        );
        let recognizer = self.program("recognizer", &hears);
        let arguments = [&["--voice-recognizer-stream", &recognizer], arguments].concat();
        Hobd::start_with(Model::Fake, &arguments)
    }

    fn hobd_with(&self, arguments: &[&str]) -> Hobd {
        let hears = "if [ \"$(wc -c)\" -gt 16044 ]; then echo 'Say this: heard'; fi";
        let recognizer = self.program("recognizer", hears);
        let arguments = [&["--voice-recognizer", &recognizer], arguments].concat();
        Hobd::start_with(Model::Fake, &arguments)
    }

    fn program(&self, name: &str, script: &str) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("it can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("it is ours");
        path.display().to_string()
    }

    /// A tone, as a WAV.
    fn sound(&self, seconds: u16) -> PathBuf {
        let spec = WavSpec {
            channels: 1,
            sample_rate: 8000,
            bits_per_sample: 16,
            sample_format: SampleFormat::Int,
        };
        let path = self.0.path().join("tone.wav");
        let mut wav = WavWriter::create(&path, spec).expect("it can be written");
        for at in 0..8000 * u32::from(seconds) {
            wav.write_sample((at % 20) as i16 * 800 - 8000).expect("it can be written");
        }
        wav.finalize().expect("it can be written");
        path
    }
}
