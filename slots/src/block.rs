//! Cuts a timeline into blocks and names them.
//!
//! - A block ends after [`BLOCK_TOKENS`] tokens, right after a border token (end of turn), or where the
//!   [view](crate::lineage) changes, whichever comes first. The last block may be partial.
//! - Where a block ends depends only on the tokens before and on their views, so timelines with a common
//!   prefix that attended to the same begin with the same blocks.
//! - An incrementally updated [`Timeline`] always equals one that is made of its tokens and views; with
//!   the whole view, [`blocks_of`] its tokens.

use std::ops::Range;

use crate::id::{BlockId, ModelHash, Token};
use crate::lineage::{View, ViewRun};

/// Tokens of a full block.
pub const BLOCK_TOKENS: usize = 64;

/// A named range of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub id: BlockId,
    /// The block before, or the root.
    pub parent: BlockId,
    pub view: View,
    pub range: Range<usize>,
}

impl Block {
    fn of(parent: BlockId, view: View, tokens: &[Token], range: Range<usize>) -> Self {
        let id = BlockId::child(view.parent(parent), &tokens[range.clone()]);
        Self { id, parent, view, range }
    }

    /// The block before; `None` of the first.
    pub fn before(&self) -> Option<BlockId> {
        (self.range.start > 0).then_some(self.parent)
    }

    /// The name from which its own is derived.
    pub fn named_after(&self) -> BlockId {
        self.view.parent(self.parent)
    }
}

pub fn common_prefix(one: &[Token], other: &[Token]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// The ranges of the blocks of `tokens`, without gaps, from 0 to the end.
pub fn cut(tokens: &[Token], is_border: impl Fn(Token) -> bool) -> Vec<Range<usize>> {
    let mut ranges = Vec::with_capacity(tokens.len() / BLOCK_TOKENS + 1);
    let mut start = 0;
    for (at, &token) in tokens.iter().enumerate() {
        let end = at + 1;
        if end - start == BLOCK_TOKENS || is_border(token) {
            ranges.push(start..end);
            start = end;
        }
    }
    if start < tokens.len() {
        ranges.push(start..tokens.len());
    }
    ranges
}

/// The blocks of `tokens`, named as of a model without adapters of the request.
pub fn blocks_of(
    model: ModelHash,
    tokens: &[Token],
    is_border: impl Fn(Token) -> bool,
) -> Vec<Block> {
    let mut parent = BlockId::root(model);
    let named = |range: Range<usize>| {
        let block = Block::of(parent, View::WHOLE, tokens, range);
        parent = block.id;
        block
    };
    cut(tokens, is_border).into_iter().map(named).collect()
}

/// A timeline and its blocks. It grows at its end and is sometimes truncated.
#[derive(Clone, Debug)]
pub struct Timeline {
    root: BlockId,
    tokens: Vec<Token>,
    blocks: Vec<Block>,
    // Whether the last block is partial. Always false without blocks.
    open: bool,
    runs: Vec<Run>,
}

/// Consecutive tokens with one view.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: usize,
    view: View,
    // The run ended a block that could have taken more tokens.
    cuts: bool,
}

impl Timeline {
    /// The root of a model without adapters of the request.
    pub fn new(model: ModelHash) -> Self {
        Self::of_root(BlockId::root(model))
    }

    /// `root`: the parent of its first block.
    pub fn of_root(root: BlockId) -> Self {
        Self { root, tokens: Vec::new(), blocks: Vec::new(), open: false, runs: Vec::new() }
    }

    /// Appends tokens that attended to all before them.
    pub fn push(&mut self, tokens: &[Token], is_border: impl Fn(Token) -> bool) {
        self.push_seeing(tokens, View::WHOLE, is_border);
    }

    /// Appends tokens with this view.
    pub fn push_seeing(&mut self, tokens: &[Token], view: View, is_border: impl Fn(Token) -> bool) {
        if tokens.is_empty() {
            return;
        }
        if self.runs.last().is_none_or(|last| last.view != view) {
            let cuts = std::mem::take(&mut self.open);
            self.runs.push(Run { start: self.len(), view, cuts });
        }
        let grows_from = self.blocks.len().saturating_sub(usize::from(self.open));
        for &token in tokens {
            self.append(token, is_border(token));
        }
        self.name_blocks(grows_from);
    }

