//! Which tokens of their timeline tokens attended to when they were computed.
//!
//! - KV of a token is a function of the tokens that it attends to. While a block is away, the tokens
//!   computed meanwhile do not attend to it: their KV, and that of all tokens after them, differs for good
//!   from the KV of the same text computed whole. It is *impure*.
//! - So a [`View`] is folded into the name of each block that was computed under it. Equal names go on
//!   meaning equal KV, and no other conversation finds impure KV by the text alone.
//! - KV that was computed behind another text and moved here attended to that text. It is impure, too, and so is
//!   all that follows it. Its view names where it came from.
//! - KV that was rounded for a [lossy tier](crate::lossy) is that of its text no more: it is impure, and all
//!   that follows it. The view of each such block names the block whose KV it rounds. Behind it, KV that is not
//!   rounded is renamed as well, because the names of blocks are chained.

use std::fmt;
use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::id::{BlockId, hex_text};
use crate::lossy::Lossy;

/// Which earlier positions were away when a token was computed: none, or a digest of them. Their tokens
/// need not be in it: the name of the block before has them. Of moved tokens: a digest of where they were
/// computed. Of a block of a lossy tier: a digest of the block that it was.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct View([u8; Self::BYTES]);

/// Consecutive tokens with one view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewRun {
    /// The end of the run in the timeline; it begins at the end of the one before.
    pub end: u32,
    pub view: View,
}

/// Views of moved tokens begin with it.
const MOVED: [u8; 4] = *b"mov\0";

/// Views of rounded tokens.
const LOSSY: [u8; 4] = *b"los\0";

/// Views of tokens behind rounded ones that are not rounded themselves.
const RENAMED: [u8; 4] = *b"ren\0";

/// What the tokens of a saved timeline do not say of its KV.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// The views of its tokens, in order; empty where all are pure.
    pub views: Vec<ViewRun>,
    /// Ranges that had no cells when it was saved: sorted, disjoint, each of whole blocks.
    pub away: Vec<Range<u32>>,
}

impl View {
    pub const BYTES: usize = 16;

    /// The view of tokens that attended to everything before them.
    pub const WHOLE: Self = Self([0; Self::BYTES]);

    /// The view of tokens that did not attend to `away`: sorted, disjoint ranges of positions.
    pub fn without(away: impl IntoIterator<Item = Range<usize>>) -> Self {
        let mut hash = Sha256::new_with_prefix(b"hob view");
        let mut is_whole = true;
        for range in away {
            is_whole = false;
            hash.update((range.start as u64).to_le_bytes());
            hash.update((range.end as u64).to_le_bytes());
        }
        if is_whole {
            return Self::WHOLE;
        }
        let digest: [u8; 32] = hash.finalize().into();
        Self(*digest.first_chunk().expect("a digest is longer"))
    }

    /// The view of tokens whose KV was computed in the blocks `source`, `delta` positions before here. The names of
    /// these blocks tell all tokens before them, so the KV follows from the view and the positions.
    pub fn moved(delta: i64, source: impl IntoIterator<Item = BlockId>) -> Self {
        let mut hash = Sha256::new_with_prefix(b"hob moved");
        hash.update(delta.to_le_bytes());
        source.into_iter().for_each(|block| hash.update(block.0));
        Self::marked(MOVED, hash)
    }

    /// The view of the tokens of `block`, whose KV was rounded so.
    pub fn lossy(lossy: Lossy, block: BlockId) -> Self {
        let hash = Sha256::new_with_prefix(b"hob lossy").chain_update([lossy.code()]);
        Self::marked(LOSSY, hash.chain_update(block.0))
    }

    /// The view of the tokens of `block`, whose KV is as it was, behind rounded KV.
    pub fn renamed(block: BlockId) -> Self {
        Self::marked(RENAMED, Sha256::new_with_prefix(b"hob renamed").chain_update(block.0))
    }

    fn marked(mark: [u8; 4], hash: Sha256) -> Self {
        let digest: [u8; 32] = hash.finalize().into();
        let mut view = Self(*digest.first_chunk().expect("a digest is longer"));
        view.0[..mark.len()].copy_from_slice(&mark);
        view
    }

    /// Whether the view is of rounded tokens; as unlikely to be mistaken as [`View::is_moved`].
    pub fn is_lossy(self) -> bool {
        self.0.starts_with(&LOSSY)
    }

