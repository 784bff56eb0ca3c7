//! Turns the bytes of an answer into text that can be shown.
//!
//! - The split of the bytes into tokens never changes the text.
//! - An incomplete character is held back; bytes that can be no character become
//!   U+FFFD, as [`String::from_utf8_lossy`] does it.
//! - Text that could still become a stop text is held back; a stop text is never shown. Of several
//!   stop texts the one that is complete first ends the answer, the longer one on a tie.
//! - Bytes that are passed through are searched for no stop text, nor is one found that begins in them.

#[derive(Debug)]
pub struct Output {
    stop: Vec<String>,
    bytes: Vec<u8>, // The beginning of a character.
    held: String,   // The beginning of a stop text.
    stopped: bool,
    stopped_by: Option<usize>, // The index of the stop text that was found.
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Often empty.
    pub text: String,
    /// A stop text ends the answer.
    pub stopped: bool,
}

impl Output {
    /// An answer that ends at any of these texts. Empty ones are ignored.
    pub fn new(stop: Vec<String>) -> Self {
        let stop = stop.into_iter().filter(|text| !text.is_empty()).collect();
        Self { stop, bytes: Vec::new(), held: String::new(), stopped: false, stopped_by: None }
    }

    pub fn push(&mut self, bytes: &[u8]) -> Pushed {
        if self.stopped {
            return Pushed { text: String::new(), stopped: true };
        }
        self.bytes.extend_from_slice(bytes);
        self.decode();
        let text = self.release();
        Pushed { text, stopped: self.stopped }
    }

    /// The text of bytes in which no stop text begins, up to the first call of [`Self::push`].
    pub fn pass(&mut self, bytes: &[u8]) -> Pushed {
        self.bytes.extend_from_slice(bytes);
        self.decode();
        Pushed { text: std::mem::take(&mut self.held), stopped: false }
    }

    /// The stop text that ended the answer.
    pub fn stop_text(&self) -> Option<&str> {
        self.stopped_by.map(|index| self.stop[index].as_str())
    }

    /// Ends the answer, and returns the text that was held back.
    pub fn finish(&mut self) -> String {
        if !self.bytes.is_empty() {
            self.bytes.clear();
            self.held.push(char::REPLACEMENT_CHARACTER);
        }
        let mut text = self.release();
        text.push_str(&std::mem::take(&mut self.held));
        self.stopped = true;
        text
    }

    /// Moves whole characters from `bytes` to `held`.
    fn decode(&mut self) {
        let mut rest = self.bytes.as_slice();
        loop {
            let error = match str::from_utf8(rest) {
                Ok(text) => {
                    self.held.push_str(text);
                    rest = &[];
                    break;
                }
                Err(error) => error,
            };
            let (valid, after) = rest.split_at(error.valid_up_to());
            self.held.push_str(str::from_utf8(valid).expect("checked by from_utf8"));
            rest = after;
            let Some(broken) = error.error_len() else { break };
            self.held.push(char::REPLACEMENT_CHARACTER);
            rest = &rest[broken..];
        }
        let decoded = self.bytes.len() - rest.len();
        self.bytes.drain(..decoded);
    }

    /// Removes the text from `held` that can no longer be part of a stop text.
    fn release(&mut self) -> String {
        if let Some((start, index)) = self.first_stop() {
            self.stopped = true;
            self.stopped_by = Some(index);
            self.bytes.clear();
            let mut text = std::mem::take(&mut self.held);
            text.truncate(start);
            return text;
        }
        let certain = self.held.len() - self.possible_stop();
        self.held.drain(..certain).collect()
    }

    /// The stop text that ends first: where it starts, and its index.
    fn first_stop(&self) -> Option<(usize, usize)> {
        let found = self.stop.iter().enumerate().filter_map(|(index, stop)| {
            let start = self.held.find(stop.as_str())?;
            Some((start + stop.len(), start, index))
        });
        found.min().map(|(_, start, index)| (start, index))
    }

