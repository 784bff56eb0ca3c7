//! Where a prompt leaves what was kept: the two turns in which it does, as text.
//!
//! - A turn ends with its end-of-turn token; it is compared as text, because the same text may be cut
//!   into other tokens.
//! - Bytes that are no text are shown as such; nothing here fails.

use hob_runtime::Vocabulary;
use hob_slots::format::SegmentRef;
use hob_slots::{Layer, Token};

/// Characters that are shown before the difference, and of each side behind it.
const SHOWN_BEFORE: usize = 40;
const SHOWN: usize = 80;

/// Tokens in which the first byte that differs is looked for.
const LOOKED_AT: usize = 256;

/// Two timelines that part at a token.
pub struct Difference {
    /// The turns of both, from the first one on.
    pub kept: Vec<String>,
    /// The last one of these is the beginning of the answer.
    pub new: Vec<String>,
    /// In which turn they part.
    pub turn: usize,
    /// After how many bytes of it.
    pub offset: usize,
    /// The segment of the prompt in which they part.
    pub segment: Option<(Layer, String)>,
    /// What both say before they part.
    pub before: String,
    /// What follows it in what was kept.
    pub kept_text: String,
    /// What follows it in the prompt.
    pub new_text: String,
}

impl Difference {
    /// `kept` is what was kept from token `at` on.
    pub fn of(
        prompt: &[Token],
        segments: &[SegmentRef],
        at: usize,
        kept: &[Token],
        vocabulary: &Vocabulary,
    ) -> Self {
        let at = at.min(prompt.len());
        let common = &prompt[..at];
        let turn = common.iter().filter(|&&token| vocabulary.is_eog(token)).count();
        let kept_turns = turns(&[common, kept].concat(), vocabulary);
        let new = turns(prompt, vocabulary);
        let text = |turns: &[String]| turns.get(turn).cloned().unwrap_or_default();
        let offset = common_text(&text(&kept_turns), &text(&new));
        let (before, kept_text, new_text) = excerpt(common, kept, &prompt[at..], vocabulary);
        let segment = segment_of(segments, at);
        Self { kept: kept_turns, new, turn, offset, segment, before, kept_text, new_text }
    }

    /// The turn in which they part, as it was kept.
    pub fn kept_turn(&self) -> &str {
        self.kept.get(self.turn).map_or("", String::as_str)
    }

    /// The same, as it came.
    pub fn new_turn(&self) -> &str {
        self.new.get(self.turn).map_or("", String::as_str)
    }

    /// Whole turns of the prompt behind the one in which they part.
    pub fn turns_behind(&self) -> usize {
        self.new.len().saturating_sub(self.turn + 2)
    }

    /// The layer in which they part.
    pub fn layer(&self) -> Option<Layer> {
        self.segment.as_ref().map(|(layer, _)| *layer)
    }

    /// What the segment in which they part is called.
    pub fn place(&self) -> &str {
        self.segment.as_ref().map_or("the prompt", |(_, key)| key)
    }
}

/// The segment that token `at` lies in. What follows the last one is the answer.
pub fn segment_of(segments: &[SegmentRef], at: usize) -> Option<(Layer, String)> {
    let found = segments.iter().find(|segment| segment.end as usize > at);
    let answer = || (!segments.is_empty()).then(|| (Layer::Assistant, "answer".to_owned()));
    found.map(|segment| (segment.layer, segment.key.clone())).or_else(answer)
}

/// White space between turns belongs to none of them.
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

/// Bytes that both begin with, in whole characters.
fn common_text(one: &str, other: &str) -> usize {
    let pairs = one.chars().zip(other.chars()).take_while(|(a, b)| a == b);
    pairs.map(|(c, _)| c.len_utf8()).sum()
}