    /// Whether the view is of a block that a lossy tier has named anew, rounded or not.
    pub fn is_of_lossy_tier(self) -> bool {
        self.is_lossy() || self.0.starts_with(&RENAMED)
    }

    /// The view of tokens that were computed behind `before`, where the timeline has other KV of the same text now:
    /// chunks whose heads were computed together each attended to the others as they were moved.
    pub fn repaired(before: BlockId) -> Self {
        let hash = Sha256::new_with_prefix(b"hob repaired").chain_update(before.0);
        let digest: [u8; 32] = hash.finalize().into();
        Self(*digest.first_chunk().expect("a digest is longer"))
    }

    /// Whether the view is of moved tokens. One digest of absent positions in four billion looks alike: its KV is
    /// computed again where moved KV is not wanted.
    pub fn is_moved(self) -> bool {
        self.0.starts_with(&MOVED)
    }

    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    pub fn bytes(self) -> [u8; Self::BYTES] {
        self.0
    }

    pub fn is_whole(self) -> bool {
        self == Self::WHOLE
    }

    /// The name from which those of blocks with this view behind `before` are derived.
    pub fn parent(self, before: BlockId) -> BlockId {
        if self.is_whole() {
            return before;
        }
        let hash = Sha256::new_with_prefix(b"hob apart").chain_update(before.0);
        BlockId(hash.chain_update(self.0).finalize().into())
    }
}

/// The runs of the first `tokens` of tokens with these `views`; empty where those are pure.
pub fn views_within(views: &[ViewRun], tokens: u32) -> Vec<ViewRun> {
    let reach = views.partition_point(|run| run.end < tokens);
    let runs = &views[..views.len().min(reach + usize::from(tokens > 0))];
    if runs.iter().all(|run| run.view.is_whole()) {
        return Vec::new();
    }
    runs.iter().map(|run| ViewRun { end: run.end.min(tokens), ..*run }).collect()
}

/// The runs of tokens with these `views`, of which those in `range` get another one.
pub fn with_view(views: &[ViewRun], range: Range<u32>, view: View) -> Vec<ViewRun> {
    let mut runs = Vec::with_capacity(views.len() + 2);
    let mut add = |end: u32, view: View| {
        let start = runs.last().map_or(0, |run: &ViewRun| run.end);
        if end > start {
            runs.push(ViewRun { end, view });
        }
    };
    for run in views {
        add(run.end.min(range.start), run.view);
        if run.end > range.start {
            add(range.end, view);
            add(run.end, run.view);
        }
    }
    runs
}

/// How many tokens with these `views` precede the first moved one; `None` without any.
pub fn first_moved(views: &[ViewRun]) -> Option<usize> {
    first(views, View::is_moved)
}

/// How many tokens with these `views` precede the first rounded one; `None` without any.
pub fn first_lossy(views: &[ViewRun]) -> Option<usize> {
    first(views, View::is_lossy)
}

fn first(views: &[ViewRun], is_it: impl Fn(View) -> bool) -> Option<usize> {
    let at = views.iter().position(|run| is_it(run.view))?;
    Some(at.checked_sub(1).map_or(0, |before| views[before].end as usize))
}

