//! Arguments of calls that are no JSON: an answer may end or break off within them.
//!
//! - A prompt has them as the model wrote them, not as a quoted string, so that the call keeps its
//!   tokens. A mark stands for them while the template is rendered.
//! - A template that reads each argument fails at a mark: it gets an object, see [`mended`].

use std::collections::HashMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use hob_slots::hex_text;

/// A mark begins with it.
const MARK: &str = "arguments-";

/// Bytes of the hash that a mark ends with, in two hex digits each.
const HASH_BYTES: usize = 16;

/// The marks in rendered text, and what each stands for.
#[derive(Debug, Default)]
pub(super) struct Malformed {
    texts: HashMap<String, String>,
}

impl Malformed {
    /// Replaces such arguments by marks.
    pub fn take_from(messages: &mut [Value]) -> Self {
        let mut malformed = Self::default();
        let calls = messages.iter_mut().filter_map(|message| message.get_mut("tool_calls"));
        for call in calls.filter_map(Value::as_array_mut).flatten() {
            let Some(arguments) = call.pointer_mut("/function/arguments") else { continue };
            if let Some(text) = arguments.as_str().filter(|text| is_malformed(text)) {
                let mark = format!("{MARK}{}", hex_text(&Sha256::digest(text)[..HASH_BYTES]));
                malformed.texts.insert(mark.clone(), text.to_owned());
                *arguments = mark.into();
            }
        }
        malformed
    }

    /// Writes what the marks stand for, also where the template quoted them; `None` where that has more than `max_bytes`.
    /// The time is linear in the prompt: a history may have a hundred thousand calls that broke off.
    pub fn put_into(&self, prompt: String, max_bytes: usize) -> Option<String> {
        if self.texts.is_empty() {
            return Some(prompt);
        }
        let mut written = String::with_capacity(prompt.len());
        let mut rest = prompt.as_str();
        while let Some(begin) = rest.find(MARK) {
            let end = begin + MARK.len() + 2 * HASH_BYTES;
            let Some(text) = rest.get(begin..end).and_then(|mark| self.texts.get(mark)) else {
                let (before, behind) = rest.split_at(begin + MARK.len());
                written.push_str(before);
                rest = behind;
                continue;
            };
            let (before, behind) = (&rest[..begin], &rest[end..]);
            let unquoted = before.strip_suffix('"').zip(behind.strip_prefix('"'));
            let (before, behind) = unquoted.unwrap_or((before, behind));
            written.push_str(before);
            written.push_str(text);
            rest = behind;
            if written.len() + rest.len() > max_bytes {
                return None;
            }
        }
        written.push_str(rest);
        Some(written)
    }
}

/// Whether the text began as an object and is none.
fn is_malformed(text: &str) -> bool {
    text.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err()
}

/// Serde_json reads no deeper.
const MAX_DEPTH: usize = 128;

/// An escape has fewer characters, of two units of UTF-16.
const MAX_ESCAPE: usize = 12;

/// An object in place of arguments that are none. Those that broke off have their members as far as the text goes:
/// a text in them ends there, and of other values only whole ones stay. Other text becomes the one member
/// `arguments`.
pub(super) fn mended(text: &str) -> Value {
    let of_broken = if is_malformed(text) { closed(text) } else { None };
    of_broken.unwrap_or_else(|| json!({"arguments": text}))
}

/// The object that `text` begins; `None` where it is none in front of its last value either.
fn closed(text: &str) -> Option<Value> {
    let object = |json: &str| serde_json::from_str::<Value>(json).ok().filter(Value::is_object);
    let (mut open, mut in_text, mut is_escaped) = (Vec::new(), false, false);
    // Where the last value begins or the last bracket ends, and what is open there.
    let (mut known, mut behind_known) = (0, String::new());
    for (at, character) in text.char_indices() {
        if in_text {
            in_text = is_escaped || character != '"';
            is_escaped = !is_escaped && character == '\\';
            continue;
        }
        match character {
            '"' => in_text = true,
            '{' => open.push('}'),
            '[' => open.push(']'),
            '}' | ']' => drop(open.pop()),
            _ => {}
        }
        if open.len() > MAX_DEPTH {
            return None;
        }
        if "{[]},".contains(character) {
            known = if character == ',' { at } else { at + 1 };
            behind_known = closing(&open);
        }
    }
    let behind = closing(&open);
    let whole = if in_text {
        let ends = text.char_indices().rev().map(|(at, _)| at);
        let ends = std::iter::once(text.len()).chain(ends).take(MAX_ESCAPE + 1);
        ends.map(|end| format!("{}\"{behind}", &text[..end])).find_map(|json| object(&json))
    } else {
        object(&format!("{text}{behind}"))
    };
    whole.or_else(|| object(&format!("{}{behind_known}", &text[..known])))
}

/// The brackets that close the `open` ones.
fn closing(open: &[char]) -> String {
    open.iter().rev().collect()
}
