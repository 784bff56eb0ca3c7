//! Finds text of a prompt whose KV is saved at another place: in another conversation, or elsewhere in the
//! same one. Pure.
//!
//! - [`ContentIndex`] knows records. From their tokens it hashes the first [`WINDOW`] tokens of each block;
//!   no object is opened. Its tokens are bounded; the records that were added longest ago leave first.
//! - [`ContentIndex::find`] rolls the same hash over the prompt once, and extends each match token by token,
//!   in both directions, over the blocks of that record. Its chunks are sorted and disjoint.
//! - Only what a record computed with everything before it in sight is found, with the same adapters. KV of a
//!   private conversation is found by that conversation alone, and so is impure KV, where it asks for that.
//! - [`repair`]: which tokens of a chunk are computed anew.

mod index;
pub mod repair;
mod rolling;

use std::ops::Range;
use std::sync::Arc;

pub use index::{ContentIndex, Source};
pub use repair::Repair;
use serde::Deserialize;

use crate::format::SlotRecord;
use crate::id::BlockId;
use crate::layer::Layer;
use crate::lineage::View;
use crate::{AdapterSet, ConversationId, SegmentRef, Token};

/// Tokens by which a block is found.
pub const WINDOW: usize = 32;

/// A part of a prompt that a record has elsewhere.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Positions in the prompt.
    pub at: Range<usize>,
    pub source: Arc<SlotRecord>,
    /// Where the chunk begins in the source.
    pub from: usize,
}

/// Cells of saved blocks that are imported elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Positions in the prompt.
    pub at: Range<usize>,
    /// How far they move: negative towards the beginning.
    pub delta: i64,
    /// The blocks that have them, with their places in the source.
    pub blocks: Vec<(BlockId, Range<usize>)>,
    pub view: View,
    /// Tokens of the chunk beside it that are computed to repair the seams.
    pub repaired: usize,
    /// The chunk's first tokens, which are imported, and computed at their place once the chunks behind them are
    /// there.
    pub head: usize,
}

/// Which KV of a prompt its answer may use, as requests and profiles say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accepted {
    /// Only what was computed behind the same tokens.
    Exact,
    /// Also what was computed elsewhere, with repaired seams.
    Repaired,
}

/// A search for chunks in a prompt.
#[derive(Clone, Copy, Debug)]
pub struct ChunkQuery<'p> {
    pub prompt: &'p [Token],
    /// Sorted, disjoint parts of the prompt in which chunks may be.
    pub within: &'p [Range<usize>],
    pub adapters: &'p AdapterSet,
    /// Whose private KV may be used.
    pub conversation: Option<&'p ConversationId>,
    /// Whether KV of other conversations may be used.
    pub others: bool,
    /// Whether impure KV of this conversation may be used.
    pub own_impure: bool,
    /// Tokens of the shortest chunk.
    pub least: usize,
    /// See [`Repair::ends_with_turns`].
    pub whole_turns: bool,
}

impl Chunk {
    /// What the strategy is for this chunk of the prompt. It may be the rest of a text whose first tokens are there:
    /// what its KV knows depends on where that text begins.
    fn repair_in(&self, prompt: &[Token], repair: Repair) -> Repair {
        let delta = signed(self.at.start) - signed(self.from);
        let seen = &self.source.tokens[..self.from];
        let in_front = seen.iter().rev().zip(prompt[..self.at.start].iter().rev());
        let same = in_front.take_while(|(seen, token)| seen == token).count();
        let saw_beginning = prompt.starts_with(&seen[..seen.len() - same]);
        let unseeing = saw_beginning.then_some(same + self.at.len());
        repair.of_chunk(self.at.len(), delta, unseeing)
    }

    /// How many tokens of the prompt's beginning its source has at the same place, before the chunk.
    fn seen_of(&self, prompt: &[Token]) -> usize {
        let before = self.source.tokens[..self.from].iter().zip(prompt);
        before.take_while(|(seen, token)| seen == token).count()
    }

