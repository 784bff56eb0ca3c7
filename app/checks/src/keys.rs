//! Converts key names such as `Control+Shift+k` into WebDriver actions.

use serde_json::{Value, json};

/// Presses the keys of `chord`, which are joined by `+`, and releases them in reverse order.
pub fn chord(chord: &str) -> Vec<Value> {
    let keys: Vec<String> = match chord {
        "+" => vec!["+".to_owned()],
        chord => chord.split('+').map(key).collect(),
    };
    let down = keys.iter().map(|key| json!({"type": "keyDown", "value": key}));
    let up = keys.iter().rev().map(|key| json!({"type": "keyUp", "value": key}));
    down.chain(up).collect()
}

/// Types `text`.
pub fn text(text: &str) -> Vec<Value> {
    let press = |letter: char| {
        let key = match letter {
            '\n' => key("Enter"),
            letter => letter.to_string(),
        };
        ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key}))
    };
    text.chars().flat_map(press).collect()
}

/// The body of an `actions` command.
pub fn keyboard(actions: &[Value]) -> Value {
    json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})
}

/// The code point of a key, as WebDriver defines it.
fn key(name: &str) -> String {
    let code = match name {
        "Backspace" => '\u{e003}',
        "Tab" => '\u{e004}',
        "Enter" => '\u{e007}',
        "Shift" => '\u{e008}',
        "Control" => '\u{e009}',
        "Alt" => '\u{e00a}',
        "Escape" => '\u{e00c}',
        "Space" => ' ',
        "PageUp" => '\u{e00e}',
        "PageDown" => '\u{e00f}',
        "End" => '\u{e010}',
        "Home" => '\u{e011}',
        "Left" => '\u{e012}',
        "Up" => '\u{e013}',
        "Right" => '\u{e014}',
        "Down" => '\u{e015}',
        "Delete" => '\u{e017}',
        "F2" => '\u{e032}',
        "Meta" => '\u{e03d}',
        letter => {
            assert_eq!(letter.chars().count(), 1, "there is no key {letter:?}");
            return letter.to_owned();
        }
    };
    code.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_chord_are_held_together() {
        let kinds = |actions: Vec<Value>| -> Vec<String> {
            actions.iter().map(|action| format!("{} {}", action["type"], action["value"])).collect()
        };
        assert_eq!(
            kinds(chord("Control+k")),
            [
                "\"keyDown\" \"\u{e009}\"",
                "\"keyDown\" \"k\"",
                "\"keyUp\" \"k\"",
                "\"keyUp\" \"\u{e009}\""
            ]
        );
        assert_eq!(chord("+").len(), 2);
    }
}
