//! Finds where a JSON object or array ends, without reading a byte twice.
//!
//! It looks at brackets and strings only. What it calls complete may still be invalid; what it
//! calls broken cannot become valid whatever follows.

/// Walks over one value, which begins with `{` or `[`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scan {
    at: usize,
    open: Vec<u8>, // The closing brackets that are due.
    in_string: bool,
    escaped: bool,
}

/// What a scan knows so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The value is still open.
    Incomplete,
    /// The value's length in bytes.
    Complete(usize),
    /// The bytes up to here can begin no value.
    Broken(usize),
}

impl Scan {
    /// Goes on with the value, which has grown since the last call or is the same.
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

    /// The offending byte is not part of what is given up: it may begin something else.
    fn broken(&self) -> Progress {
        Progress::Broken(self.at - 1)
    }
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
    fn an_open_value_is_incomplete_and_goes_on_where_it_was() {
        let value = r#"{"a": ["}"]}"#;
        let mut scan = Scan::default();
        for end in 1..value.len() {
            assert_eq!(scan.advance(&value[..end]), Progress::Incomplete);
        }
        assert_eq!(scan.advance(value), Progress::Complete(value.len()));
    }

    #[test]
    fn what_can_be_no_value_is_broken_at_once() {
        assert_eq!(scan(r#"{"a": 1</tool_call>"#), Progress::Broken(7));
        assert_eq!(scan("{]"), Progress::Broken(1));
        assert_eq!(scan("name"), Progress::Broken(0));
    }
}