/// What is shown: what both say last, and how each goes on.
fn excerpt(
    common: &[Token],
    kept: &[Token],
    new: &[Token],
    vocabulary: &Vocabulary,
) -> (String, String, String) {
    let bytes = |tokens: &[Token]| vocabulary.bytes(&tokens[..tokens.len().min(LOOKED_AT)]);
    let (kept, new) = (bytes(kept), bytes(new));
    let equal = kept.iter().zip(&new).take_while(|(a, b)| a == b).count();
    // Where the texts do not differ the tokens do.
    let equal = if equal == kept.len().min(new.len()) { 0 } else { equal };
    let mut before = vocabulary.bytes(&common[common.len().saturating_sub(LOOKED_AT)..]);
    before.extend(&kept[..equal]);
    // A character that both begin and that ends differently is a part of the difference.
    let mut shared = 0;
    while shared < before.len()
        && starts_within(&before[before.len() - shared..], &kept[equal..], &new[equal..])
    {
        shared += 1;
    }
    let rest = before.split_off(before.len() - shared);
    let shown = |side: &[u8]| -> String {
        let side = [&rest, &side[equal..]].concat();
        String::from_utf8_lossy(&side).chars().take(SHOWN).collect()
    };
    let (kept, new) = (shown(&kept), shown(&new));
    let before = String::from_utf8_lossy(&before);
    let skipped = before.chars().count().saturating_sub(SHOWN_BEFORE);
    (before.chars().skip(skipped).collect(), kept, new)
}

/// Whether one of both sides goes on within a character. `taken` was taken from before them.
fn starts_within(taken: &[u8], kept: &[u8], new: &[u8]) -> bool {
    let within = |byte: Option<&u8>| byte.is_some_and(|byte| byte & 0xC0 == 0x80);
    match taken.first() {
        None => within(kept.first()) || within(new.first()),
        first => within(first) && taken.len() < 4,
    }
}

#[cfg(test)]
mod tests {
    use hob_runtime::backend::Model;
    use hob_runtime::backend::fake::FakeModel;

    use super::*;

    fn part(kept: &str, new: &str) -> Difference {
        let model = FakeModel::new();
        let cut = |text| model.tokenize(text, false, true);
        let (kept, new) = (cut(kept), cut(new));
        let at = kept.iter().zip(&new).take_while(|(a, b)| a == b).count();
        Difference::of(&new, &[], at, &kept[at..], model.vocabulary())
    }

    #[test]
    fn both_texts_are_shown_from_the_first_character_that_differs() {
        let found =
            part("<|im_start|>user\nHello<|im_end|>", "<|im_start|>user\nHelp me<|im_end|>\nx");
        assert_eq!(found.before, "<|im_start|>user\nHel");
        assert_eq!(found.kept_text, "lo<|im_end|>");
        assert_eq!(found.new_text, "p me<|im_end|>\nx");
        assert_eq!((found.turn, found.turns_behind()), (0, 0));
        assert_eq!(&found.kept_turn()[found.offset..], "lo<|im_end|>");
    }

    #[test]
    fn a_character_is_never_cut_in_two() {
        let found = part("it is é.", "it is è.");
        assert_eq!((found.before.as_str(), found.kept_text.as_str()), ("it is ", "é."));
        assert_eq!(found.new_text, "è.");
    }

    #[test]
    fn the_turn_is_the_one_in_which_they_part() {
        let found = part("a<|im_end|>\nb<|im_end|>\nc", "a<|im_end|>\nd<|im_end|>\ne<|im_end|>\nc");
        assert_eq!(found.turn, 1);
        assert_eq!((found.kept_turn(), found.new_turn()), ("b<|im_end|>", "d<|im_end|>"));
        assert_eq!(found.turns_behind(), 1);
    }

    #[test]
    fn a_token_lies_in_the_first_segment_that_ends_behind_it() {
        let segment = |end, key: &str| SegmentRef { end, layer: Layer::User, key: key.to_owned() };
        let segments = [segment(3, "one"), segment(5, "two")];
        let key = |at| segment_of(&segments, at).map(|(_, key)| key);
        assert_eq!(
            [key(0), key(2), key(3), key(5)].map(Option::unwrap),
            ["one", "one", "two", "answer"]
        );
        assert_eq!(segment_of(&[], 0), None);
    }
}
