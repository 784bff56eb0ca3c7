//! Mouse and keyboard input on the page.

use serde_json::{Value, json};

use crate::browser::Refused;
use crate::page::{ELEMENT, HELPERS, css, quoted};
use crate::{Page, keys};
use hob_testkit::wait;
use hob_testkit::wait::PATIENCE;

/// Key events of one command: each takes a frame, and a command has a timeout.
const MAX_KEYS: usize = 100;

impl Page {
    /// Clicks the first element at `place`, once it is clickable.
    pub fn click(&self, place: &str) {
        let refuses = format!("one({0})?.matches(':disabled, [inert] *')", quoted(place));
        self.until(&format!("{place} is enabled"), &format!("!({refuses})"));
        self.on_element(place, "clicked", |element| {
            self.command(&format!("element/{element}/click"), Some(json!({})))
        });
    }

    /// Clicks a field until it has the focus.
    pub fn focus(&self, place: &str) {
        wait::until(&format!("{place} has the focus"), || {
            self.click(place);
            let script = format!("return document.activeElement === one({})", quoted(place));
            self.script(&script).as_bool().filter(|&focused| focused)
        });
    }

    /// Clicks while a modifier is held: `Control` or `Shift`.
    pub fn click_with(&self, modifier: &str, place: &str) {
        let key = match modifier {
            "Control" => "\u{E009}",
            "Shift" => "\u{E008}",
            other => panic!("no check holds {other}"),
        };
        let (down, up, pause) = (
            json!({"type": "keyDown", "value": key}),
            json!({"type": "keyUp", "value": key}),
            json!({"type": "pause"}),
        );
        let keyboard = json!({
            "type": "key", "id": "modifier", "actions": [down, pause, pause, pause, up],
        });
        let button = |kind: &str| json!({"type": kind, "button": 0});
        self.on_element(place, "clicked", |element| {
            let click = [
                pause.clone(),
                to_the_middle_of(element),
                button("pointerDown"),
                button("pointerUp"),
                pause.clone(),
            ];
            let mouse = json!({
                "type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
                "actions": click,
            });
            self.command("actions", Some(json!({"actions": [keyboard, mouse]})))
        });
    }

    /// Moves the mouse over the element.
    pub fn hover(&self, place: &str) {
        self.on_element(place, "pointed at", |element| self.mouse(&[to_the_middle_of(element)]));
    }

    /// Presses the mouse's button where the mouse is, and does not release it.
    pub fn hold_mouse(&self) {
        self.mouse(&[json!({"type": "pointerDown", "button": 0})]).expect("the mouse is pressed");
    }

    /// Releases the mouse's button.
    pub fn release_mouse(&self) {
        self.mouse(&[json!({"type": "pointerUp", "button": 0})]).expect("the mouse is released");
    }

    /// Dispatches the events of a mouse that enters and leaves at once. With real moves, a busy machine
    /// may pause in between.
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

    /// Replaces the content of a field by typing.
    pub fn fill(&self, place: &str, text: &str) {
        self.focus(place);
        self.press("Control+a");
        self.press("Delete");
        self.write(text);
    }

    /// Sets the value of a field at once, as pasting or choosing from a list does.
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

    /// Chooses a file for a file input.
    pub fn choose_file(&self, place: &str, path: &std::path::Path) {
        let keys = json!({"text": path.display().to_string()});
        self.on_element(place, "given a file", |element| {
            self.command(&format!("element/{element}/value"), Some(keys.clone()))
        });
    }

    /// Drops files on the middle of the page, as the system's file manager does, and returns whether the page takes
    /// them. `files`: their names and texts.
    pub fn drop_files(&self, files: &[(String, String)]) -> bool {
        let dropped = self.script_with(
            "const dataTransfer = new DataTransfer();
             for (const [name, text] of arguments[0]) dataTransfer.items.add(new File([text], name));
             const target = document.elementFromPoint(innerWidth / 2, innerHeight / 2);
             const fire = kind => {
                 const event = new DragEvent(kind, {bubbles: true, cancelable: true, dataTransfer});
                 target.dispatchEvent(event);
                 return event.defaultPrevented;
             };
             return fire('dragover') && fire('drop')",
            &[json!(files)],
        );
        dropped.as_bool().expect("whether it was taken")
    }

    /// Presses a chord: `Enter`, `Control+k`.
    pub fn press(&self, chord: &str) {
        self.keyboard(&keys::chord(chord));
    }

    /// Types into the focused element.
    pub fn write(&self, text: &str) {
        for keys in keys::text(text).chunks(MAX_KEYS) {
            self.keyboard(keys);
        }
    }

    /// Waits until no animation moves the element and two frames draw it at the same place: by the time
    /// of a click, an element in motion is elsewhere.
    fn stands_still(&self, place: &str) {
        let script = format!(
            "{HELPERS}
             const [place, done] = arguments;
             const where = () => {{
                 const moves = document.getAnimations().some(animation =>
                     animation.playState === 'running' && animation.timeline === document.timeline &&
                     animation.effect.target.contains(one(place)));
                 const area = one(place)?.getBoundingClientRect();
                 return moves || !area ? null : JSON.stringify(area);
             }};
             const before = where();
             requestAnimationFrame(() =>
                 requestAnimationFrame(() => done(before !== null && before === where())));"
        );
        let tried = wait::attempt(PATIENCE, || match self.run_async(&script, &[json!(place)]) {
            Ok(Value::Bool(true)) => Ok(()),
            Ok(_) => Err("it moves, or is not there".to_owned()),
            Err(error) => Err(error.to_string()),
        });
        tried.unwrap_or_else(|why| panic!("{place} does not stand still: {why}"));
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
        done.unwrap_or_else(|error| panic!("keys cannot be pressed: {error}"));
    }

    fn on_element<T>(
        &self,
        place: &str,
        done: &str,
        act: impl Fn(&str) -> Result<T, Refused>,
    ) -> T {
        self.stands_still(place);
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
