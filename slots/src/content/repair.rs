//! Which tokens of a moved chunk are computed at its new place, and which are imported. Pure.
//!
//! - The first tokens of a text attend most to themselves: moved behind another text, they act as a second
//!   beginning of the sequence. Computed at their new place, they attend to what is before them, and do not.
//! - One function for each strategy; the benchmark compares them.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Tokens at the seams of a moved chunk that are computed anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// No token.
    None,
    /// The first [`SINKS`] tokens, to which later ones attend whatever they are (StreamingLLM).
    Sinks,
    /// The first and the last tokens.
    Boundary(usize),
    /// The first tokens (EPIC's LegoLink): [`HEAD`] of a chunk, [`SHORT_HEAD`] of one shorter than [`SHORT`], half of
    /// it at most.
    HeadByLength,
    /// The given number of first tokens.
    Head(usize),
    /// The head by length; all of a text of at most this many tokens that attended only to the beginning that the
    /// prompt has too: its KV knows none of the texts before it. The default, of short texts.
    HeadBySeen(usize),
    /// The first tokens: `nearer` of a chunk that moves towards the beginning, `further` of one that moves away from
    /// it, behind texts that it has not seen. Of one shorter than [`SHORT`] at least [`SHORT_HEAD`], and half of it at
    /// most.
    HeadByMove { nearer: usize, further: usize },
    /// The first tokens: [`HEAD`] of a chunk, this many of one shorter than [`SHORT`], all but [`MIN_IMPORT`] of it at most.
    HeadOfShort(usize),
    /// The head by length, of chunks of at least this many tokens: a shorter one is computed. The head of a short chunk is
    /// about half of it, so little is saved there.
    HeadOfLong(usize),
    /// The head by length; then the next [`GROWTH`] tokens, and again, while K and V of the tokens that were computed
    /// last differ by more than this percentage from what was moved. It ends where little depends on what is before
    /// the chunk, or with the chunk.
    HeadGrowing(usize),
    /// The given percentage of the tokens: those whose K of the second layer deviates most from what it is at the new
    /// place (CacheBlend). The engine computes all of them to know which.
    Selective(usize),
    /// The head by length, then this percentage of the tokens behind it, chosen like those of [`Self::Selective`].
    HeadAndSelective(usize),
    /// All of them.
    Full,
}

/// No strategy has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a repair strategy: use none, sinks, boundary:TOKENS, head, head:TOKENS, seen, seen:TOKENS, \
     move:TOKENS:TOKENS, short:TOKENS, long:TOKENS, grow:PERCENT, selective:PERCENT, head+selective:PERCENT or full"
)]
pub struct UnknownRepair(String);

/// Attention sinks of a sequence.
const SINKS: usize = 4;

/// Tokens of the head of a chunk that is not short, see `cargo xtask bench chunks`. Two heads fill a tile of
/// attention on a processor, see `runtime/src/backend/tile.rs`: two of 36 tokens begin a second one.
pub const HEAD: usize = 32;

/// Tokens of the head of a short chunk, of which a larger part attends to what was before it: behind 32 of 130
/// tokens, answers differ more from exact ones than behind 32 of 460, and 16 more tokens mend more of that.
pub const SHORT_HEAD: usize = 48;

/// Tokens by which a head grows, at most: no more than it begins with, so it needs no more cells beside all others.
pub const GROWTH: usize = HEAD;

/// Per cent of difference beyond which a head grows, unless it is said.
const DIFFERENT: usize = 20;

/// A chunk of fewer tokens is short.
const SHORT: usize = 256;

/// Tokens of the longest text that the default strategy computes whole.
const MAX_UNSEEING: usize = SHORT - 1;

/// Per cent of the tokens that CacheBlend computes anew.
const SELECTED: usize = 15;

/// Tokens of a seam, at most.
const MAX_TOKENS: usize = 4096;

/// A shorter piece is not imported: computing it costs about as much.
const MIN_IMPORT: usize = 32;

