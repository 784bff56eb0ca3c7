//! Where a prompt leaves the saved timeline, as text.
//!
//! - A turn ends with its end-of-turn token. Turns are compared as text, because the same text may be
//!   tokenized in several ways.
//! - Invalid UTF-8 is shown as U+FFFD; no function fails.

use hob_runtime::Vocabulary;
use hob_slots::format::SegmentRef;
use hob_slots::{Layer, Token};

/// Characters of an excerpt before the difference, and on each side after it.
const CHARS_BEFORE: usize = 40;
const CHARS_AFTER: usize = 80;

/// The first differing byte is within this many tokens.
const MAX_TOKENS: usize = 256;

/// A saved timeline and a prompt that differ from some token on.
pub struct Difference {
    /// The turns of the timeline.
    pub saved: Vec<String>,
    /// The turns of the prompt; the last one is the beginning of the answer.
    pub new: Vec<String>,
    /// The first turn that differs.
    pub turn: usize,
    /// Bytes of that turn that are the same.
    pub offset: usize,
    /// The segment of the prompt that differs.
    pub segment: Option<(Layer, String)>,
    /// The end of the common text.
    pub before: String,
    /// The timeline from there on.
    pub saved_text: String,
    /// The prompt from there on.
    pub new_text: String,
}

impl Difference {
    /// `saved`: the timeline from token `at` on.
    pub fn of(
        prompt: &[Token],
        segments: &[SegmentRef],
        at: usize,
        saved: &[Token],
        vocabulary: &Vocabulary,
    ) -> Self {
        let at = at.min(prompt.len());
        let common = &prompt[..at];
        let turn = common.iter().filter(|&&token| vocabulary.is_eog(token)).count();
        let saved_turns = turns(&[common, saved].concat(), vocabulary);
        let new = turns(prompt, vocabulary);
        let text = |turns: &[String]| turns.get(turn).cloned().unwrap_or_default();
        let offset = common_text(&text(&saved_turns), &text(&new));
        let (before, saved_text, new_text) = excerpt(common, saved, &prompt[at..], vocabulary);
        let segment = segment_of(segments, at);
        Self { saved: saved_turns, new, turn, offset, segment, before, saved_text, new_text }
    }

    /// The turn that differs, in the timeline.
    pub fn saved_turn(&self) -> &str {
        self.saved.get(self.turn).map_or("", String::as_str)
    }

    /// The turn that differs, in the prompt.
    pub fn new_turn(&self) -> &str {
        self.new.get(self.turn).map_or("", String::as_str)
    }

    /// Whole turns of the prompt after the one that differs.
    pub fn turns_behind(&self) -> usize {
        self.new.len().saturating_sub(self.turn + 2)
    }

    pub fn layer(&self) -> Option<Layer> {
        self.segment.as_ref().map(|(layer, _)| *layer)
    }

    /// The key of the segment that differs.
    pub fn place(&self) -> &str {
        self.segment.as_ref().map_or("the prompt", |(_, key)| key)
    }
}

/// The segment of token `at`. The answer follows the last segment.
pub fn segment_of(segments: &[SegmentRef], at: usize) -> Option<(Layer, String)> {
    let found = segments.iter().find(|segment| segment.end as usize > at);
    let answer = || (!segments.is_empty()).then(|| (Layer::Assistant, "answer".to_owned()));
    found.map(|segment| (segment.layer, segment.key.clone())).or_else(answer)
}

/// Drops the white space between turns.
fn turns(tokens: &[Token], vocabulary: &Vocabulary) -> Vec<String> {
    let each = tokens.split_inclusive(|&token| vocabulary.is_eog(token));
    let mut turns: Vec<String> = each.map(|turn| text(turn, vocabulary)).collect();
    if tokens.last().is_some_and(|&token| vocabulary.is_eog(token)) {
        turns.push(String::new());
    }
    turns
}

fn text(tokens: &[Token], vocabulary: &Vocabulary) -> String {
    String::from_utf8_lossy(&vocabulary.bytes(tokens)).trim_start().to_owned()
}

/// Length of the common prefix in bytes, in whole characters.
fn common_text(one: &str, other: &str) -> usize {
    let pairs = one.chars().zip(other.chars()).take_while(|(a, b)| a == b);
    pairs.map(|(c, _)| c.len_utf8()).sum()
}

