//! Prompts in flight that begin alike are computed once.
//!
//! - The first of them in the order of prompts, the *leader*, computes. The others take its cells
//!   as they land, and compute what is their own.
//! - Nothing binds a follower to its leader: both are looked up anew for each micro-batch. A leader
//!   that is cancelled leaves its cells to the followers, and one of them goes on.
//! - Cells are shared of what is whole, between equal adapters, and never with a cold turn. A running
//!   state is shared as it is now, so a leader stops where a follower's prompt parts from its own.
//! - A window is copied, because llama.cpp reuses a cell of one only when a single sequence has it. A
//!   copy costs time, so a follower takes it once: where its prompt parts from its leader's.

use std::ops::Range;

use hob_slots::{Token, common_prefix};
use tracing::warn;

use super::Worker;
use crate::backend::{MemoryKind, StateError};

impl Worker<'_> {
    /// Shares the cells that were computed with the prompts that need them.
    pub(super) fn share_landed(&mut self) {
        for index in self.prompts_in_order() {
            if !self.catch_up(index) {
                continue;
            }
            let turn = self.slots[index].turn.as_ref();
            if turn
                .is_some_and(|turn| turn.request.prompt.len() == self.slots[index].timeline.len())
            {
                self.finish_prefill(index);
            } else {
                self.report_progress(index);
            }
        }
    }

    /// Shares with the slot's prompt the cells that another slot has of it by now. Returns whether
    /// there were any.
    pub(super) fn catch_up(&mut self, index: usize) -> bool {
        let Some((other, shared)) = self.ahead_of(index) else { return false };
        let turn = self.slots[index].turn.as_ref().expect("it has a prompt");
        let tokens = turn.request.prompt[shared.clone()].to_vec();
        let end = shared.end;
        let window = match self.window_of(other) {
            Ok(window) => window,
            Err(error) => {
                warn!(%error, "a prompt that begins like another is computed");
                return false;
            }
        };
        self.share(other, index, shared, &tokens);
        if let Some(window) = window
            && let Err(error) = self.rewind(index, &window, end)
        {
            warn!(%error, "a prompt that begins like another is computed from its first token");
            self.start_over(index);
            return false;
        }
        let turn = self.slots[index].turn.as_mut().expect("it has a prompt");
        if !turn.started {
            turn.report.tokens.shared += tokens.len();
        }
        true
    }

    /// The slot's window, where another sequence needs one of its own.
    fn window_of(&mut self, slot: usize) -> Result<Option<Vec<u8>>, StateError> {
        let is_windowed = self.core.model.facts().memory == MemoryKind::Windowed;
        is_windowed.then(|| self.backend.export_rest(self.slots[slot].sequence)).transpose()
    }

    /// Another slot that holds more of the slot's prompt, and the reusable range behind its end.
    fn ahead_of(&self, index: usize) -> Option<(usize, Range<usize>)> {
        let slot = &self.slots[index];
        let turn = slot.turn.as_ref().filter(|turn| !turn.is_cold())?;
        let (own, limit) = (slot.timeline.len(), turn.reusable_tokens());
        if own >= limit || !slot.is_whole() {
            return None;
        }
        let prompt = &turn.request.prompt;
        let (other, end) = match self.core.model.facts().memory {
            MemoryKind::Plain => {
                let (other, length) = self.hot.longest_prefix(slot.root(), prompt, slot.id)?;
                let end = length.min(limit).min(own + self.room_of_budget(index));
                (other.0 as usize, end)
            }
            MemoryKind::Windowed if !self.backend.has_ranges() => return None,
            MemoryKind::Windowed | MemoryKind::Hybrid | MemoryKind::Recurrent => {
                self.furthest_within(index, &prompt[..limit])?
            }
        };
        (end > own && !self.follows(index, other)).then_some((other, own..end))
    }

    /// The other slot whose whole timeline is the longest beginning of `tokens`, and its length.
    fn furthest_within(&self, index: usize, tokens: &[Token]) -> Option<(usize, usize)> {
        let begins = |other: &usize| {
            let slot = &self.slots[*other];
            *other != index
                && slot.root() == self.slots[index].root()
                && slot.is_whole()
                && !slot.is_restoring()
                && tokens.starts_with(slot.timeline.tokens())
        };
        let lengths = (0..self.slots.len()).filter(begins);
        let lengths = lengths.map(|other| (other, self.slots[other].timeline.len()));
        lengths.max_by_key(|&(_, length)| length)
    }

    /// Rows of the slot's prompt until the first follower's prompt parts from it, where a running state
    /// or a window is needed as it is there.
    pub(super) fn rows_before_parting(&self, index: usize) -> usize {
        if self.is_plain() {
            return usize::MAX;
        }
        let prompt = |slot: usize| Some(&self.slots[slot].turn.as_ref()?.request.prompt[..]);
        let Some(own) = prompt(index) else { return usize::MAX };
        let end = self.slots[index].timeline.len();
        let followers = self.prompts_in_order().into_iter().filter(|&other| other != index);
        let followers = followers.filter(|&other| self.follows(other, index));
        let parts_at = |other: usize| {
            let turn = self.slots[other].turn.as_ref()?;
            Some(common_prefix(own, &turn.request.prompt).min(turn.reusable_tokens()))
        };
        followers.filter_map(parts_at).min().map_or(usize::MAX, |at| at - end)
    }

    /// Whether the slot's prompt is that of `leader` up to the token that `leader` computes next, and
    /// that token too, so that its cell can be shared.
    pub(super) fn follows(&self, index: usize, leader: usize) -> bool {
        let memory = self.core.model.facts().memory;
        let [own, end] = [index, leader].map(|slot| self.slots[slot].timeline.len());
        // A window is copied once, so its follower lags behind.
        let is_in_step = own == end || (memory == MemoryKind::Windowed && own < end);
        let beginning = |slot: usize| -> Option<&[Token]> {
            self.slots[slot].turn.as_ref()?.request.prompt.get(..=end)
        };
        let turn = self.slots[index].turn.as_ref();
        let may_share = turn.is_some_and(|turn| !turn.is_cold() && end < turn.reusable_tokens());
        is_in_step
            && may_share
            && (memory != MemoryKind::Windowed || self.backend.has_ranges())
            && self.slots[leader].root() == self.slots[index].root()
            && self.slots[leader].is_whole()
            && self.slots[index].is_whole()
            && beginning(index) == beginning(leader)
    }
}
