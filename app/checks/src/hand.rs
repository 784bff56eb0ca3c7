//! What a hand does on the page: the mouse and the keys.

use serde_json::{Value, json};

use crate::browser::Refused;
use crate::page::{ELEMENT, css, quoted};
use crate::{Page, keys};
use hob_testkit::wait;
use hob_testkit::wait::PATIENCE;

/// So many presses and releases go in one command.
const KEYS: usize = 100;

impl Page {
    /// Clicks in the middle of the first such place, once something there can be clicked.
    pub fn click(&self, place: &str) {
        self.on_element(place, "clicked", |element| {
            self.command(&format!("element/{element}/click"), Some(json!({})))
        });
    }

    /// Moves the mouse there.
    pub fn hover(&self, place: &str) {
        self.on_element(place, "pointed at", |element| self.mouse(&[to_the_middle_of(element)]));
    }

    /// Has the mouse come there and leave at once: between two moves of a real one a busy machine may
    /// stop to think.
    pub fn brush(&self, place: &str) {
        self.shows(place);
        self.script_with(
            "for (const kind of ['over', 'enter', 'move', 'out', 'leave'])
                 for (const [device, Kind] of [['pointer', PointerEvent], ['mouse', MouseEvent]]) {
                     const bubbles = !['enter', 'leave'].includes(kind);
                     one(arguments[0]).dispatchEvent(new Kind(device + kind, {bubbles}));
                 }",
            &[json!(place)],
        );
    }

    /// Clicks into a field and writes `text` in the place of what it holds.
    pub fn fill(&self, place: &str, text: &str) {
        self.click(place);
        self.press("Control+a");
        self.press("Delete");
        self.write(text);
    }

    /// Puts `text` into a field at once, as one who pastes it, or chooses it from a list.
    pub fn put(&self, place: &str, text: &str) {
        self.shows(place);
        self.script_with(
            "const [place, text] = arguments;
             const field = one(place);
             field.value = text;
             for (const kind of ['input', 'change']) field.dispatchEvent(new Event(kind, {bubbles: true}));",
            &[json!(place), json!(text)],
        );
    }

    /// Chooses a file for a field that takes one.
    pub fn choose_file(&self, place: &str, path: &std::path::Path) {
        let keys = json!({"text": path.display().to_string()});
        self.on_element(place, "given a file", |element| {
            self.command(&format!("element/{element}/value"), Some(keys.clone()))
        });
    }

    /// Presses keys at once: `Enter`, `Control+k`.
    pub fn press(&self, chord: &str) {
        self.keyboard(&keys::chord(chord));
    }

    /// Types into whatever has the focus.
    pub fn write(&self, text: &str) {
        // Each key takes a frame, and a command has its time.
        for some in keys::text(text).chunks(KEYS) {
            self.keyboard(some);
        }
    }

    fn mouse(&self, actions: &[Value]) -> Result<Value, Refused> {
        let mouse = json!({
            "type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
            "actions": actions,
        });
        self.command("actions", Some(json!({"actions": [mouse]})))
    }

    fn keyboard(&self, actions: &[Value]) {
        let done = self.command("actions", Some(keys::keyboard(actions)));
        done.unwrap_or_else(|error| panic!("the keyboard is stuck: {error}"));
    }

    fn on_element<T>(
        &self,
        place: &str,
        done: &str,
        act: impl Fn(&str) -> Result<T, Refused>,
    ) -> T {
        // What slides in is somewhere else by the time that it is clicked.
        let moves = format!(
            "document.getAnimations().some(a => a.playState === 'running' && a.effect.target.contains(one({})))",
            quoted(place)
        );
        self.until(&format!("{place} stands still"), &format!("!({moves})"));
        let locator = json!({"using": "css selector", "value": css(place)});
        let tried = wait::attempt(PATIENCE, || {
            let found = self.command("element", Some(locator.clone()))?;
            act(found[ELEMENT].as_str().unwrap_or_default())
        });
        tried.unwrap_or_else(|error| panic!("{place} cannot be {done}: {error}"))
    }
}

fn to_the_middle_of(element: &str) -> Value {
    json!({"type": "pointerMove", "duration": 20, "x": 0, "y": 0, "origin": {ELEMENT: element}})
}
