//! Cuts an answer into sentences while it streams, for a voice to speak.

/// A sentence that is shorter than this is spoken with the next one: "Dr.", "1.", "Yes."
const MIN_CHARS: usize = 12;

/// A voice begins to speak here at the latest: a text without full stops would stay silent.
const MAX_CHARS: usize = 300;

#[derive(Debug, Default)]
pub struct Sentences {
    text: String,
}

impl Sentences {
    /// The sentences that `delta` completes.
    pub fn push(&mut self, delta: &str) -> Vec<String> {
        self.text.push_str(delta);
        let mut sentences = Vec::new();
        while let Some(end) = end_of_sentence(&self.text) {
            let rest = self.text.split_off(end);
            let sentence = std::mem::replace(&mut self.text, rest);
            sentences.extend(spoken(&sentence));
        }
        sentences
    }

    /// The rest, when the answer ends.
    pub fn finish(&mut self) -> Option<String> {
        spoken(&std::mem::take(&mut self.text))
    }
}

/// Bytes up to the end of the first sentence, which is known once white space follows it.
fn end_of_sentence(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().enumerate().peekable();
    let mut last_space = None;
    while let Some((count, (at, char))) = chars.next() {
        let end = at + char.len_utf8();
        let next = chars.peek().map(|&(_, (_, char))| char);
        let ends = match char {
            '\n' | '。' | '！' | '？' => true,
            '.' | '!' | '?' | '…' | ':' | ';' => next.is_some_and(char::is_whitespace),
            _ => false,
        };
        if ends && text[..end].trim().chars().count() >= MIN_CHARS {
            return Some(end);
        }
        if char.is_whitespace() {
            last_space = Some(end);
        }
        if count >= MAX_CHARS {
            return last_space.or(Some(end));
        }
    }
    None
}

/// Without the marks of Markdown; `None` when nothing is left to speak.
fn spoken(sentence: &str) -> Option<String> {
    let plain: String = sentence.chars().filter(|char| !"*_`#~|>".contains(*char)).collect();
    let words = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    words.contains(char::is_alphanumeric).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, pieces: usize) -> Vec<String> {
        let mut sentences = Sentences::default();
        let chars: Vec<char> = text.chars().collect();
        let mut out: Vec<String> = chars
            .chunks(pieces)
            .flat_map(|piece| sentences.push(&piece.iter().collect::<String>()))
            .collect();
        out.extend(sentences.finish());
        out
    }

    #[test]
    fn sentences_do_not_depend_on_the_pieces_that_they_arrive_in() {
        let text =
            "Dr. Who has 3.14 apples. Really? Yes, **really** so!\n\n- `one` of them\nThe end";
        let sentences =
            ["Dr. Who has 3.14 apples.", "Really? Yes, really so!", "- one of them", "The end"];
        for pieces in [1, 2, 5, 1_000] {
            assert_eq!(cut(text, pieces), sentences, "pieces of {pieces}");
        }
    }

    #[test]
    fn a_sentence_is_spoken_as_soon_as_the_next_one_begins() {
        let mut sentences = Sentences::default();
        assert_eq!(sentences.push("The code is 48213."), [] as [&str; 0]);
        assert_eq!(sentences.push(" Is"), ["The code is 48213."]);
        assert_eq!(sentences.finish().as_deref(), Some("Is"));
        assert_eq!(sentences.finish(), None);
    }

    #[test]
    fn a_text_without_full_stops_is_cut_at_a_space() {
        let words = "word ".repeat(200);
        let cut = cut(&words, 7);
        assert!(cut.iter().all(|sentence| sentence.len() <= MAX_CHARS + 1 && !sentence.is_empty()));
        assert_eq!(cut.join(" "), words.trim());
    }

    #[test]
    fn marks_alone_are_not_spoken() {
        assert_eq!(cut("---------------\n***\n", 3), [] as [&str; 0]);
    }
}
