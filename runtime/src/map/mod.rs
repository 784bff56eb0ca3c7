//! A map of the cells, block by block: the origin and the layer of each, and the latest evictions.
//!
//! - Pure. The engine's thread only copies its state, as a [`Reading`]; the map is made of it on
//!   the caller's thread.
//! - A block has the origin and the layer of most of its tokens.
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
pub use crate::status::Tier;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheMap {
    /// Cells in use. Shared cells count once where memory is plain.
    pub used_tokens: usize,
    /// Slots of conversations, then those of prefixes, in order.
    pub slots: Vec<SlotMap>,
    /// The latest evictions, the newest last.
    pub left: Vec<Eviction>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotMap {
    pub slot: SlotId,
    /// Whether it is a prefix slot.
    pub prefix: bool,
    /// `None` for an anonymous turn, and for cells without an owner.
    pub conversation: Option<ConversationId>,
    pub state: SlotState,
    /// Tokens of the slot's timeline, of which some may be away.
    pub tokens: usize,
    /// Tokens of the running turn's prompt; while `tokens` is less, the prompt is being restored or
    /// computed.
    pub prompt_tokens: Option<usize>,
    /// In order and without gaps.
    pub blocks: Vec<BlockMap>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockMap {
    pub id: BlockId,
    /// The block's tokens in the timeline.
    pub range: Range<usize>,
    /// The prompt layer, where known.
    pub layer: Option<Layer>,
    /// The name of that part of the prompt.
    pub key: Option<String>,
    pub origin: Origin,
    /// The block has no cells now: it is in memory or on disk.
    pub is_away: bool,
    /// The number of other slots that have cells of the same block.
    pub sharers: usize,
}

/// Tokens that left a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    pub at: Timestamp,
    /// The owner, if there was one.
    pub conversation: Option<ConversationId>,
    pub tokens: usize,
    /// The tier that still holds most of them.
    pub to: Tier,
    pub why: EvictionReason,
}

/// Why tokens left a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionReason {
    /// Another conversation needed the slot.
    Slot,
    /// Other turns needed the cells.
    Room,
    /// A long prompt is computed faster without its cells.
    Beside,
    /// The conversation was idle for too long.
    Idle,
    /// The next prompt differed from there on.
    Differs,
    /// The conversation has more tokens than its budget has cells.
    Budget,
    Deleted,
    /// The weights were unloaded, and with them all cells.
    Unloaded,
    /// A micro-batch or a restore failed: the cells cannot be trusted. Or a block between them was lost.
    Failed,
}

impl EvictionReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slot => "slot",
            Self::Room => "room",
            Self::Beside => "beside",
            Self::Idle => "idle",
            Self::Differs => "differs",
            Self::Budget => "budget",
            Self::Deleted => "deleted",
            Self::Unloaded => "unloaded",
            Self::Failed => "failed",
        }
    }
}

/// A copy of the engine's state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    pub used_tokens: usize,
    pub slots: Vec<SlotReading>,
    pub left: Vec<Eviction>,
}

#[derive(Clone, Debug)]
pub(crate) struct SlotReading {
    pub slot: SlotId,
    pub prefix: bool,
    pub conversation: Option<ConversationId>,
    pub state: SlotState,
    pub prompt_tokens: Option<usize>,
    pub blocks: Vec<Block>,
    /// Positions without cells.
    pub away: Vec<Range<usize>>,
    pub origins: Origins,
    pub segments: Vec<SegmentRef>,
}

impl CacheMap {
    pub(crate) fn of(reading: Reading) -> Self {
        let mut holders: HashMap<BlockId, usize> = HashMap::new();
        for slot in &reading.slots {
            let resident =
                |block: &&Block| !slot.away.iter().any(|it| it.contains(&block.range.start));
            for block in slot.blocks.iter().filter(resident) {
                *holders.entry(block.id).or_default() += 1;
            }
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
            let is_away = self.away.iter().any(|away| away.contains(&range.start));
            let holders = holders.get(&block.id).copied().unwrap_or(0);
            let ended = |segment: &SegmentRef| segment.end as usize <= range.start;
            first += self.segments[first..].iter().take_while(|segment| ended(segment)).count();
            let (layer, key) = part_of(&self.segments[first..], &range)
                .or_else(|| (!self.segments.is_empty()).then_some((Layer::Assistant, ANSWER)))
                .unzip();
            BlockMap {
                id: block.id,
                layer,
                key: key.map(str::to_owned),
                origin: self.origins.majority(&range),
                is_away,
                sharers: holders - usize::from(!is_away),
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

/// The key of the tokens after a prompt's segments.
const ANSWER: &str = "answer";

/// The segment that holds most of `range`, of those that end after its start; `None` when most of
/// it follows the last one. The later one on a tie.
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
