//! The draft model's cells of a slot, and every change of them.

use std::ops::Range;

use hob_slots::{BLOCK_TOKENS, ModelHash, Timeline, Token, common_prefix};

use super::keep::Restoring;
use super::{Drafter, Followed, Owner};
use crate::backend::Sequence;

pub(super) struct Track {
    pub sequence: Sequence,
    /// Exactly what the cells hold: a part of the slot's timeline, and perhaps guesses behind it.
    pub timeline: Timeline,
    /// Where the slot's timeline ended when it was last followed: guesses are behind it.
    pub guessed_from: usize,
    pub owner: Option<Owner>,
    /// Tokens before this are in the tiers too; a block's end.
    pub exported: usize,
    /// The record does not cover what was computed since.
    pub is_stale: bool,
    pub restoring: Option<Restoring>,
    /// There are no guesses for this turn any more.
    pub has_given_up: bool,
    /// The last use of the sequence, in the order of uses.
    pub used: u64,
    /// The last turn that it was used for.
    pub turn: u64,
}

impl Track {
    pub fn new(slot: usize, fingerprint: ModelHash) -> Self {
        Self {
            sequence: Sequence(i32::try_from(slot).expect("slots are few")),
            timeline: Timeline::new(fingerprint),
            guessed_from: 0,
            owner: None,
            exported: 0,
            is_stale: false,
            restoring: None,
            has_given_up: false,
            used: 0,
            turn: 0,
        }
    }

    /// What another owner's cells were computed for is not this one's to save, unless it uses them.
    pub fn set_owner(&mut self, owner: Option<Owner>) {
        if self.owner != owner {
            self.owner = owner;
            self.exported = 0;
            self.is_stale = !self.timeline.is_empty();
        }
    }

    /// Appends tokens whose cells were computed.
    pub fn push(&mut self, tokens: &[Token], is_border: impl Fn(Token) -> bool) {
        self.timeline.push(tokens, is_border);
        self.is_stale = true;
    }

    fn truncate(&mut self, len: usize) {
        self.timeline.truncate(len);
        let whole = self.timeline.whole_blocks();
        let exported = whole.partition_point(|block| block.range.end <= self.exported);
        self.exported = exported.checked_sub(1).map_or(0, |last| whole[last].range.end);
    }
}

impl Drafter<'_> {
    /// Whether this is the first use of the slot for `turn`.
    pub(super) fn begins(&mut self, slot: usize, turn: u64) -> bool {
        let begins = self.tracks[slot].turn != turn;
        if begins {
            self.end_restore(slot);
            self.tracks[slot].turn = turn;
            self.tracks[slot].has_given_up = false;
        }
        begins
    }

    /// Drops the cells behind the first `len` tokens.
    pub(super) fn cut_back(&mut self, slot: usize, len: usize) {
        let track = &mut self.tracks[slot];
        let end = track.timeline.len();
        if len == 0 {
            self.clear(slot);
        } else if len < end {
            let dropped = self.backend.remove(track.sequence, len..end);
            dropped.expect("a draft model's memory can drop single tokens");
            track.truncate(len);
        }
    }

    /// The conversation leaves the slot: drops its cells, and what is still restored of it.
    pub fn vacate(&mut self, slot: usize) {
        self.end_restore(slot);
        self.clear(slot);
    }

    /// Drops all cells of the slot.
    pub(super) fn clear(&mut self, slot: usize) {
        let track = &mut self.tracks[slot];
        self.backend.clear(track.sequence);
        track.truncate(0);
        track.is_stale = false;
    }

    /// Shares the cells of another slot that hold more of the timeline's beginning, a block at least.
    pub(super) fn share(&mut self, text: &Followed<'_>) {
        let held = self.tracks[text.slot].timeline.len();
        let others = self.tracks.iter().filter(|track| track.sequence.0 as usize != text.slot);
        let common = |track: &Track| common_prefix(track.timeline.tokens(), text.timeline);
        let best = others.map(|track| (common(track), track.sequence)).max_by_key(|best| best.0);
        let Some((end, from)) = best.filter(|(end, _)| *end >= held + BLOCK_TOKENS) else { return };
        let range: Range<usize> = held..end;
        self.backend.share(from, self.tracks[text.slot].sequence, range.clone());
        let vocabulary = self.core.model.model().vocabulary();
        self.tracks[text.slot].push(&text.timeline[range], |token| vocabulary.is_eog(token));
    }

    /// Drops the cells of the slot that was used the longest ago, other than the `spared` ones; they are
    /// saved first. Returns whether there was one.
    pub(super) fn evict(&mut self, spared: &[usize]) -> bool {
        let others = (0..self.tracks.len())
            .filter(|slot| !spared.contains(slot) && !self.tracks[*slot].timeline.is_empty());
        let Some(slot) = others.min_by_key(|&slot| self.tracks[slot].used) else { return false };
        self.save(slot);
        self.clear(slot);
        true
    }
}