    /// What is imported of it; `None` where all of it is computed. `joins`: another one ends where it begins, or
    /// begins where it ends, so that nothing is computed between them. Then its head is imported, too, and one that
    /// grows is always: what is computed in its place is compared with it.
    pub fn import(&self, repair: Repair, joins: bool) -> Option<Import> {
        let mut part = repair.imported(self.at.len())?;
        let has_head = joins || repair.grows_above().is_some();
        let head = repair.head(self.at.len()).filter(|_| has_head).unwrap_or(0);
        if head > 0 {
            part.start = 0;
        }
        let from = self.from + part.start..self.from + part.end;
        let at = self.at.start + part.start..self.at.start + part.end;
        let mut start = 0;
        let placed = self.source.blocks.iter().map(|block| {
            let range = start..block.end as usize;
            start = range.end;
            (block.id, range)
        });
        let blocks: Vec<_> =
            placed.filter(|(_, it)| it.start < from.end && from.start < it.end).collect();
        let delta = signed(at.start) - signed(from.start);
        let view = View::moved(delta, blocks.iter().map(|(id, _)| *id));
        let repaired = self.at.len() - part.len();
        Some(Import { at, delta, blocks, view, repaired, head })
    }
}

/// What is imported of the chunks of the prompt, in order.
pub fn imports(chunks: &[Chunk], prompt: &[Token], repair: Repair) -> Vec<Import> {
    let repairs: Vec<Repair> = chunks.iter().map(|chunk| chunk.repair_in(prompt, repair)).collect();
    let is_imported = |number: usize| repairs[number].imported(chunks[number].at.len()).is_some();
    let meet = |one: usize, next: usize| {
        chunks.get(next).is_some_and(|next| chunks[one].at.end == next.at.start)
            && is_imported(one)
            && is_imported(next)
    };
    let joins = |number: usize| {
        meet(number, number + 1) || number.checked_sub(1).is_some_and(|before| meet(before, number))
    };
    let all = chunks.iter().enumerate();
    all.filter_map(|(number, chunk)| chunk.import(repairs[number], joins(number))).collect()
}

impl Import {
    /// The source's positions.
    pub fn from(&self) -> Range<usize> {
        let source = |at: usize| {
            usize::try_from(signed(at) - self.delta).expect("it was computed at a position")
        };
        source(self.at.start)..source(self.at.end)
    }

    /// The tokens behind the head, which is computed before they are imported; `None` without any.
    #[must_use]
    pub fn behind_head(self) -> Option<Self> {
        let (head, start) = (self.head, self.at.start + self.head);
        let behind = self.starting_at(start)?;
        Some(Self { repaired: behind.repaired + head, ..behind })
    }

    /// The tokens from `start` on; `None` without any. Their view stays: it tells the source of each position.
    #[must_use]
    pub fn starting_at(mut self, start: usize) -> Option<Self> {
        self.head = self.head.saturating_sub(start.saturating_sub(self.at.start));
        self.at.start = self.at.start.max(start);
        if self.at.is_empty() {
            return None;
        }
        let from = self.from();
        self.blocks.retain(|(_, range)| from.start < range.end);
        Some(self)
    }
}

/// The parts of `range` of a prompt in which KV may be used that was computed elsewhere: not in axioms,
/// identity, rules and tools.
pub fn movable(range: Range<usize>, segments: &[SegmentRef]) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut add = |part: Range<usize>| {
        let part = part.start.max(range.start)..part.end.min(range.end);
        match parts.last_mut().filter(|last| last.end == part.start) {
            Some(last) if !part.is_empty() => last.end = part.end,
            _ if !part.is_empty() => parts.push(part),
            _ => {}
        }
    };
    let mut start = 0;
    for segment in segments {
        let end = segment.end as usize;
        if !is_protected(segment.layer) {
            add(start..end);
        }
        start = end;
    }
    add(start..range.end.max(start));
    parts
}

/// Whether KV of this layer is always what its text alone makes: not moved, and not rounded.
pub fn is_protected(layer: Layer) -> bool {
    matches!(layer, Layer::Axioms | Layer::Identity | Layer::Rules | Layer::Capabilities)
}

fn signed(position: usize) -> i64 {
    i64::try_from(position).expect("positions fit 32 bits")
}

#[cfg(test)]
mod tests;
