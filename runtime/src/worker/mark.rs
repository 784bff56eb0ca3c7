//! The *mark*: a running state as it was before a micro-batch, for memories that cannot drop their
//! newest rows.
//!
//! - A sequence of its own shares the state. llama.cpp copies on write, so a mark copies nothing.
//! - One slot of a micro-batch is marked: the first that completes its prompt, because "regenerate"
//!   continues there; the answer with a draft, because it may be wrong; or what is computed alone, where
//!   its micro-batch may be cut.

use super::Worker;
use super::plan::{Plan, Share};

impl Worker<'_> {
    /// The micro-batch of `plan` is computed next.
    pub(super) fn mark_state(&mut self, plan: &Plan) {
        if self.core.model.facts().memory.can_drop_newest() {
            return;
        }
        let completes = |share: &&Share| {
            let slot = &self.slots[share.slot];
            slot.is_prefilling()
                && !share.sampled_rows.is_empty()
                && slot.turn.as_ref().is_some_and(|turn| !turn.started)
                && !self.is_background(share.slot)
                && slot.is_savable()
        };
        // There are no drafts beside prompts.
        let is_drafted = |share: &&Share| share.sampled_rows.len() > 1;
        let may_be_cut = plan.is_alone && self.backend.can_interrupt();
        let is_marked = |share: &&Share| may_be_cut || is_drafted(share) || completes(share);
        let marked = plan.shares.iter().find(is_marked);
        let Some(index) = marked.map(|share| share.slot) else { return };
        let (slot, position) = (&self.slots[index], self.slots[index].timeline.len());
        if position > 0 {
            self.backend.share(slot.sequence, self.mark(), 0..position);
        }
        self.marked = Some((index, position));
    }

    /// The micro-batch has ended: nothing is marked any more.
    pub(super) fn drop_mark(&mut self) {
        if self.marked.take().is_some() {
            self.backend.clear(self.mark());
        }
    }

    /// Gives the slot the state and the cells that it had before the micro-batch. Returns whether it
    /// was marked.
    pub(super) fn go_back_to_mark(&mut self, index: usize) -> bool {
        let marked = self.marked.filter(|(slot, _)| *slot == index);
        let Some((_, position)) = marked else { return false };
        let (sequence, mark) = (self.slots[index].sequence, self.mark());
        self.backend.clear(sequence);
        if position > 0 {
            self.backend.share(mark, sequence, 0..position);
        }
        if position < self.slots[index].timeline.len() {
            self.drop_tokens_behind(index, position);
        }
        true
    }
}