    /// Appends tokens with the views of `runs` at their positions; those behind the last run attended to
    /// everything.
    pub fn push_runs(
        &mut self,
        tokens: &[Token],
        runs: &[ViewRun],
        is_border: impl Fn(Token) -> bool,
    ) {
        let (start, mut done) = (self.len(), 0);
        for run in runs {
            let end = (run.end as usize).saturating_sub(start).min(tokens.len());
            if end > done {
                self.push_seeing(&tokens[done..end], run.view, &is_border);
                done = end;
            }
        }
        self.push(&tokens[done..], is_border);
    }

    /// Keeps the first `len` tokens.
    pub fn truncate(&mut self, len: usize) {
        if len >= self.tokens.len() {
            return;
        }
        self.tokens.truncate(len);
        let whole = self.whole_until(len);
        self.blocks.truncate(whole);
        let start = self.end_of(whole);
        let runs = self.runs.partition_point(|run| run.start < len);
        let next = self.runs.get(runs).filter(|run| run.start == len);
        self.open = start < len || next.is_some_and(|run| run.cuts);
        self.runs.truncate(runs);
        if start < len {
            self.blocks.push(self.block(whole, start..len));
        }
    }

    /// The tokens before the first one that did not attend to everything before it, itself or through others.
    /// Their KV is that of their text.
    pub fn pure(&self) -> usize {
        let first = self.runs.iter().find(|run| !run.view.is_whole());
        first.map_or(self.len(), |run| run.start)
    }

    /// The views of its tokens, in order; empty where all are pure.
    pub fn views(&self) -> Vec<ViewRun> {
        self.views_within(self.len())
    }

    /// The views of its first `len` tokens.
    pub fn views_within(&self, len: usize) -> Vec<ViewRun> {
        let len = len.min(self.len());
        if self.pure() >= len {
            return Vec::new();
        }
        let runs = self.runs.partition_point(|run| run.start < len);
        let ends = self.runs[1..runs].iter().map(|run| run.start).chain([len]);
        let narrow = |end| u32::try_from(end).expect("positions fit 32 bits");
        let run = |(run, end): (&Run, usize)| ViewRun { end: narrow(end), view: run.view };
        self.runs.iter().zip(ends).map(run).collect()
    }

    /// The blocks; the last one may be partial, see [`Timeline::whole_blocks`].
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The blocks that take no more tokens.
    pub fn whole_blocks(&self) -> &[Block] {
        &self.blocks[..self.blocks.len() - usize::from(self.open)]
    }

    /// The parent of the first block.
    pub fn root(&self) -> BlockId {
        self.root
    }

    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The name of the first `len` tokens: of the block that ends there, or of the partial one that
    /// would.
    ///
    /// # Panics
    /// When the timeline is shorter.
    pub fn id_at(&self, len: usize) -> BlockId {
        let whole = self.whole_until(len);
        let start = self.end_of(whole);
        if start == len { self.id_before(whole) } else { self.block(whole, start..len).id }
    }

    fn whole_until(&self, len: usize) -> usize {
        self.blocks.partition_point(|block| block.range.end <= len)
    }

    fn end_of(&self, blocks: usize) -> usize {
        self.blocks[..blocks].last().map_or(0, |block| block.range.end)
    }

    fn id_before(&self, block: usize) -> BlockId {
        self.blocks[..block].last().map_or(self.root, |before| before.id)
    }

    fn append(&mut self, token: Token, border: bool) {
        let end = self.tokens.len() + 1;
        self.tokens.push(token);
        if self.open {
            let last = self.blocks.last_mut().expect("an open timeline has a last block");
            last.range.end = end;
        } else {
            // Named by `name_blocks` once the range is known.
            let (id, view) = (self.root, View::WHOLE);
            self.blocks.push(Block { id, parent: self.root, view, range: end - 1..end });
        }
        let filled = self.blocks.last().is_some_and(|last| last.range.len() == BLOCK_TOKENS);
        self.open = !filled && !border;
    }

