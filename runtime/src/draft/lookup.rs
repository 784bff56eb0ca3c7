//! Prompt lookup: what followed the same tokens earlier in the conversation may follow again.
//!
//! - The index covers the beginning of one timeline; [`Lookup::cover`] extends it, and
//!   [`Lookup::truncate`] undoes that exactly.
//! - It takes about 32 bytes a token, and a hash a token to extend.
//! - A proposal reads at most [`MAX_SOURCES`] places of [`MAX_MATCHED`] tokens, whatever the length.

use std::collections::HashMap;

use hob_slots::Token;

use super::{Draft, Source};

/// Equal tokens that a source needs at least. Shorter ones are frequent and say little.
const GRAM: usize = 3;

/// Longer matches are as good as this one.
pub(super) const MAX_MATCHED: usize = 32;

/// Earlier places that are compared, the newest first.
const MAX_SOURCES: usize = 16;

type Gram = [Token; GRAM];

/// Where a gram ends: the position behind its last token. 0: nowhere.
type End = u32;

/// The places of all grams of a timeline's beginning, as chains from the newest to the oldest.
#[derive(Debug, Default)]
pub struct Lookup {
    newest: HashMap<Gram, End>,
    /// By the end of a gram, less [`GRAM`]: where the same gram ended before.
    older: Vec<End>,
}

impl Lookup {
    /// Extends the index to all of `tokens`, which begin with those it covers.
    pub fn cover(&mut self, tokens: &[Token]) {
        for end in self.older.len() + GRAM..=tokens.len() {
            let place = End::try_from(end).expect("a context has fewer than 2^32 tokens");
            let older = self.newest.insert(gram(tokens, end), place);
            self.older.push(older.unwrap_or(0));
        }
    }

    /// Forgets what ends behind the first `len` of the covered `tokens`.
    pub fn truncate(&mut self, tokens: &[Token], len: usize) {
        let first = (len + 1).saturating_sub(GRAM);
        if first == 0 {
            *self = Self::default(); // Frees the memory.
        }
        while self.older.len() > first {
            let end = self.older.len() - 1 + GRAM;
            match self.older.pop() {
                Some(0) | None => self.newest.remove(&gram(tokens, end)),
                Some(older) => self.newest.insert(gram(tokens, end), older),
            };
        }
    }

    /// At most `max` tokens that may follow `next` behind the covered `tokens`: those behind the
    /// longest match, the newest of equals. Empty where the last tokens are new.
    pub fn propose(&self, tokens: &[Token], next: Token, max: usize) -> Draft {
        let Some(before) = tokens.len().checked_sub(GRAM - 1) else { return Draft::default() };
        let wanted = [tokens[before], tokens[before + 1], next];
        let mut source = self.newest.get(&wanted).copied().unwrap_or(0) as usize;
        let (mut best, mut matched) = (0, 0);
        for _ in 0..MAX_SOURCES {
            if source == 0 || matched == MAX_MATCHED {
                break;
            }
            let length = GRAM + common_end(&tokens[..source - GRAM], &tokens[..before]);
            if length > matched {
                (best, matched) = (source, length.min(MAX_MATCHED));
            }
            source = self.older[source - GRAM] as usize;
        }
        if matched == 0 {
            return Draft::default();
        }
        let mut draft: Vec<Token> = Vec::with_capacity(max);
        for at in best..best + max {
            // A source that reaches the end goes on with the draft itself: a text in a loop.
            let token = match at.checked_sub(tokens.len()) {
                None => tokens[at],
                Some(0) => next,
                Some(behind) => draft[behind - 1],
            };
            draft.push(token);
        }
        Draft { tokens: draft, source: Source::Lookup { matched } }
    }
}

fn gram(tokens: &[Token], end: usize) -> Gram {
    *tokens[..end].last_chunk().expect("a gram ends behind its tokens")
}

/// How many tokens both end with, counted up to [`MAX_MATCHED`].
fn common_end(one: &[Token], other: &[Token]) -> usize {
    let pairs = one.iter().rev().zip(other.iter().rev()).take(MAX_MATCHED);
    pairs.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens(text: &str) -> Vec<Token> {
        text.bytes().map(|byte| Token(i32::from(byte))).collect()
    }

    fn matched_by(draft: &Draft) -> usize {
        match draft.source {
            Source::Lookup { matched } => matched,
            Source::Model { .. } | Source::Mtp { .. } => {
                unreachable!("the text's own tokens have it")
            }
        }
    }

    /// What may follow the last token of `text`.
    fn proposed(text: &str, max: usize) -> (String, usize) {
        let mut tokens = tokens(text);
        let next = tokens.pop().expect("a text");
        let mut lookup = Lookup::default();
        lookup.cover(&tokens);
        let draft = lookup.propose(&tokens, next, max);
        let text = draft.tokens.iter().map(|token| token.0 as u8 as char).collect();
        (text, matched_by(&draft))
    }

    #[test]
    fn a_copy_goes_on_as_its_source_did() {
        assert_eq!(proposed("let first = 1; let", 8), (" first =".into(), 3));
        assert_eq!(proposed("something that is new", 8), (String::new(), 0));
        assert_eq!(proposed("ab", 8), (String::new(), 0));
    }

    #[test]
    fn the_longest_match_wins_and_the_newest_of_equals() {
        assert_eq!(proposed("one tail A, two tail B, one tail", 2), (" A".into(), 8));
        assert_eq!(proposed("x tail A, x tail B, x tail", 2), (" B".into(), 8));
    }

    #[test]
    fn a_loop_goes_on_beyond_its_end() {
        assert_eq!(proposed("abcabcab", 7).0, "cabcabc");
        assert_eq!(proposed("aaaa", 4).0, "aaaa");
    }

    /// The proposal by comparing everything with everything.
    fn naive(tokens: &[Token], next: Token) -> Option<(Vec<Token>, usize)> {
        let all: Vec<Token> = tokens.iter().copied().chain([next]).collect();
        let matched = |end: usize| common_end(&all[..end], &all);
        let sources = (1..all.len()).filter(|&end| matched(end) >= GRAM).rev().take(MAX_SOURCES);
        let best = sources.max_by_key(|&end| (matched(end), end))?;
        Some((all[best..].to_vec(), matched(best)))
    }

    proptest! {
        #[test]
        fn proposals_equal_those_of_comparing_everything(
            text in "[ab]{0,60}",
            cuts in prop::collection::vec(0_usize..60, 0..6),
            next in "[ab]",
        ) {
            let (tokens, next) = (tokens(&text), tokens(&next)[0]);
            let mut lookup = Lookup::default();
            lookup.cover(&tokens);
            for cut in cuts {
                let cut = cut.min(tokens.len());
                // What came behind the cut was another text.
                let other = [&tokens[..cut], &[Token(i32::from(b'a')); 20]].concat();
                lookup.truncate(&tokens, cut);
                lookup.cover(&other);
                lookup.truncate(&other, cut);
                lookup.cover(&tokens);
            }
            let draft = lookup.propose(&tokens, next, 64);
            match naive(&tokens, next) {
                None => prop_assert_eq!(draft, Draft::default()),
                Some((follows, matched)) => {
                    prop_assert_eq!(matched_by(&draft), matched);
                    prop_assert!(draft.tokens.starts_with(&follows));
                    prop_assert_eq!(draft.tokens.len(), 64);
                }
            }
        }
    }
}
