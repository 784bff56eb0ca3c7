//! What lies in the cells, block by block: where it came from, what it is, and what left.
//!
//! - Pure. The engine hands out copies of what it knows, as a [`Reading`]; everything else is done
//!   here, on the thread of whoever asks.
//! - A block is told by where most of its tokens came from, and by what most of them are.
//! - The same reading always gives the same map.

mod origins;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;

use hob_slots::format::SegmentRef;
use hob_slots::{Block, BlockId, ConversationId, Layer, SlotId, Timestamp};

pub use origins::{Origin, Origins};

use crate::status::SlotState;

/// The cells of every slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheMap {
    /// Cells that hold something; what slots share is counted once.
    pub used_tokens: usize,
    /// Slots of conversations, then those of prefixes, in order.
    pub slots: Vec<SlotMap>,
    /// What left a slot lately, the latest last.
    pub left: Vec<Eviction>,
}

/// The cells of one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotMap {
    /// Which one.
    pub slot: SlotId,
    /// Whether it is one of those for prefixes.
    pub prefix: bool,
    /// Whose it is; `None` for a turn without a conversation, and for cells that nobody has.
    pub conversation: Option<ConversationId>,
    /// What it is doing.
    pub state: SlotState,
    /// Tokens in its cells.
    pub tokens: usize,
    /// Tokens of the prompt that it serves: while there are fewer in its cells, it is on its way.
    pub prompt_tokens: Option<usize>,
    /// What is in its cells, in order and without gaps.
    pub blocks: Vec<BlockMap>,
}

/// A block in the cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockMap {
    /// Its name.
    pub id: BlockId,
    /// Which tokens of the timeline it holds.
    pub range: Range<usize>,
    /// What it is for, where that is known.
    pub layer: Option<Layer>,
    /// What that part of the prompt is called.
    pub key: Option<String>,
    /// How it came here.
    pub origin: Origin,
    /// How many other slots hold the same.
    pub sharers: usize,
}

/// Tokens that left a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// When.
    pub at: Timestamp,
    /// Whose they were, if they were anybody's.
    pub conversation: Option<ConversationId>,
    /// How many.
    pub tokens: usize,
    /// Where most of them still were then.
    pub to: Tier,
    /// Why they left.
    pub why: EvictionReason,
}

/// Where something is that is not hot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// In host memory; what is kept is on its way to the disk from there.
    Memory,
    /// On disk alone.
    Disk,
    /// Nowhere: it is computed again when it is wanted.
    Nowhere,
}

/// Why tokens left a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionReason {
    /// Another conversation needed the slot.
    Slot,
    /// Others needed the cells.
    Room,
    /// Nobody used it for a while.
    Idle,
    /// The conversation went on otherwise from there.
    Differs,
    /// The conversation was deleted.
    Deleted,
    /// The model's weights left memory, and with them all cells.
    Unloaded,
    /// Something went wrong, and nothing that was there could be trusted.
    Failed,
}

impl Tier {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Nowhere => "nowhere",
        }
    }
}

impl EvictionReason {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slot => "slot",
            Self::Room => "room",
            Self::Idle => "idle",
            Self::Differs => "differs",
            Self::Deleted => "deleted",
            Self::Unloaded => "unloaded",
            Self::Failed => "failed",
        }
    }
}

/// Copies of what the engine knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    pub used_tokens: usize,
    pub slots: Vec<SlotReading>,
    pub left: Vec<Eviction>,
}

/// What is known of one slot.
#[derive(Clone, Debug)]
pub(crate) struct SlotReading {
    pub slot: SlotId,
    pub prefix: bool,
    pub conversation: Option<ConversationId>,
    pub state: SlotState,
    pub prompt_tokens: Option<usize>,
    pub blocks: Vec<Block>,
    pub origins: Origins,
    pub segments: Vec<SegmentRef>,
}

impl CacheMap {
    pub(crate) fn of(reading: Reading) -> Self {
        let mut holders: HashMap<BlockId, usize> = HashMap::new();
        for block in reading.slots.iter().flat_map(|slot| &slot.blocks) {
            *holders.entry(block.id).or_default() += 1;
        }
        let slots = reading.slots.into_iter().map(|slot| slot.map(&holders)).collect();
        Self { used_tokens: reading.used_tokens, slots, left: reading.left }
    }
}

impl SlotReading {
    fn map(self, holders: &HashMap<BlockId, usize>) -> SlotMap {
        let mut first = 0; // The first segment that reaches into the block.
        let blocks = self.blocks.iter().map(|block| {
            let range = block.range.clone();
            let ended = |segment: &SegmentRef| segment.end as usize <= range.start;
            first += self.segments[first..].iter().take_while(|segment| ended(segment)).count();
            let (layer, key) = part_of(&self.segments[first..], &range)
                .or_else(|| (!self.segments.is_empty()).then_some((Layer::Assistant, ANSWER)))
                .unzip();
            BlockMap {
                id: block.id,
                layer,
                key: key.map(str::to_owned),
                origin: self.origins.most(&range),
                sharers: holders[&block.id] - 1,
                range,
            }
        });
        let blocks: Vec<BlockMap> = blocks.collect();
        SlotMap {
            slot: self.slot,
            prefix: self.prefix,
            conversation: self.conversation,
            state: self.state,
            tokens: blocks.last().map_or(0, |last| last.range.end),
            prompt_tokens: self.prompt_tokens,
            blocks,
        }
    }
}

/// What follows a prompt's segments.
const ANSWER: &str = "answer";

/// The segment that most of `range` is in, of those that end after its start; `None` when most of it
/// follows the last one. Of equals the later one.
fn part_of<'s>(segments: &'s [SegmentRef], range: &Range<usize>) -> Option<(Layer, &'s str)> {
    let mut start = range.start;
    let mut most = (0, None);
    for segment in segments {
        let end = range.end.min(segment.end as usize);
        if end - start >= most.0 {
            most = (end - start, Some((segment.layer, segment.key.as_str())));
        }
        start = end;
        if start == range.end {
            break;
        }
    }
    if range.end - start > most.0 { None } else { most.1 }
}