/// The end of the common text, and how both sides continue.
fn excerpt(
    common: &[Token],
    saved: &[Token],
    new: &[Token],
    vocabulary: &Vocabulary,
) -> (String, String, String) {
    let bytes = |tokens: &[Token]| vocabulary.bytes(&tokens[..tokens.len().min(MAX_TOKENS)]);
    let (saved, new) = (bytes(saved), bytes(new));
    let equal = saved.iter().zip(&new).take_while(|(a, b)| a == b).count();
    // The same text in other tokens: the excerpts begin at the token.
    let equal = if equal == saved.len().min(new.len()) { 0 } else { equal };
    let mut before = vocabulary.bytes(&common[common.len().saturating_sub(MAX_TOKENS)..]);
    before.extend(&saved[..equal]);
    // A character of which only the first bytes are common belongs to the difference.
    let mut shared = 0;
    while shared < before.len()
        && starts_within(&before[before.len() - shared..], &saved[equal..], &new[equal..])
    {
        shared += 1;
    }
    let rest = before.split_off(before.len() - shared);
    let shown = |side: &[u8]| -> String {
        let side = [&rest, &side[equal..]].concat();
        String::from_utf8_lossy(&side).chars().take(CHARS_AFTER).collect()
    };
    let (saved, new) = (shown(&saved), shown(&new));
    let before = String::from_utf8_lossy(&before);
    let skipped = before.chars().count().saturating_sub(CHARS_BEFORE);
    (before.chars().skip(skipped).collect(), saved, new)
}

/// Whether a side begins within a character. `taken`: the bytes moved from the common text to both.
fn starts_within(taken: &[u8], saved: &[u8], new: &[u8]) -> bool {
    let within = |byte: Option<&u8>| byte.is_some_and(|byte| byte & 0xC0 == 0x80);
    match taken.first() {
        None => within(saved.first()) || within(new.first()),
        first => within(first) && taken.len() < 4,
    }
}

#[cfg(test)]
mod tests {
    use hob_runtime::backend::Model;
    use hob_runtime::backend::fake::FakeModel;

    use super::*;

    fn part(saved: &str, new: &str) -> Difference {
        let model = FakeModel::new();
        let cut = |text| model.tokenize(text, false, true);
        let (saved, new) = (cut(saved), cut(new));
        let at = saved.iter().zip(&new).take_while(|(a, b)| a == b).count();
        Difference::of(&new, &[], at, &saved[at..], model.vocabulary())
    }

    #[test]
    fn both_texts_are_shown_from_the_first_character_that_differs() {
        let found =
            part("<|im_start|>user\nHello<|im_end|>", "<|im_start|>user\nHelp me<|im_end|>\nx");
        assert_eq!(found.before, "<|im_start|>user\nHel");
        assert_eq!(found.saved_text, "lo<|im_end|>");
        assert_eq!(found.new_text, "p me<|im_end|>\nx");
        assert_eq!((found.turn, found.turns_behind()), (0, 0));
        assert_eq!(&found.saved_turn()[found.offset..], "lo<|im_end|>");
    }

    #[test]
    fn a_character_is_never_cut_in_two() {
        let found = part("it is é.", "it is è.");
        assert_eq!((found.before.as_str(), found.saved_text.as_str()), ("it is ", "é."));
        assert_eq!(found.new_text, "è.");
    }

    #[test]
    fn the_turn_is_the_first_one_that_differs() {
        let found = part("a<|im_end|>\nb<|im_end|>\nc", "a<|im_end|>\nd<|im_end|>\ne<|im_end|>\nc");
        assert_eq!(found.turn, 1);
        assert_eq!((found.saved_turn(), found.new_turn()), ("b<|im_end|>", "d<|im_end|>"));
        assert_eq!(found.turns_behind(), 1);
    }

    #[test]
    fn a_token_is_in_the_first_segment_that_ends_behind_it() {
        let segment = |end, key: &str| SegmentRef::new(end, Layer::User, key);
        let segments = [segment(3, "one"), segment(5, "two")];
        let key = |at| segment_of(&segments, at).map(|(_, key)| key);
        assert_eq!(
            [key(0), key(2), key(3), key(5)].map(Option::unwrap),
            ["one", "one", "two", "answer"]
        );
        assert_eq!(segment_of(&[], 0), None);
    }
}
