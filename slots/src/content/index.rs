//! The records whose blocks can be found by their first tokens.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::rolling::Rolling;
use super::{Chunk, ChunkQuery, WINDOW};
use crate::format::SlotRecord;
use crate::lineage::first_lossy;
use crate::{BLOCK_TOKENS, BlockId, ConversationId, Token};

/// Tokens of all sources: four bytes each, and about one for the index.
const MAX_TOKENS: usize = 4 << 20;

/// Sources of one conversation: its timeline, and those that it had before.
const MAX_OF_CONVERSATION: usize = 4;

/// Places with the same first tokens that are compared with a prompt: the newest ones.
const MAX_PLACES: usize = 8;

/// A record of a conversation.
#[derive(Clone, Debug)]
pub struct Source {
    pub record: Arc<SlotRecord>,
    /// Only the conversation itself may use it.
    pub is_private: bool,
}

/// Finds the KV of tokens in known records.
#[derive(Debug, Default)]
pub struct ContentIndex {
    sources: HashMap<u64, Source>,
    /// Their numbers, the oldest first.
    order: VecDeque<u64>,
    /// Where blocks begin, by the hash of their first tokens, the newest last.
    places: HashMap<u64, Vec<Place>>,
    added: u64,
    tokens: usize,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    source: u64,
    at: usize,
}

impl Source {
    /// The tokens in saved blocks.
    fn saved(&self) -> &[Token] {
        let saved = self.record.blocks.last().map_or(0, |last| last.end as usize);
        &self.record.tokens[..saved]
    }

    /// Tokens of the source in saved blocks that attended to everything before them.
    fn pure(&self) -> &[Token] {
        let views = &self.record.lineage.views;
        let impure = views.iter().position(|run| !run.view.is_whole());
        let before = |at: usize| at.checked_sub(1).map_or(0, |at| views[at].end);
        let saved = self.saved();
        &saved[..impure.map_or(saved.len(), |at| before(at) as usize).min(saved.len())]
    }

    /// The tokens that a prompt may use. None that are rounded: the view of a moved block would hide that.
    fn usable(&self, query: &ChunkQuery<'_>) -> &[Token] {
        let is_own = query.conversation.is_some_and(|own| self.is_of(own));
        if !(is_own && query.own_impure) {
            return self.pure();
        }
        let saved = self.saved();
        let exact = first_lossy(&self.record.lineage.views).unwrap_or(saved.len());
        &saved[..exact.min(saved.len())]
    }

    /// Where blocks begin with a window of saved tokens.
    fn starts(&self) -> impl Iterator<Item = usize> {
        let saved = self.saved().len();
        let ends = self.record.blocks.iter().map(|block| block.end as usize);
        std::iter::once(0).chain(ends).take_while(move |start| start + WINDOW <= saved)
    }

    /// How many of the `len` tokens from `at` on are taken: those up to the last turn that ends among them, if
    /// fewer than a window follow it; otherwise all. A block of fewer than [`BLOCK_TOKENS`] tokens ends with a
    /// turn.
    fn up_to_turn(&self, at: usize, len: usize) -> usize {
        let blocks = &self.record.blocks;
        let ends = |block: usize| blocks[block].end as usize;
        let begins = |block: usize| block.checked_sub(1).map_or(0, ends);
        let end = at + len;
        let within = blocks.partition_point(|block| block.end as usize <= end);
        let mut near = (0..within).rev().take_while(|&block| end < ends(block) + WINDOW);
        let turn = near.find(|&block| ends(block) - begins(block) < BLOCK_TOKENS);
        turn.map(ends).filter(|turn| *turn > at).map_or(len, |turn| turn - at)
    }

    fn is_of(&self, conversation: &ConversationId) -> bool {
        self.record.conversation == *conversation
    }
}

impl ContentIndex {
    /// Tokens of all sources.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Whether this very record was added, and is still here.
    pub fn has(&self, record: &Arc<SlotRecord>) -> bool {
        self.sources.values().any(|source| Arc::ptr_eq(&source.record, record))
    }

    /// Adds a record. Earlier ones of its conversation stay, for text that it has left, unless the new one
    /// begins with their tokens, and attended to as much.
    pub fn add(&mut self, source: Source) {
        let conversation = source.record.conversation.clone();
        let of_conversation = |known: &&u64| self.sources[*known].is_of(&conversation);
        let mut known: Vec<u64> = self.order.iter().filter(of_conversation).copied().collect();
        let is_same = |known: &Source| known.is_private == source.is_private;
        let is_covered = |known: &Source| {
            !is_same(known)
                || (known.record.adapters == source.record.adapters
                    && source.pure().starts_with(known.pure())
                    && source.saved().starts_with(known.saved()))
        };
        let covered = known.extract_if(.., |number| is_covered(&self.sources[number]));
        let covered: Vec<u64> = covered.collect();
        let surplus = (known.len() + 1).saturating_sub(MAX_OF_CONVERSATION);
        covered.into_iter().chain(known.drain(..surplus)).for_each(|number| self.remove(number));
        if source.starts().next().is_none() {
            return;
        }
        self.added += 1;
        let number = self.added;
        let saved = source.saved();
        for at in source.starts() {
            let hash = Rolling::of(&saved[at..at + WINDOW]).hash();
            self.places.entry(hash).or_default().push(Place { source: number, at });
        }
        self.tokens += source.record.tokens.len();
        self.sources.insert(number, source);
        self.order.push_back(number);
        while self.tokens > MAX_TOKENS && self.order.len() > 1 {
            self.remove(self.order[0]);
        }
    }

