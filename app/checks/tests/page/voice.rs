//! Talking instead of writing. The browser's microphone beeps.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use hob_checks::{Hobd, Model, Page};

#[test]
fn what_is_said_while_the_button_is_held_is_written_down_and_sent() {
    let recognizer = Recognizer::new();
    let hobd = recognizer.hobd();
    let page = Page::open(&hobd);

    button(&page, "pointerdown");
    page.until("it listens", "one('@talk-button').dataset.phase === 'hearing'");
    std::thread::sleep(Duration::from_secs(1));
    button(&page, "pointerup");
    page.answered(1);

    assert_eq!(page.last_answer(), "heard");
    page.until("it is quiet", "one('@talk-button').dataset.phase === 'quiet'");
}

#[test]
fn escape_drops_what_was_said() {
    let recognizer = Recognizer::new();
    let hobd = recognizer.hobd();
    let page = Page::open(&hobd);

    button(&page, "pointerdown");
    page.until("it listens", "one('@talk-button').dataset.phase === 'hearing'");
    page.press("Escape");
    page.until("it is quiet", "one('@talk-button').dataset.phase === 'quiet'");
    button(&page, "pointerup");

    page.ask("Say this: written");
    assert_eq!(page.count("@answer"), 1);
    assert_eq!(page.last_answer(), "written");
}

#[test]
fn without_a_recogniser_the_words_are_typed() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    page.script("document.activeElement.blur()");

    button(&page, "pointerdown");

    page.reads("@toast", "voice_recognizer");
    assert_eq!(page.focused(), ("textbox".to_owned(), "Message".to_owned()));
}

fn button(page: &Page, event: &str) {
    page.shows("@talk-button");
    page.script(&format!(
        "one('@talk-button').dispatchEvent(new PointerEvent('{event}', {{bubbles: true}}))"
    ));
}

/// A program that hears whether somebody spoke for half a second at least.
struct Recognizer(tempfile::TempDir);

impl Recognizer {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("there is room for temporary files");
        let script = directory.path().join("recognizer");
        let text = "#!/bin/sh\nif [ \"$(wc -c)\" -gt 16044 ]; then echo 'Say this: heard'; fi\n";
        fs::write(&script, text).expect("it can be written");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).expect("it is ours");
        Self(directory)
    }

    fn hobd(&self) -> Hobd {
        let script = self.0.path().join("recognizer").display().to_string();
        Hobd::start_with(Model::Fake, &["--voice-recognizer", &script])
    }
}
