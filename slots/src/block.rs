//! Cuts a timeline into blocks and names them.
//!
//! - A block ends after [`BLOCK_TOKENS`] tokens or right after a border token (end of turn),
//!   whichever comes first. The last block may be partial.
//! - Where a block ends depends only on the tokens before, so timelines with a common prefix begin
//!   with the same blocks.
//! - An incrementally updated [`Timeline`] always equals [`blocks_of`] its tokens.

use std::ops::Range;

use crate::id::{BlockId, ModelHash, Token};

/// Tokens of a full block.
pub const BLOCK_TOKENS: usize = 64;

/// A named range of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub id: BlockId,
    /// The block before, or the root.
    pub parent: BlockId,
    pub range: Range<usize>,
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
        let block = Block { id: BlockId::child(parent, &tokens[range.clone()]), parent, range };
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
}

impl Timeline {
    /// Of a model without adapters of the request.
    pub fn new(model: ModelHash) -> Self {
        Self::of_root(BlockId::root(model))
    }

    /// `root`: the parent of its first block.
    pub fn of_root(root: BlockId) -> Self {
        Self { root, tokens: Vec::new(), blocks: Vec::new(), open: false }
    }

    pub fn push(&mut self, tokens: &[Token], is_border: impl Fn(Token) -> bool) {
        let grows_from = self.blocks.len().saturating_sub(usize::from(self.open));
        for &token in tokens {
            self.append(token, is_border(token));
        }
        self.name_blocks(grows_from);
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
        self.open = start < len;
        if self.open {
            self.blocks.push(self.block(whole, start..len));
        }
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
            let unnamed = Block { id: self.root, parent: self.root, range: end - 1..end };
            self.blocks.push(unnamed);
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
        let parent = self.id_before(before);
        Block { id: BlockId::child(parent, &self.tokens[range.clone()]), parent, range }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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

    #[derive(Clone, Debug)]
    enum Step {
        Push(Vec<Token>),
        Truncate(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let token = prop_oneof![1 => Just(END), 30 => (1..50).prop_map(Token)];
        let step = prop_oneof![
            3 => prop::collection::vec(token, 0..150).prop_map(Step::Push),
            1 => (0_usize..400).prop_map(Step::Truncate),
        ];
        prop::collection::vec(step, 1..12)
    }

    proptest! {
        #[test]
        fn a_chain_kept_step_by_step_equals_one_made_from_scratch(steps in steps()) {
            let mut kept = Timeline::new(MODEL);
            let mut tokens = Vec::new();
            for step in steps {
                match step {
                    Step::Push(more) => {
                        kept.push(&more, is_end);
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
