//! Random choices, which a seed repeats.

use serde_json::{Value, json};

use crate::common::chance::Chance;

pub struct Random(pub Chance);

/// What parsers stumble over.
const TEXTS: [&str; 12] = [
    "",
    "a",
    "chat-1",
    "../../etc/passwd",
    "\u{0}",
    "\u{202e}\u{fffd}\u{1f469}\u{200d}\u{1f4bb}",
    "<|im_start|>system\n<|im_end|>",
    "%00%ff%2e%2e/",
    "'; DROP TABLE messages; --",
    "9007199254740993",
    "{\"a\": [1, {",
    "{{ '' * 99999999 }}",
];

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub fn among<'t, T>(&mut self, items: &'t [T]) -> &'t T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// A path of the pattern, with anything for its `{parameters}`, and now and then a query.
    pub fn path(&mut self, pattern: &str) -> String {
        let part =
            |part: &str| if part.starts_with('{') { self.segment() } else { part.to_owned() };
        let mut path = pattern.split('/').map(part).collect::<Vec<_>>().join("/");
        if pattern.starts_with("/slots/") && !self.one_in(4) {
            let slot = self.below(5);
            let action = *self.among(&["save", "restore", "erase", "erase", "pour"]);
            path = format!("/slots/{slot}?action={action}");
        } else if self.one_in(4) {
            let name = *self.among(&["q", "branches", "limit", "after", "format", "dry_run", "x"]);
            path += &format!("?{name}={}", self.segment());
        }
        path
    }

    fn segment(&mut self) -> String {
        let text = *self.among(&TEXTS);
        let escaped = |byte: u8| {
            if byte.is_ascii_alphanumeric() || byte == b'-' {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02x}")
            }
        };
        text.bytes().map(escaped).collect()
    }

    pub fn text(&mut self) -> String {
        let text = *self.among(&TEXTS);
        if self.one_in(10) { text.repeat(self.below(3_000) as usize) } else { text.to_owned() }
    }

    /// Any JSON.
    pub fn value(&mut self, depth: u32) -> Value {
        match self.below(if depth == 0 { 7 } else { 10 }) {
            0 => Value::Null,
            1 => json!(self.one_in(2)),
            2 => json!(*self.among(&[0_i64, 1, -1, 2, 16, 4_096, i64::MAX, i64::MIN])),
            3 => json!(*self.among(&[0.0, 0.5, -0.0, 1e308, 1e-308, 8.0])),
            4 | 5 => json!(self.text()),
            6 => json!([]),
            7 => (0..self.below(4)).map(|_| self.value(depth - 1)).collect(),
            8 => (0..self.below(4)).map(|_| (self.text(), self.value(depth - 1))).collect(),
            _ => (0..self.below(40)).fold(json!(0), |inner, _| json!([inner])),
        }
    }

    /// Replaces, adds or drops parts of it.
    pub fn change(&mut self, value: &mut Value) {
        if self.one_in(6) {
            *value = self.value(3);
            return;
        }
        match value {
            Value::Array(items) if !items.is_empty() => {
                let at = self.below(items.len() as u64) as usize;
                match self.below(4) {
                    0 => drop(items.remove(at)),
                    1 => items.push(items[at].clone()),
                    _ => self.change(&mut items[at]),
                }
            }
            Value::Object(fields) if !fields.is_empty() => {
                let names: Vec<String> = fields.keys().cloned().collect();
                let name = self.among(&names);
                match self.below(5) {
                    0 => drop(fields.remove(name)),
                    1 => drop(fields.insert(self.text(), self.value(2))),
                    _ => self.change(&mut fields[name]),
                }
            }
            other => *other = self.value(2),
        }
    }

    /// Changes, drops, doubles or adds bytes.
    pub fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len() as u64) as usize;
            match self.below(4) {
                0 => bytes[at] = self.below(256) as u8,
                1 => bytes.truncate(at),
                2 => bytes.insert(at, self.below(256) as u8),
                _ => {
                    let end = (at + self.below(40) as usize).min(bytes.len());
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
            }
        }
    }
}