    /// Drops all records of a conversation.
    pub fn forget(&mut self, conversation: &ConversationId) {
        let of_conversation = |known: &&u64| self.sources[*known].is_of(conversation);
        let known: Vec<u64> = self.order.iter().filter(of_conversation).copied().collect();
        known.into_iter().for_each(|number| self.remove(number));
    }

    /// Drops the records that name a block, which was not found.
    pub fn drop_records_with(&mut self, block: &BlockId) {
        let names = |known: &&u64| {
            self.sources[*known].record.blocks.iter().any(|named| named.id == *block)
        };
        let known: Vec<u64> = self.order.iter().filter(names).copied().collect();
        known.into_iter().for_each(|number| self.remove(number));
    }

    fn remove(&mut self, number: u64) {
        let Some(source) = self.sources.remove(&number) else { return };
        self.order.retain(|&known| known != number);
        self.tokens -= source.record.tokens.len();
        for at in source.starts() {
            let hash = Rolling::of(&source.saved()[at..at + WINDOW]).hash();
            if let Some(places) = self.places.get_mut(&hash) {
                places.retain(|place| place.source != number);
                if places.is_empty() {
                    self.places.remove(&hash);
                }
            }
        }
    }

    /// Chunks of the prompt that records have, in order, disjoint.
    pub fn find(&self, query: ChunkQuery<'_>) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        for part in query.within {
            self.find_within(query, part.clone(), &mut chunks);
        }
        chunks
    }

    fn find_within(&self, query: ChunkQuery<'_>, part: Range<usize>, chunks: &mut Vec<Chunk>) {
        let prompt = query.prompt;
        let mut from = part.start;
        while from + WINDOW <= part.end {
            let mut rolling = Rolling::of(&prompt[from..from + WINDOW]);
            let mut at = from;
            let found = loop {
                let free = from..part.end;
                if let Some(chunk) = self.longest_at(query, at, free, rolling.hash()) {
                    break Some(chunk);
                }
                if at + WINDOW == part.end {
                    break None;
                }
                rolling.slide(prompt[at], prompt[at + WINDOW]);
                at += 1;
            };
            let Some(chunk) = found else { return };
            from = chunk.at.end;
            chunks.push(chunk);
        }
    }

    /// The longest chunk within `free` with a block that begins at `at`, if it is long enough.
    fn longest_at(
        &self,
        query: ChunkQuery<'_>,
        at: usize,
        free: Range<usize>,
        hash: u64,
    ) -> Option<Chunk> {
        let places = self.places.get(&hash)?.iter().rev();
        let usable = places.filter(|place| self.may_use(query, place));
        let chunks = usable.take(MAX_PLACES).map(|place| {
            let source = &self.sources[&place.source];
            let usable = source.usable(&query);
            let same = |(one, other): &(&Token, &Token)| one == other;
            let behind = usable[place.at..].iter().zip(&query.prompt[at..free.end]);
            let equal = behind.take_while(same).count();
            let in_front =
                usable[..place.at].iter().rev().zip(query.prompt[free.start..at].iter().rev());
            let before = if equal < WINDOW { 0 } else { in_front.take_while(same).count() };
            let goes_on = place.at + equal < usable.len() && at + equal < free.end;
            let after = if query.whole_turns && goes_on {
                source.up_to_turn(place.at, equal)
            } else {
                equal
            };
            let source = source.record.clone();
            Chunk { at: at - before..at + after, source, from: place.at - before }
        });
        // Before the ranking, which reads the source from its beginning: a prompt may have many that are too short.
        let chunks = chunks.filter(|chunk| chunk.at.len() >= query.least.max(WINDOW));
        // Of equals the one behind most of what begins the prompt, such as its instructions: its tokens attended to
        // that. Of these the first, which is the newest.
        let ranked = chunks.map(|chunk| ((chunk.at.len(), chunk.seen_of(query.prompt)), chunk));
        let best = ranked.reduce(|best, it| if it.0 > best.0 { it } else { best });
        best.map(|(_, chunk)| chunk)
    }

    fn may_use(&self, query: ChunkQuery<'_>, place: &Place) -> bool {
        let source = &self.sources[&place.source];
        let is_own = query.conversation.is_some_and(|own| source.is_of(own));
        let is_allowed = is_own || (query.others && !source.is_private);
        let has_window = place.at + WINDOW <= source.usable(&query).len();
        source.record.adapters == *query.adapters && is_allowed && has_window
    }
}