impl Default for Repair {
    /// On a small model that was not trained for moved KV, the short text that was read first made most of the
    /// difference where it stood behind the others, see `docs/MEASUREMENTS.md`.
    fn default() -> Self {
        Self::HeadBySeen(MAX_UNSEEING)
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Sinks => f.write_str("sinks"),
            Self::Boundary(tokens) => write!(f, "boundary:{tokens}"),
            Self::HeadByLength => f.write_str("head"),
            Self::Head(tokens) => write!(f, "head:{tokens}"),
            Self::HeadBySeen(tokens) => write!(f, "seen:{tokens}"),
            Self::HeadByMove { nearer, further } => write!(f, "move:{nearer}:{further}"),
            Self::HeadOfShort(tokens) => write!(f, "short:{tokens}"),
            Self::HeadOfLong(tokens) => write!(f, "long:{tokens}"),
            Self::HeadGrowing(percent) => write!(f, "grow:{percent}"),
            Self::Selective(percent) => write!(f, "selective:{percent}"),
            Self::HeadAndSelective(percent) => write!(f, "head+selective:{percent}"),
            Self::Full => f.write_str("full"),
        }
    }
}

impl FromStr for Repair {
    type Err = UnknownRepair;

    /// As written by `Display`; `boundary`, `seen`, `grow` and the selective ones alone have the default number.
    fn from_str(text: &str) -> Result<Self, UnknownRepair> {
        let unknown = || UnknownRepair(text.to_owned());
        let number = |tokens: &str| {
            let tokens = tokens.parse::<usize>().ok();
            tokens.filter(|tokens| (1..=MAX_TOKENS).contains(tokens)).ok_or_else(unknown)
        };
        if let Some((nearer, further)) =
            text.strip_prefix("move:").and_then(|numbers| numbers.split_once(':'))
        {
            return Ok(Self::HeadByMove { nearer: number(nearer)?, further: number(further)? });
        }
        let (name, tokens) = match text.split_once(':') {
            Some((name, tokens)) => (name, Some(number(tokens)?)),
            None => (text, None),
        };
        let percent = || match tokens.unwrap_or(SELECTED) {
            percent @ ..=100 => Ok(percent),
            _ => Err(unknown()),
        };
        match (name, tokens) {
            ("none", None) => Ok(Self::None),
            ("sinks", None) => Ok(Self::Sinks),
            ("boundary", tokens) => Ok(Self::Boundary(tokens.unwrap_or(HEAD))),
            ("head", None) => Ok(Self::HeadByLength),
            ("head", Some(tokens)) => Ok(Self::Head(tokens)),
            ("seen", tokens) => Ok(Self::HeadBySeen(tokens.unwrap_or(MAX_UNSEEING))),
            ("short", Some(tokens)) => Ok(Self::HeadOfShort(tokens)),
            ("long", Some(tokens)) => Ok(Self::HeadOfLong(tokens)),
            ("grow", _) => Ok(Self::HeadGrowing(tokens.unwrap_or(DIFFERENT))),
            ("selective", _) => Ok(Self::Selective(percent()?)),
            ("head+selective", _) => Ok(Self::HeadAndSelective(percent()?)),
            ("full", None) => Ok(Self::Full),
            _ => Err(unknown()),
        }
    }
}

impl Repair {
    /// A chunk has this many tokens at least.
    pub fn min_chunk(self) -> usize {
        let repaired = match self {
            Self::None | Self::Selective(_) | Self::Full => 0,
            Self::Sinks => SINKS,
            Self::HeadByLength
            | Self::HeadAndSelective(_)
            | Self::HeadBySeen(_)
            | Self::HeadByMove { .. }
            | Self::HeadOfShort(_)
            | Self::HeadOfLong(_)
            | Self::HeadGrowing(_) => HEAD,
            Self::Head(tokens) => tokens,
            Self::Boundary(tokens) => 2 * tokens,
        };
        let least = (2 * repaired).max(repaired + MIN_IMPORT);
        match self {
            Self::HeadOfLong(tokens) => least.max(tokens),
            _ => least,
        }
    }

    /// Whether a chunk ends with a turn where fewer than a window of equal tokens follow it and the texts differ behind
    /// them: these tokens begin the next text, and are then the first ones of its head. Without repair, no text has
    /// a head.
    pub fn ends_with_turns(self) -> bool {
        self != Self::None
    }

    /// The strategy for a chunk of `len` tokens that moves by `delta` positions. `unseeing`: the length of the text that
    /// the chunk ends, if what was before that text begins the prompt as well, so that its KV knows nothing else.
    #[must_use]
    pub fn of_chunk(self, len: usize, delta: i64, unseeing: Option<usize>) -> Self {
        match self {
            Self::HeadBySeen(most) if unseeing.is_some_and(|text| text <= most) => Self::Full,
            Self::HeadBySeen(_) => Self::HeadByLength,
            Self::HeadByMove { nearer, further } => {
                let tokens = if delta > 0 { further } else { nearer };
                let tokens = if len < SHORT { tokens.max(SHORT_HEAD) } else { tokens };
                Self::Head(tokens.min(len / 2))
            }
            _ => self,
        }
    }