/// The rounded tokens among the first `tokens` with these `views`.
pub fn lossy_tokens(views: &[ViewRun], tokens: usize) -> usize {
    let mut start = 0;
    let runs = views.iter().map(|run| {
        let end = (run.end as usize).min(tokens);
        let range = std::mem::replace(&mut start, end)..end;
        (range.len(), run.view)
    });
    runs.filter(|(_, view)| view.is_lossy()).map(|(tokens, _)| tokens).sum()
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_whole() { f.write_str("WHOLE") } else { f.write_str(&hex_text(&self.0[..4])) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ModelHash;

    #[test]
    fn a_view_is_named_by_what_was_away() {
        assert_eq!(View::without([]), View::WHOLE);
        assert_ne!(View::without([64..128]), View::WHOLE);
        assert_ne!(View::without([64..128]), View::without([64..192]));
        assert_ne!(View::without([0..64, 128..192]), View::without([0..64]));
        assert_eq!(View::without([64..128]), View::without([64..128]));
    }

    #[test]
    fn the_views_of_a_beginning_are_none_while_it_is_pure() {
        let view = View::without([0..2]);
        let views = [ViewRun { end: 4, view: View::WHOLE }, ViewRun { end: 8, view }];
        assert_eq!([0, 3, 4].map(|tokens| views_within(&views, tokens)), [vec![], vec![], vec![]]);
        assert_eq!(views_within(&views, 5), [views[0], ViewRun { end: 5, view }]);
        assert_eq!(views_within(&views, 8), views);
        assert_eq!(views_within(&views[1..], 0), []);
    }

    #[test]
    fn a_part_of_the_tokens_gets_another_view() {
        let run = |end, view| ViewRun { end, view };
        let (one, other) = (View::without([0..2]), View::without([0..3]));
        let runs = [run(4, View::WHOLE), run(9, one)];
        let new = |range| with_view(&runs, range, other);
        assert_eq!(new(4..6), [run(4, View::WHOLE), run(6, other), run(9, one)]);
        assert_eq!(new(6..9), [run(4, View::WHOLE), run(6, one), run(9, other)]);
        assert_eq!(new(2..9), [run(2, View::WHOLE), run(9, other)]);
        assert_eq!(new(0..5), [run(5, other), run(9, one)]);
    }

    #[test]
    fn a_repaired_view_is_named_by_what_was_before_it_and_is_not_moved() {
        let [one, other] = [[1; 8], [2; 8]].map(|model| BlockId::root(ModelHash(model)));
        assert_eq!(View::repaired(one), View::repaired(one));
        assert_ne!(View::repaired(one), View::repaired(other));
        assert!(!View::repaired(one).is_moved() && !View::repaired(one).is_whole());
    }

    #[test]
    fn a_moved_view_is_named_by_its_source_and_by_how_far_it_moved() {
        let [one, other] = [[1; 8], [2; 8]].map(|model| BlockId::root(ModelHash(model)));
        let views = [
            View::moved(64, [one]),
            View::moved(-64, [one]),
            View::moved(64, [other]),
            View::moved(64, [one, other]),
        ];
        for (at, view) in views.iter().enumerate() {
            assert!(view.is_moved() && !views[..at].contains(view));
        }
        assert_eq!(View::moved(64, [one]), views[0]);
        assert!(!View::WHOLE.is_moved() && !View::without([0..64]).is_moved());
        assert_ne!(views[0].parent(one), one);
    }

    #[test]
    fn the_first_moved_token_is_the_first_one_of_a_moved_run() {
        let run = |end, view| ViewRun { end, view };
        let moved = View::moved(3, [BlockId::root(ModelHash([1; 8]))]);
        let absent = View::without([0..2]);
        assert_eq!(first_moved(&[]), None);
        assert_eq!(first_moved(&[run(9, View::WHOLE), run(12, absent)]), None);
        assert_eq!(first_moved(&[run(9, moved)]), Some(0));
        assert_eq!(first_moved(&[run(9, View::WHOLE), run(12, moved)]), Some(9));
    }

    #[test]
    fn a_lossy_view_is_named_by_the_block_that_it_rounds_and_by_how() {
        let [one, other] = [[1; 8], [2; 8]].map(|model| BlockId::root(ModelHash(model)));
        let views = [
            View::lossy(Lossy::Q8, one),
            View::lossy(Lossy::Q4, one),
            View::lossy(Lossy::Q8, other),
            View::renamed(one),
            View::moved(0, [one]),
        ];
        for (at, view) in views.iter().enumerate() {
            assert!(!view.is_whole() && !views[..at].contains(view));
            assert_eq!(view.is_lossy(), at < 3);
            assert_eq!(view.is_of_lossy_tier(), at < 4);
        }
        let ends = [2, 5, 9, 10, 12];
        let runs: Vec<ViewRun> =
            views.iter().zip(ends).map(|(&view, end)| ViewRun { end, view }).rev().collect();
        let runs: Vec<ViewRun> =
            runs.iter().zip(ends).map(|(run, end)| ViewRun { end, ..*run }).collect();
        assert_eq!(first_lossy(&runs), Some(5));
        assert_eq!([4, 7, 12, 99].map(|tokens| lossy_tokens(&runs, tokens)), [0, 2, 7, 7]);
    }

    #[test]
    fn the_whole_view_changes_no_name_and_others_do() {
        let before = BlockId::root(ModelHash([1; 8]));
        assert_eq!(View::WHOLE.parent(before), before);
        let views = [View::without([0..64]), View::without([64..128])];
        assert_ne!(views[0].parent(before), before);
        assert_ne!(views[0].parent(before), views[1].parent(before));
    }
}
