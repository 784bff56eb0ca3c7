//! Drafts of running answers: guessed, computed with the token before them, and accepted or dropped.
//!
//! - Timelines grow by accepted tokens only, one after the other; the cells of the others are dropped
//!   before anything else reads the slot.
//! - Drafts never make others wait: there are none beside prompts, and none that need room.

use hob_slots::Token;

use super::Worker;
use super::plan::{Next, Share};
use super::slot::{Phase, Running};
use crate::draft::{Draft, MAX_ROWS, lengths};
use crate::map::{Origin, Origins};

impl Worker<'_> {
    /// The next tokens of all running answers, and how many of them are computed now.
    pub(super) fn next_tokens(&mut self) -> Vec<Next> {
        let may_draft =
            self.core.options.drafts && self.core.model.facts().memory.can_drop_newest();
        let all = 0..self.slots.len();
        let decoding = all.filter_map(|index| match self.slots[index].turn.as_ref()?.phase {
            Phase::Decoding(sampled) => Some((index, sampled)),
            Phase::Restoring(_) | Phase::Prefill => None,
        });
        let decoding: Vec<(usize, Token)> = decoding.collect();
        let next = |(slot, sampled)| {
            let draft = if may_draft { self.guess(slot, sampled) } else { Draft::default() };
            Next { slot, sampled, draft, drafted: 0 }
        };
        let mut nexts: Vec<Next> = decoding.into_iter().map(next).collect();
        let has_draft = nexts.iter().any(|next| !next.draft.tokens.is_empty());
        if has_draft && !self.prompts_in_order().iter().any(|&index| self.row_budget(index) > 0) {
            let chances: Vec<Vec<f64>> = nexts.iter().map(|next| self.chances(next)).collect();
            for (next, drafted) in nexts.iter_mut().zip(lengths(&chances, self.cost_of_rows())) {
                next.drafted = drafted;
            }
        }
        nexts
    }

    /// What may follow `sampled` in the slot's answer, up to the answer's end.
    fn guess(&mut self, index: usize, sampled: Token) -> Draft {
        let max_tokens = self.core.options.conversation_tokens(self.core.model.facts());
        let slot = &mut self.slots[index];
        let turn = slot.turn.as_ref().expect("it answers");
        // The micro-batch samples one token more than it drafts.
        let left = turn.request.max_tokens.saturating_sub(turn.generated + 1);
        let room = max_tokens.saturating_sub(slot.timeline.len() + 2);
        slot.lookup.cover(slot.timeline.tokens());
        let max = (MAX_ROWS - 1).min(left).min(room);
        let mut draft = slot.lookup.propose(slot.timeline.tokens(), sampled, max);
        let vocabulary = self.core.model.vocabulary();
        if !turn.request.ignore_eog
            && let Some(end) = draft.tokens.iter().position(|&token| vocabulary.is_eog(token))
        {
            draft.tokens.truncate(end);
        }
        draft
    }

    fn chances(&self, next: &Next) -> Vec<f64> {
        let turn = self.slots[next.slot].turn.as_ref().expect("it answers");
        turn.acceptance.chances(next.draft.matched, next.draft.tokens.len())
    }

    /// The time of a micro-batch of so many rows; `None` for more than there may be.
    fn cost_of_rows(&self) -> impl Fn(usize) -> Option<f64> {
        let options = &self.core.options;
        let tails = self.slots.iter().map(|slot| slot.tail.len()).sum::<usize>();
        let free = options.context_tokens.saturating_sub(self.used_tokens() + tails);
        let limit = options.max_rows().min(free);
        let prompt_row = self.core.pace.rows_per_second().map(f64::recip);
        move |rows| (rows <= limit).then(|| self.core.costs.seconds(rows, prompt_row)).flatten()
    }

    /// The share's rows are in the cache: samples from each, while what it sampled is the next row's
    /// token.
    pub(super) fn commit_answer(&mut self, share: &Share) {
        let index = share.slot;
        let start = self.slots[index].timeline.len();
        let sequence = self.slots[index].sequence;
        for (offset, row) in share.sampled_rows.clone().enumerate() {
            let computed = share.tokens[offset];
            self.extend(index, &[computed], &Origins::of(1, Origin::Generated));
            let sampled = self.sample(index, row);
            let token = sampled.as_ref().ok().map(|sampled| sampled.token);
            let goes_on = sampled.as_ref().is_ok_and(|sampled| sampled.ends.is_none());
            let is_guessed = self.observe(share, offset, token);
            if goes_on && is_guessed && offset + 1 < share.tokens.len() {
                continue;
            }
            let (end, computed_end) = (start + offset + 1, start + share.tokens.len());
            if end < computed_end {
                let dropped = self.backend.remove(sequence, end..computed_end);
                dropped.expect("only memories that can drop the newest rows have drafts");
            }
            return self.conclude(index, sampled);
        }
    }

    /// Compares the token behind `offset` with its guess. Returns whether they are equal.
    fn observe(&mut self, share: &Share, offset: usize, token: Option<Token>) -> bool {
        let Running { acceptance, drafts, .. } =
            self.slots[share.slot].turn.as_mut().expect("it answers");
        if offset == 0 {
            drafts.drafted += share.tokens.len() - 1;
            self.core.counters.drafted_tokens += share.tokens.len() as u64 - 1;
        }
        let (Some(&guess), Some(token)) = (share.draft.tokens.get(offset), token) else {
            return false;
        };
        let is_right = guess == token;
        acceptance.observe(share.draft.matched + offset, is_right);
        if is_right && offset + 1 < share.tokens.len() {
            drafts.accepted += 1;
            self.core.counters.accepted_tokens += 1;
        }
        is_right
    }
}