    /// The first tokens of a chunk of `len` tokens, if they are all that is computed anew but for those that
    /// [`Self::selected`] chooses.
    pub fn head(self, len: usize) -> Option<usize> {
        match self {
            Self::HeadByLength if len < SHORT => Some(SHORT_HEAD.min(len / 2)),
            Self::HeadByLength => Some(HEAD),
            Self::HeadAndSelective(_)
            | Self::HeadBySeen(_)
            | Self::HeadOfLong(_)
            | Self::HeadGrowing(_) => Self::HeadByLength.head(len),
            Self::HeadByMove { .. } => self.of_chunk(len, 0, None).head(len),
            Self::HeadOfShort(tokens) if len < SHORT => {
                Some(tokens.min(len.saturating_sub(MIN_IMPORT)))
            }
            Self::HeadOfShort(_) => Some(HEAD),
            Self::Head(tokens) => Some(tokens),
            Self::None | Self::Sinks | Self::Boundary(_) | Self::Selective(_) | Self::Full => None,
        }
    }

    /// Per cent of a chunk's tokens that are computed anew because they deviate most.
    pub fn selected(self) -> Option<usize> {
        match self {
            Self::Selective(percent) | Self::HeadAndSelective(percent) => Some(percent),
            _ => None,
        }
    }

    /// Per cent by which K and V of a head's last tokens may differ from what was moved: the head grows where they
    /// differ more. `None` for a head that does not grow.
    pub fn grows_above(self) -> Option<usize> {
        match self {
            Self::HeadGrowing(percent) => Some(percent),
            _ => None,
        }
    }

    /// The tokens of a chunk of `len` tokens that are imported; `None` where all are computed.
    pub fn imported(self, len: usize) -> Option<Range<usize>> {
        let range = match self {
            Self::None | Self::Selective(_) => none(len),
            Self::Sinks => sinks(len),
            Self::Boundary(tokens) => boundary(len, tokens),
            Self::HeadByLength
            | Self::HeadAndSelective(_)
            | Self::Head(_)
            | Self::HeadBySeen(_)
            | Self::HeadByMove { .. }
            | Self::HeadOfShort(_)
            | Self::HeadOfLong(_)
            | Self::HeadGrowing(_) => head(len, self.head(len).unwrap_or(0)),
            Self::Full => full(),
        };
        (range.len() >= MIN_IMPORT).then_some(range)
    }
}

fn none(len: usize) -> Range<usize> {
    0..len
}

fn sinks(len: usize) -> Range<usize> {
    head(len, SINKS)
}

fn boundary(len: usize, tokens: usize) -> Range<usize> {
    tokens.min(len)..len.saturating_sub(tokens).max(tokens.min(len))
}

fn head(len: usize, tokens: usize) -> Range<usize> {
    tokens.min(len)..len
}

