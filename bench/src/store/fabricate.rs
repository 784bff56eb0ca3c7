//! Fabricated KV, for measurements of speed.
//!
//! - One block is computed; every other has its layout, its own positions, and its values with the
//!   lower half of each mantissa drawn at random. All numbers stay finite and no two blocks are
//!   equal; answers over them are meaningless.
//! - Objects and records are named by the real chain of the tokens and written by the real store.

use std::ops::Range;

use anyhow::{Context, Result};
use hob_runtime::Vocabulary;
use hob_runtime::backend::state::PlainState;
use hob_runtime::backend::{Backend, Sequence};
use hob_slots::store::Store;
use hob_slots::{
    BLOCK_TOKENS, Block, BlockRef, ConversationId, Object, ObjectKind, Payload, SlotRecord,
    Timeline, Timestamp, Token, TtlClass,
};

use crate::raw::rows;
use crate::turns::FINGERPRINT;

/// The offset of the cells in a state, and the length of one entry.
const CELLS: usize = 16;
const CELL: usize = 12;

pub struct Fabricator {
    block: Vec<u8>,
    rows: Vec<Range<usize>>,
    random: u64,
}

impl Fabricator {
    /// Computes one block.
    pub fn new(backend: &mut dyn Backend) -> Result<Self> {
        let tokens = (0..BLOCK_TOKENS).map(|position| Token(300 + position as i32));
        backend.decode(&rows(0, tokens))?;
        let block = backend.export(Sequence(0), Vec::new())?;
        backend.clear(Sequence(0));
        let rows = PlainState::parse(&block).context("the layout is known")?.rows().collect();
        Ok(Self { block, rows, random: 0x5eed })
    }

    /// KV of one token.
    pub fn token_bytes(&self) -> usize {
        self.rows.iter().map(Range::len).sum::<usize>() / BLOCK_TOKENS
    }

    /// A state of the cells at `range`, at most a block of them.
    pub fn state(&mut self, range: Range<usize>) -> Vec<u8> {
        let mut state = self.block[..CELLS].to_vec();
        state[12..16].copy_from_slice(&(range.len() as u32).to_le_bytes());
        for (cell, position) in range.clone().enumerate() {
            let like = &self.block[CELLS + cell * CELL..][..CELL];
            state.extend((position as i32).to_le_bytes());
            state.extend(&like[4..]);
        }
        state.extend(&self.block[CELLS + BLOCK_TOKENS * CELL..][..16]);
        for rows in &self.rows {
            let head = 12;
            state.extend(&self.block[rows.start - head..rows.start]);
            let used = rows.len() / BLOCK_TOKENS * range.len();
            let words = self.block[rows.start..][..used].chunks_exact(8);
            for word in words {
                // The generator is Marsaglia's xorshift64.
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                let value = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                state.extend((value ^ (self.random & 0x00ff_00ff_00ff_00ff)).to_le_bytes());
            }
        }
        state
    }

    /// Writes a conversation as the engine would have.
    pub fn keep(
        &mut self,
        store: &Store,
        vocabulary: &Vocabulary,
        conversation: &str,
        tokens: &[Token],
    ) -> Result<()> {
        let mut timeline = Timeline::new(FINGERPRINT);
        timeline.push(tokens, |token| vocabulary.is_eog(token));
        let mut blocks = Vec::new();
        for Block { id, parent, range, .. } in timeline.blocks() {
            let bytes = if store.has_object(FINGERPRINT, *id) {
                0 // Another conversation has the same prefix.
            } else {
                let object = Object {
                    kind: ObjectKind::Block,
                    model: FINGERPRINT,
                    parent: *parent,
                    start: u32::try_from(range.start)?,
                    tokens: tokens[range.clone()].to_vec(),
                    payload: Payload::from(self.state(range.clone())),
                };
                store.put_object(FINGERPRINT, *id, &object)?
            };
            blocks.push(BlockRef { end: u32::try_from(range.end)?, id: *id, bytes });
        }
        store.put_slot(FINGERPRINT, &record(conversation, tokens, blocks)?)?;
        Ok(())
    }
}

/// The last use of all fabricated conversations.
pub const LAST_USE: Timestamp = Timestamp(1_700_000_000_000);

pub fn record(conversation: &str, tokens: &[Token], blocks: Vec<BlockRef>) -> Result<SlotRecord> {
    Ok(SlotRecord {
        turns: 1,
        tokens: tokens.to_vec(),
        blocks,
        ..SlotRecord::empty(ConversationId::new(conversation)?, TtlClass::Long, LAST_USE)
    })
}
