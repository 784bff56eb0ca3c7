//! Finds the end of a JSON object or array, reading each byte once, and quotes texts.
//!
//! The scan reads brackets and strings only: a complete value may still be invalid, but a broken one
//! cannot become valid with any further text.

/// Scans one value, which begins with `{` or `[`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scan {
    at: usize,
    open: Vec<u8>, // The expected closing brackets.
    in_string: bool,
    escaped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Incomplete,
    /// The value's length in bytes.
    Complete(usize),
    /// The bytes before this index begin no value.
    Broken(usize),
}

impl Scan {
    /// A scan behind the `{` of an object.
    pub fn in_object() -> Self {
        Self { open: vec![b'}'], ..Self::default() }
    }

    /// The first `bytes` of the value, which were scanned, are no longer in front of the next text.
    pub fn drop_front(&mut self, bytes: usize) {
        self.at -= bytes;
    }

    /// Continues the scan; `value` may have grown since the last call.
    pub fn advance(&mut self, value: &str) -> Progress {
        while let Some(&byte) = value.as_bytes().get(self.at) {
            self.at += 1;
            if self.in_string {
                self.step_in_string(byte);
                continue;
            }
            match byte {
                b'{' => self.open.push(b'}'),
                b'[' => self.open.push(b']'),
                b'"' => self.in_string = true,
                b'}' | b']' if self.open.pop() != Some(byte) => return self.broken(),
                b'}' | b']' if self.open.is_empty() => return Progress::Complete(self.at),
                b'}' | b']' | b',' | b':' | b'+' | b'-' | b'.' => {}
                _ if byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() => {}
                _ => return self.broken(),
            }
            if self.open.is_empty() {
                return self.broken();
            }
        }
        Progress::Incomplete
    }

    fn step_in_string(&mut self, byte: u8) {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => self.in_string = false,
            _ => {}
        }
    }

    /// Excludes the offending byte, which may begin something else.
    fn broken(&self) -> Progress {
        Progress::Broken(self.at - 1)
    }
}

/// The text as JSON writes it, without the quotes.
pub(crate) fn inside_quotes(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(text: &str) -> Progress {
        Scan::default().advance(text)
    }

    #[test]
    fn brackets_in_strings_do_not_count() {
        let value = r#"{"a": "}\"]", "b": [1, {"c": -2.5e+3}]}"#;
        assert_eq!(scan(&format!("{value} rest }}")), Progress::Complete(value.len()));
    }

    #[test]
    fn a_scan_of_an_open_value_continues_where_it_was() {
        let value = r#"{"a": ["}"]}"#;
        let mut scan = Scan::default();
        for end in 1..value.len() {
            assert_eq!(scan.advance(&value[..end]), Progress::Incomplete);
        }
        assert_eq!(scan.advance(value), Progress::Complete(value.len()));
    }

    #[test]
    fn a_scan_continues_without_the_text_before() {
        let mut scan = Scan::default();
        assert_eq!(scan.advance(r#"{"a": "}"#), Progress::Incomplete);
        scan.drop_front(8);
        assert_eq!(scan.advance(r#"", "b": []} rest"#), Progress::Complete(11));
        assert_eq!(Scan::in_object().advance(r#", "b": 1}}"#), Progress::Complete(9));
    }

    #[test]
    fn text_that_cannot_become_a_value_is_broken_at_once() {
        assert_eq!(scan(r#"{"a": 1</tool_call>"#), Progress::Broken(7));
        assert_eq!(scan("{]"), Progress::Broken(1));
        assert_eq!(scan("name"), Progress::Broken(0));
    }
}