    /// The length of the longest end of `held` that begins a stop text.
    fn possible_stop(&self) -> usize {
        let begins = |stop: &str| {
            let longest = (stop.len() - 1).min(self.held.len());
            (1..=longest).rev().find(|&len| self.held.as_bytes().ends_with(&stop.as_bytes()[..len]))
        };
        self.stop.iter().filter_map(|stop| begins(stop)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn output(stop: &[&str]) -> Output {
        Output::new(stop.iter().map(|&text| text.to_owned()).collect())
    }

    /// The whole text when the bytes arrive as these pieces.
    fn assemble(stop: &[&str], pieces: &[&[u8]]) -> String {
        let mut output = output(stop);
        let mut text: String = pieces.iter().map(|piece| output.push(piece).text).collect();
        text.push_str(&output.finish());
        text
    }

    #[test]
    fn a_character_is_shown_with_its_last_byte() {
        let mut output = output(&[]);
        assert_eq!(output.push(b"a\xF0\x9F").text, "a");
        assert_eq!(output.push(b"\x94").text, "");
        assert_eq!(output.push(b"\xA5b").text, "\u{1F525}b");
    }

    #[test]
    fn bytes_that_are_no_character_become_replacements() {
        assert_eq!(assemble(&[], &[b"a\xFFb\xC3(", b"\xE2\x82"]), "a\u{FFFD}b\u{FFFD}(\u{FFFD}");
    }

    #[test]
    fn a_stop_text_over_several_tokens_is_never_shown() {
        let mut output = output(&["</end>"]);
        assert_eq!(output.push(b"done </e").text, "done ");
        assert_eq!(output.push(b"nd").text, "");
        assert_eq!(output.push(b"> more"), Pushed { text: String::new(), stopped: true });
        assert_eq!(output.push(b"more"), Pushed { text: String::new(), stopped: true });
        assert_eq!(output.finish(), "");
    }

    #[test]
    fn the_beginning_of_a_stop_text_is_shown_once_it_is_none() {
        let mut output = output(&["</end>"]);
        assert_eq!(output.push(b"a </en").text, "a ");
        assert_eq!(output.push(b"emy>").text, "</enemy>");
        assert_eq!(output.push(b"</en").text, "");
        assert_eq!(output.finish(), "</en");
    }

    #[test]
    fn the_stop_text_that_is_complete_first_wins() {
        assert_eq!(assemble(&["abcd", "bc"], &[b"xabcd"]), "xa");
        assert_eq!(assemble(&["abcd", "cd"], &[b"xabcd"]), "x");
        let mut output = output(&["abcd", "cd"]);
        assert_eq!((output.push(b"xab").text.as_str(), output.stop_text()), ("x", None));
        output.push(b"cd");
        assert_eq!(output.stop_text(), Some("abcd"));
    }

    #[test]
    fn a_stop_text_that_begins_in_bytes_that_are_passed_through_is_none() {
        let mut output = output(&["ab"]);
        assert_eq!(output.pass(b"ab a"), Pushed { text: "ab a".to_owned(), stopped: false });
        assert_eq!(output.push(b"b a"), Pushed { text: "b ".to_owned(), stopped: false });
        assert_eq!(output.push(b"b"), Pushed { text: String::new(), stopped: true });
    }

    #[test]
    fn an_empty_stop_text_ends_nothing() {
        assert_eq!(assemble(&[""], &[b"text"]), "text");
    }

    proptest! {
        #[test]
        fn splitting_never_changes_the_text(
            bytes in prop::collection::vec(prop_oneof![
                Just(b'a'), Just(b'b'), Just(b'c'), Just(0xC3), Just(0xA9), Just(0xE2), Just(0x82),
                Just(0xAC), Just(0xFF), any::<u8>(),
            ], 0..60),
            cuts in prop::collection::vec(0_usize..60, 0..20),
            stop in prop::collection::vec("[abc\u{e9}\u{20ac}\u{fffd}]{0,4}", 0..3),
        ) {
            let stop: Vec<&str> = stop.iter().map(String::as_str).collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();

            let whole = assemble(&stop, &[&bytes]);
            let text = assemble(&stop, &pieces);
            prop_assert_eq!(&text, &whole);
            prop_assert!(String::from_utf8_lossy(&bytes).starts_with(&text));
            prop_assert!(!stop.iter().any(|stop| !stop.is_empty() && text.contains(stop)));
        }

        #[test]
        fn without_stop_texts_it_is_a_lossy_decoding(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(assemble(&[], &pieces), String::from_utf8_lossy(&bytes));
        }
    }
}