    fn name_blocks(&mut self, from: usize) {
        for at in from..self.blocks.len() {
            self.blocks[at] = self.block(at, self.blocks[at].range.clone());
        }
    }

    /// The block of `range`, which follows the first `before` blocks.
    fn block(&self, before: usize, range: Range<usize>) -> Block {
        let run = self.runs.partition_point(|run| run.start <= range.start);
        Block::of(self.id_before(before), self.runs[run - 1].view, &self.tokens, range)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lineage::views_within;

    const MODEL: ModelHash = ModelHash(*b"a model!");
    const END: Token = Token(0);

    fn is_end(token: Token) -> bool {
        token == END
    }

    fn words(count: usize) -> Vec<Token> {
        (1..=count).map(|n| Token(n as i32)).collect()
    }

    #[test]
    fn a_block_ends_after_64_tokens() {
        assert_eq!(cut(&words(150), is_end), [0..64, 64..128, 128..150]);
        assert_eq!(cut(&words(128), is_end), [0..64, 64..128]);
    }

    #[test]
    fn a_block_ends_with_the_turn() {
        let tokens = [words(10), vec![END], words(64), vec![END, END]].concat();
        assert_eq!(cut(&tokens, is_end), [0..11, 11..75, 75..76, 76..77]);
    }

    #[test]
    fn an_empty_timeline_has_no_blocks() {
        assert_eq!(cut(&[], is_end), []);
        assert_eq!(Timeline::new(MODEL).blocks(), []);
        assert_eq!(Timeline::new(MODEL).id_at(0), BlockId::root(MODEL));
    }

    #[test]
    fn each_block_names_the_one_before_as_its_parent() {
        let blocks = blocks_of(MODEL, &words(150), is_end);
        assert_eq!(blocks[0].parent, BlockId::root(MODEL));
        assert_eq!(blocks[1].parent, blocks[0].id);
        assert_eq!(blocks[2].id, BlockId::child(blocks[1].id, &words(150)[128..]));
    }

    #[test]
    fn timelines_that_begin_alike_begin_with_the_same_blocks() {
        let (short, long) =
            (blocks_of(MODEL, &words(100), is_end), blocks_of(MODEL, &words(200), is_end));
        assert_eq!(short[0], long[0]);
        assert_ne!(short[1].id, long[1].id);
    }

    #[test]
    fn the_partial_last_block_is_not_among_the_whole_ones() {
        let mut timeline = Timeline::new(MODEL);
        timeline.push(&words(70), is_end);
        assert_eq!(timeline.blocks().len(), 2);
        assert_eq!(timeline.whole_blocks().len(), 1);
        timeline.push(&[END], is_end);
        assert_eq!(timeline.whole_blocks(), timeline.blocks());
    }

    #[test]
    fn a_block_ends_where_the_view_changes_and_its_name_tells_the_view() {
        let mut whole = Timeline::new(MODEL);
        whole.push(&words(200), is_end);
        let mut kept = Timeline::new(MODEL);
        kept.push(&words(200)[..150], is_end);
        kept.push_seeing(&words(200)[150..], View::without([64..128]), is_end);
        let ranges: Vec<_> = kept.blocks().iter().map(|block| block.range.clone()).collect();
        assert_eq!(ranges, [0..64, 64..128, 128..150, 150..200]);
        assert_eq!(kept.blocks()[..2], whole.blocks()[..2]);
        assert_eq!(kept.pure(), 150);
        let last = kept.blocks()[3].clone();
        let natural = BlockId::child(last.parent, &words(200)[150..]);
        assert_ne!(last.id, natural, "the same tokens, which saw less");
        kept.push(&words(10), is_end);
        assert_eq!(kept.blocks()[4].view, View::WHOLE);
        assert_eq!(kept.blocks()[4].parent, last.id, "what follows is named after impure KV");
        assert_eq!(kept.pure(), 150);
    }

    #[test]
    fn a_timeline_that_goes_back_to_before_another_view_is_as_it_was() {
        let mut timeline = Timeline::new(MODEL);
        timeline.push(&words(150), is_end);
        let before = timeline.blocks().to_vec();
        timeline.push_seeing(&words(30), View::without([0..64]), is_end);
        timeline.truncate(150);
        assert_eq!(timeline.blocks(), before);
        assert_eq!(timeline.views(), []);
        timeline.push(&words(30), is_end);
        let tokens = [words(150), words(30)].concat();
        assert_eq!(timeline.blocks(), blocks_of(MODEL, &tokens, is_end));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(Vec<Token>, View),
        Truncate(usize),
    }

    /// With `views`, of more than the whole one.
    fn steps(views: bool) -> impl Strategy<Value = Vec<Step>> {
        let token = prop_oneof![1 => Just(END), 30 => (1..50).prop_map(Token)];
        let view = (0..if views { 3_usize } else { 1 }).prop_map(|n| match n {
            0 => View::WHOLE,
            n => View::without([0..64 * n]),
        });
        let push = (prop::collection::vec(token, 0..150), view);
        let step = prop_oneof![
            3 => push.prop_map(|(tokens, view)| Step::Push(tokens, view)),
            1 => (0_usize..400).prop_map(Step::Truncate),
        ];
        prop::collection::vec(step, 1..12)
    }

    proptest! {
        #[test]
        fn one_kept_step_by_step_equals_one_made_of_its_tokens_and_views(steps in steps(true)) {
            let mut kept = Timeline::new(MODEL);
            for step in steps {
                match step {
                    Step::Push(more, view) => kept.push_seeing(&more, view, is_end),
                    Step::Truncate(len) => kept.truncate(len),
                }
                let mut scratch = Timeline::new(MODEL);
                scratch.push_runs(kept.tokens(), &kept.views(), is_end);
                prop_assert_eq!(kept.blocks(), scratch.blocks());
                prop_assert_eq!(kept.whole_blocks(), scratch.whole_blocks());
                prop_assert_eq!(kept.views(), scratch.views());
                for len in [0, kept.len() / 3, kept.len() / 2, kept.len()] {
                    let mut cut = kept.clone();
                    cut.truncate(len);
                    prop_assert_eq!(kept.views_within(len), cut.views());
                    let within = views_within(&kept.views(), len as u32);
                    prop_assert_eq!(within, cut.views());
                }
                let pure = kept.pure();
                prop_assert_eq!(kept.id_at(pure), {
                    let natural = blocks_of(MODEL, &kept.tokens()[..pure], is_end);
                    natural.last().map_or(BlockId::root(MODEL), |block| block.id)
                });
            }
        }

        #[test]
        fn a_chain_kept_step_by_step_equals_one_made_from_scratch(steps in steps(false)) {
            let mut kept = Timeline::new(MODEL);
            let mut tokens = Vec::new();
            for step in steps {
                match step {
                    Step::Push(more, view) => {
                        kept.push_seeing(&more, view, is_end);
                        tokens.extend(more);
                    }
                    Step::Truncate(len) => {
                        kept.truncate(len);
                        tokens.truncate(len);
                    }
                }
                prop_assert_eq!(kept.blocks(), blocks_of(MODEL, &tokens, is_end));
                prop_assert_eq!(kept.tokens(), &tokens);
                for block in kept.whole_blocks() {
                    let filled = block.range.len() == BLOCK_TOKENS;
                    prop_assert!(filled || is_end(tokens[block.range.end - 1]));
                }
                for len in [0, tokens.len() / 3, tokens.len() / 2, tokens.len()] {
                    let scratch = blocks_of(MODEL, &tokens[..len], is_end);
                    let expected = scratch.last().map_or(BlockId::root(MODEL), |block| block.id);
                    prop_assert_eq!(kept.id_at(len), expected);
                }
            }
        }
    }
}