fn full() -> Range<usize> {
    0..0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_strategy_imports_what_it_does_not_compute() {
        let all =
            [Repair::None, Repair::Sinks, Repair::Boundary(16), Repair::Head(16), Repair::Full];
        let imported = all.map(|repair| repair.imported(200));
        assert_eq!(
            imported,
            [Some(0..200), Some(4..200), Some(16..184), Some(16..200), None::<Range<usize>>]
        );
    }

    #[test]
    fn a_strategy_is_read_as_it_is_written() {
        for text in [
            "none",
            "sinks",
            "boundary:16",
            "head",
            "head:8",
            "seen:200",
            "move:16:48",
            "short:64",
            "long:256",
            "grow:30",
            "selective:20",
            "head+selective:20",
            "full",
        ] {
            assert_eq!(text.parse::<Repair>().unwrap().to_string(), text);
        }
        assert_eq!("head".parse(), Ok(Repair::HeadByLength));
        for default in ["seen", "seen:255"] {
            assert_eq!(default.parse(), Ok(Repair::default()));
        }
        assert_eq!("grow".parse(), Ok(Repair::HeadGrowing(20)));
        for wrong in [
            "",
            "some",
            "none:3",
            "head:",
            "head:0",
            "head:-1",
            "head:100000",
            "seen:0",
            "move",
            "move:16",
            "move:16:",
            "move:0:48",
            "move:16:48:48",
            "short",
            "short:0",
            "long",
            "grow:0",
            "selective:101",
            "head+selective:101",
            "full:1",
        ] {
            assert!(wrong.parse::<Repair>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_short_chunk_has_a_longer_head_and_half_of_it_is_imported() {
        let repair = Repair::default();
        let heads = [64, 80, 96, 255, 256, 10_000].map(|len| repair.head(len).unwrap());
        assert_eq!(heads, [32, 40, 48, 48, 32, 32]);
        for len in repair.min_chunk()..2 * SHORT {
            assert_eq!(repair.imported(len), Some(repair.head(len).unwrap()..len));
        }
    }

    #[test]
    fn a_chunk_that_saw_only_what_begins_the_prompt_is_computed_up_to_a_length() {
        let seen = Repair::HeadBySeen(200);
        // The chunk is the text, or what is left of it.
        for len in [200, 100] {
            assert_eq!(seen.of_chunk(len, 90, Some(200)), Repair::Full);
            for text in [Some(201), None] {
                assert_eq!(seen.of_chunk(len, 90, text), Repair::HeadByLength);
            }
        }
        for other in [Repair::None, Repair::HeadByLength, Repair::Head(16), Repair::Full] {
            assert_eq!(other.of_chunk(100, 90, Some(100)), other);
        }
    }

    #[test]
    fn a_chunk_that_moves_away_from_the_beginning_has_another_head() {
        let moved = Repair::HeadByMove { nearer: 16, further: 64 };
        let heads = |len| [-90, 90].map(|delta| moved.of_chunk(len, delta, None));
        assert_eq!(heads(512), [Repair::Head(16), Repair::Head(64)]);
        assert_eq!(heads(200), [Repair::Head(48), Repair::Head(64)]);
        assert_eq!(heads(64), [Repair::Head(32); 2]);
        let least = moved.min_chunk();
        assert!((least..600).all(|len| heads(len).iter().all(|it| it.imported(len).is_some())));
    }

    #[test]
    fn a_longer_head_of_a_short_chunk_leaves_what_is_worth_an_import() {
        let repair = Repair::HeadOfShort(64);
        let heads = [64, 80, 96, 255, 256, 10_000].map(|len| repair.head(len).unwrap());
        assert_eq!(heads, [32, 48, 64, 64, 32, 32]);
        for len in repair.min_chunk()..2 * SHORT {
            assert_eq!(repair.imported(len), Some(repair.head(len).unwrap()..len));
        }
    }

    #[test]
    fn where_short_chunks_are_computed_long_ones_have_their_head_by_length() {
        let of_all = Repair::default();
        let least = [1, 100, 256].map(|tokens| Repair::HeadOfLong(tokens).min_chunk());
        assert_eq!(least, [of_all.min_chunk(), 100, 256]);
        for len in [100, 255, 256, 10_000] {
            assert_eq!(Repair::HeadOfLong(100).imported(len), of_all.imported(len));
        }
    }

    #[test]
    fn a_head_that_grows_begins_as_one_by_length() {
        let (growing, head) = (Repair::HeadGrowing(20), Repair::HeadByLength);
        assert_eq!((growing.grows_above(), head.grows_above()), (Some(20), None));
        assert_eq!(growing.min_chunk(), head.min_chunk());
        for len in [64, 255, 256, 10_000] {
            assert_eq!(growing.imported(len), head.imported(len));
            assert!(growing.head(len).unwrap() >= GROWTH);
        }
    }

    #[test]
    fn a_choice_behind_the_head_imports_what_the_head_alone_does() {
        let (both, head) = (Repair::HeadAndSelective(15), Repair::HeadByLength);
        assert_eq!((both.selected(), head.selected()), (Some(15), None));
        assert_eq!(both.min_chunk(), head.min_chunk());
        for len in [64, 255, 256, 10_000] {
            assert_eq!((both.head(len), both.imported(len)), (head.head(len), head.imported(len)));
        }
    }

    #[test]
    fn a_chunk_of_the_least_length_is_imported_and_a_shorter_piece_is_not() {
        for repair in [Repair::None, Repair::Sinks, Repair::Boundary(16), Repair::Head(32)] {
            let least = repair.min_chunk();
            assert!(repair.imported(least).is_some(), "{repair:?} of {least}");
            assert!((0..MIN_IMPORT).all(|len| repair.imported(len).is_none()), "{repair:?}");
        }
    }
}
