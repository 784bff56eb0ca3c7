//! Drafts of running answers: guessed, computed with the token before them, and accepted or dropped.
//!
//! - Timelines grow by accepted tokens only, one after the other; the cells of the others are dropped
//!   before anything else reads the slot.
//! - A running state cannot drop them: it goes back to its mark, and the accepted tokens are computed
//!   again in front of the next draft.
//! - Drafts never make others wait: there are none beside prompts, and none that need room.
//! - A long copy may fill a tile of attention, whose rows take less time than a few do; see `tile`.
//! - A turn that asks for none has none; those beside it have theirs.

use hob_slots::Token;

use super::Worker;
use super::plan::{Next, Share};
use super::running::Phase;
use crate::backend::tile::TILE_ROWS;
use crate::draft::{Draft, MAX_ROWS, Source, lengths};
use crate::map::Origin;

impl Worker<'_> {
    /// The next tokens of all running answers, and how many of them are computed now.
    pub(super) fn next_tokens(&mut self) -> Vec<Next> {
        let all = 0..self.slots.len();
        let current =
            all.filter(|&index| self.is_current(index) && !self.slots[index].is_stalled());
        let decoding = current.filter_map(|index| match &self.slots[index].turn.as_ref()?.phase {
            Phase::Decoding(sampled) => Some((index, sampled.clone())),
            Phase::Restoring(_) | Phase::Prefill => None,
        });
        let decoding: Vec<(usize, Vec<Token>)> = decoding.collect();
        let can_drop = self.core.model.facts().memory.can_drop_newest();
        // One answer is marked, and rows of a running state are computed in as many parts as the
        // longest share is longer than the others.
        let may_draft = self.core.options.drafts && (can_drop || decoding.len() == 1);
        let next = |(slot, sampled): (usize, Vec<Token>)| {
            let draft = if may_draft { self.guess(slot, &sampled) } else { Draft::default() };
            Next { slot, sampled, draft, drafted: 0 }
        };
        let mut nexts: Vec<Next> = decoding.into_iter().map(next).collect();
        if !may_draft || nexts.is_empty() || self.prompts_wait() {
            return nexts;
        }
        self.guess_by_model(&mut nexts);
        self.guess_by_mtp(&mut nexts);
        if nexts.iter().any(|next| !next.draft.tokens.is_empty()) {
            let chances: Vec<Vec<f64>> = nexts.iter().map(|next| self.chances(next)).collect();
            let rows = self.cost_of_rows();
            let sampled: usize = nexts.iter().map(|next| next.sampled.len()).sum();
            let seconds = |lengths: &[usize]| {
                let drafted = lengths.iter().sum::<usize>();
                let seconds = rows(sampled + drafted)?;
                if can_drop || drafted == 0 {
                    return Some(seconds);
                }
                // A draft that is wrong somewhere is computed again as far as it was right.
                let is_wrong = 1.0 - chances[0][drafted - 1];
                Some(seconds + is_wrong * (rows(1 + drafted)? - rows(1)?).max(0.0))
            };
            let lengths = lengths(&chances, seconds);
            for (next, drafted) in nexts.iter_mut().zip(lengths) {
                next.drafted = drafted;
            }
        }
        nexts
    }

    /// How many tokens a draft of the slot's answer may have in a micro-batch of `rows`.
    pub(super) fn max_draft(&self, index: usize, rows: usize) -> usize {
        let max_tokens = self.core.options.conversation_tokens(self.core.model.facts());
        let slot = &self.slots[index];
        let turn = slot.turn.as_ref().expect("it answers");
        if !turn.request.drafts {
            return 0;
        }
        let sampled = turn.uncomputed().len();
        // The micro-batch samples one token more than it drafts.
        let left = turn.request.max_tokens.saturating_sub(turn.generated + 1);
        let room = max_tokens.saturating_sub(slot.timeline.len() + sampled + 1);
        let cells = self.budget(index).saturating_sub(slot.cells.len() + sampled);
        rows.saturating_sub(sampled).min(left).min(room).min(cells)
    }

    /// What may follow `sampled` in the slot's answer, up to the answer's end.
    fn guess(&mut self, index: usize, sampled: &[Token]) -> Draft {
        let has_tile = self.core.model.facts().attention_tile.is_some();
        let max = self.max_draft(index, if has_tile { TILE_ROWS } else { MAX_ROWS });
        if max == 0 {
            return Draft::default();
        }
        let slot = &mut self.slots[index];
        let turn = slot.turn.as_ref().expect("it answers");
        let Some((&newest, before)) = sampled.split_last() else { return Draft::default() };
        slot.lookup.cover(slot.timeline.tokens());
        let mut draft = if before.is_empty() {
            slot.lookup.propose(slot.timeline.tokens(), newest, max)
        } else {
            let tokens = [slot.timeline.tokens(), before].concat();
            slot.lookup.cover(&tokens);
            let draft = slot.lookup.propose(&tokens, newest, max);
            slot.lookup.truncate(&tokens, slot.timeline.len());
            draft
        };
        let vocabulary = self.core.model.vocabulary();
        if let Some(end) = draft.tokens.iter().position(|&token| turn.ends_at(token, vocabulary)) {
            draft.tokens.truncate(end);
        }
        draft
    }

    pub(super) fn chances(&self, next: &Next) -> Vec<f64> {
        let turn = self.slots[next.slot].turn.as_ref().expect("it answers");
        match (&next.draft.source, self.guesser()) {
            (Source::Lookup { matched }, _) => {
                turn.acceptance.chances(*matched, next.draft.tokens.len())
            }
            (Source::Model { probabilities } | Source::Mtp { probabilities }, Some(guesser)) => {
                guesser.confidence.chances(probabilities)
            }
            (Source::Model { .. } | Source::Mtp { .. }, None) => Vec::new(),
        }
    }

    /// The time of a micro-batch of this many rows; `None` for more than there may be.
    pub(super) fn cost_of_rows(&self) -> impl Fn(usize) -> Option<f64> {
        let options = &self.core.options;
        let tails = self.slots.iter().map(|slot| slot.pending_tail().len()).sum::<usize>();
        let free = options.context_tokens.saturating_sub(self.used_tokens() + tails);
        let limit = options.max_rows().min(free);
        let prompt_row = self.core.pace.rows_per_second().map(f64::recip);
        let tile = self.cost_of_tile();
        move |rows| match rows {
            _ if rows > limit => None,
            TILE_ROWS => tile,
            _ => self.core.costs.seconds(rows, prompt_row),
        }
    }

    /// The share's rows are in the cache: samples from each, while what it sampled is the next row's
    /// token.
    pub(super) fn commit_answer(&mut self, share: &Share) {
        let index = share.slot;
        let before = share.tokens.len() - share.sampled_rows.len();
        if before > 0 {
            self.extend(index, &share.tokens[..before], Origin::Generated);
        }
        for (offset, row) in share.sampled_rows.clone().enumerate() {
            let computed = share.tokens[before + offset];
            self.extend(index, &[computed], Origin::Generated);
            let sampled = self.sample(index, row);
            let token = sampled.as_ref().ok().map(|sampled| sampled.token);
            let goes_on = sampled.as_ref().is_ok_and(|sampled| sampled.ends.is_none());
            let is_guessed = self.observe(share, offset, token);
            let right = before + offset + 1;
            if goes_on && is_guessed && right < share.tokens.len() {
                continue;
            }
            if right < share.tokens.len() {
                self.drop_wrong(share, right);
            }
            return self.conclude(index, sampled);
        }
    }

    /// The tokens of `share` behind the first `right` are not the answer's: drops their cells. A
    /// running state goes back before the micro-batch, and the next one computes those that are right
    /// again.
    fn drop_wrong(&mut self, share: &Share, right: usize) {
        let slot = &mut self.slots[share.slot];
        if self.core.model.facts().memory.can_drop_newest() {
            let end = slot.timeline.len();
            let wrong = end..end + share.tokens.len() - right;
            let dropped = self.backend.remove(slot.sequence, wrong);
            return dropped.expect("this memory drops its newest rows");
        }
        let was_marked = self.go_back_to_mark(share.slot);
        assert!(was_marked, "a draft is computed behind a mark");
        let turn = self.slots[share.slot].turn.as_mut().expect("it answers");
        if let Phase::Decoding(sampled) = &mut turn.phase {
            sampled.splice(0..0, share.tokens[..right].iter().copied());
        }
    }

    /// Compares the token behind `offset` with its guess. Returns whether they are equal.
    fn observe(&mut self, share: &Share, offset: usize, token: Option<Token>) -> bool {
        let drafted = share.sampled_rows.len() - 1;
        if offset == 0 {
            self.count_drafted(share, drafted);
        }
        let (Some(&guess), Some(token)) = (share.draft.tokens.get(offset), token) else {
            return false;
        };
        let is_right = guess == token;
        match &share.draft.source {
            Source::Lookup { matched } => {
                let turn = self.slots[share.slot].turn.as_mut().expect("it answers");
                turn.acceptance.observe(matched + offset, is_right);
            }
            Source::Model { probabilities } | Source::Mtp { probabilities } => {
                if let Some(guesser) = self.guesser_mut() {
                    guesser.confidence.observe(probabilities[offset], is_right);
                }
            }
        }
        if is_right && offset < drafted {
            self.count_accepted(share);
        }
        is_right
    }

    fn count_drafted(&mut self, share: &Share, drafted: usize) {
        let drafts = &mut self.slots[share.slot].turn.as_mut().expect("it answers").drafts;
        drafts.drafted += drafted;
        self.core.counters.drafted_tokens += drafted as u64;
        match share.draft.source {
            Source::Lookup { .. } => {}
            Source::Model { .. } => {
                drafts.model_drafted += drafted;
                if let Some(drafter) = &mut self.drafter {
                    drafter.core.counters.drafted_tokens += drafted as u64;
                }
            }
            Source::Mtp { .. } => {
                drafts.mtp_drafted += drafted;
                self.core.mtp.counters.drafted_tokens += drafted as u64;
            }
        }
    }

    fn count_accepted(&mut self, share: &Share) {
        let drafts = &mut self.slots[share.slot].turn.as_mut().expect("it answers").drafts;
        drafts.accepted += 1;
        self.core.counters.accepted_tokens += 1;
        match share.draft.source {
            Source::Lookup { .. } => {}
            Source::Model { .. } => {
                drafts.model_accepted += 1;
                if let Some(drafter) = &mut self.drafter {
                    drafter.core.counters.accepted_tokens += 1;
                }
            }
            Source::Mtp { .. } => {
                drafts.mtp_accepted += 1;
                self.core.mtp.counters.accepted_tokens += 1;
            }
        }
    }
}
