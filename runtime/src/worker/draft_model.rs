//! Gets guesses of the draft model where the conversation's own text gives none, and saves the draft model's KV
//! behind the model's.

use std::time::Instant;

use super::Worker;
use super::plan::{Next, Share};
use super::slot::Slot;
use crate::draft::{Guesser, MAX_ROWS, lengths};
use crate::drafter::{DraftRequest, Drafter, Followed, Owner};
use crate::heartbeat::Activity;

/// Guesses to learn from, where none would pay by what is known. As there are this many, longer micro-batches are
/// tried too.
const LEARNED: usize = 7;

/// A turn that has ended, and that the draft model has not read to its end.
#[derive(Clone, Copy)]
pub(super) struct Unread {
    slot: usize,
    /// Where its answer begins.
    answer: usize,
}

impl Worker<'_> {
    /// Asks the draft model for the answers without a draft, as far as that should make them faster.
    pub(super) fn guess_by_model(&mut self, nexts: &mut [Next]) {
        let Some(mut drafter) = self.drafter.take() else { return };
        self.request_drafts(&mut drafter, nexts);
        self.drafter = Some(drafter);
    }

    fn request_drafts(&self, drafter: &mut Drafter<'_>, nexts: &mut [Next]) {
        let max_tokens = drafter.max_tokens();
        let wanted = |(at, next): (usize, &Next)| {
            let beyond = max_tokens.saturating_sub(self.slots[next.slot].timeline.len() + 2);
            let count = self.max_draft(next.slot, MAX_ROWS).min(beyond);
            (next.draft.tokens.is_empty() && count > 0).then_some((at, count))
        };
        let mut wanted: Vec<(usize, usize)> = nexts.iter().enumerate().filter_map(wanted).collect();
        if wanted.is_empty() {
            return;
        }
        let is_to_learn = self.shorten(&drafter.core.guesser, nexts, &mut wanted);
        let requests: Vec<DraftRequest<'_>> =
            wanted.iter().map(|&(at, count)| self.draft_request(&nexts[at], count)).collect();
        if is_to_learn && !drafter.may_learn(&requests[0]) {
            return;
        }
        for ((at, _), draft) in wanted.into_iter().zip(drafter.draft(&requests)) {
            nexts[at].draft = draft;
        }
    }

    /// Leaves of `wanted` (places in `nexts`, and how many tokens to guess at most) what is worth its time. Returns
    /// whether nothing was, and one of them is left to learn from.
    pub(super) fn shorten(
        &self,
        guesser: &Guesser,
        nexts: &[Next],
        wanted: &mut Vec<(usize, usize)>,
    ) -> bool {
        let counts = self.worthwhile(guesser, nexts, wanted);
        let is_to_learn = counts.iter().all(|&count| count == 0);
        if is_to_learn {
            wanted.truncate(1);
        }
        for ((_, count), worthwhile) in wanted.iter_mut().zip(counts) {
            *count = if is_to_learn { LEARNED.min(*count) } else { worthwhile };
        }
        wanted.retain(|&(_, count)| count > 0);
        is_to_learn
    }

    /// How many tokens to guess for each of `wanted`, by what guesses usually are worth; the time that they take
    /// counts.
    fn worthwhile(
        &self,
        guesser: &Guesser,
        nexts: &[Next],
        wanted: &[(usize, usize)],
    ) -> Vec<usize> {
        let mut chances: Vec<Vec<f64>> = nexts.iter().map(|next| self.chances(next)).collect();
        for &(at, count) in wanted {
            chances[at] = guesser.expected(count);
        }
        let rows = self.cost_of_rows();
        let seconds = |lengths: &[usize]| {
            let guessed = wanted.iter().map(|&(at, _)| lengths[at]);
            Some(rows(lengths.len() + lengths.iter().sum::<usize>())? + guesser.seconds(guessed)?)
        };
        let lengths = lengths(&chances, seconds);
        wanted.iter().map(|&(at, _)| lengths[at]).collect()
    }

    /// Guesses of the draft model or of MTP heads that were right, since the start.
    pub(super) fn accepted_guesses(&self) -> u64 {
        let of_model = self.drafter.as_ref().map(|drafter| drafter.core.counters.accepted_tokens);
        of_model.unwrap_or(self.core.mtp.counters.accepted_tokens)
    }

    /// Measures the draft model, or the MTP heads that guess in its place.
    pub(super) fn guesser(&self) -> Option<&Guesser> {
        let of_model = self.drafter.as_ref().map(|drafter| &drafter.core.guesser);
        of_model.or_else(|| self.uses_mtp.then_some(&self.core.mtp.guesser))
    }

    pub(super) fn guesser_mut(&mut self) -> Option<&mut Guesser> {
        match &mut self.drafter {
            Some(drafter) => Some(&mut drafter.core.guesser),
            None => self.uses_mtp.then_some(&mut self.core.mtp.guesser),
        }
    }

    /// Charges the ledger with the time of the guessed rows, and credits the time that the accepted ones would have
    /// taken.
    pub(super) fn account_for_guesses(&mut self, shares: &[Share], accepted: u64) {
        let guessed = |share: &&Share| share.draft.source.has_guesser();
        let rows: usize =
            shares.iter().filter(guessed).map(|share| share.sampled_rows.len() - 1).sum();
        if rows == 0 {
            return;
        }
        let answers = shares.len();
        let prompt_row = self.core.pace.rows_per_second().map(f64::recip);
        let seconds = |rows| match rows {
            ..=MAX_ROWS => self.core.costs.seconds(rows, prompt_row),
            _ => self.cost_of_tile(),
        };
        let (Some(without), Some(with)) = (seconds(answers), seconds(answers + rows)) else {
            return;
        };
        if let Some(guesser) = self.guesser_mut() {
            guesser.ledger.spend((with - without).max(0.0));
            guesser.ledger.gain(without * accepted as f64 / answers as f64);
        }
    }

    /// Whether the draft model has KV of an idle slot that no record covers.
    pub(super) fn drafter_needs_record(&self) -> bool {
        let Some(drafter) = &self.drafter else { return false };
        let idle = |slot: &Slot| slot.turn.is_none() && slot.tail.is_empty();
        let mut slots = self.slots.iter().enumerate();
        slots.any(|(index, slot)| idle(slot) && drafter.needs_record(index))
    }

    /// Whether a block or a record of such KV can be saved now. If none can, the tiers wake the thread once one can.
    pub(super) fn may_save_drafted(&self) -> bool {
        let has_room = || self.drafter.as_ref().is_some_and(|it| !it.core.tiers.is_full());
        self.drafter_needs_record() && has_room()
    }

    /// Saves one block or record of the draft model's. The time is charged if an answer waits meanwhile.
    pub(super) fn save_of_drafter(&mut self) {
        let now = self.now();
        let is_answering = !self.running().is_empty();
        let Some(drafter) = &mut self.drafter else { return };
        let began = Instant::now();
        for (index, slot) in self.slots.iter().enumerate() {
            let is_idle = slot.turn.is_none() && slot.tail.is_empty();
            if drafter.save_next(index, slot.timeline.tokens(), is_idle, now) {
                if is_answering {
                    drafter.core.guesser.ledger.spend(began.elapsed().as_secs_f64());
                }
                return;
            }
        }
    }

    /// Saves all that the draft model has computed for the slot, whose cells are about to be dropped.
    pub(super) fn save_drafted(&mut self, index: usize) {
        if let Some(drafter) = &mut self.drafter {
            drafter.save(index);
        }
    }

    /// [`Self::save_drafted`], waiting for the disk: the engine stops, or the weights are about to be dropped.
    pub(super) fn save_drafted_and_flush(&mut self, index: usize) {
        self.save_drafted(index);
        while let Some(drafter) = self.drafter.as_ref().filter(|it| it.needs_record(index)) {
            self.core.pulse.begin(Activity::Flushing);
            drafter.core.tiers.flush();
            self.core.pulse.begin(Activity::Computing);
            if drafter.core.tiers.is_full() {
                return; // The draft model's budget has no room for a block.
            }
            self.save_drafted(index);
        }
    }

    /// Whether the draft model has something to read while no turn runs or waits, and no caller has an answer to pass
    /// on.
    pub(super) fn drafter_lags(&self) -> bool {
        let is_idle = self.queue.is_empty() && self.running().is_empty();
        !self.unread.is_empty() && is_idle && !self.is_delivering()
    }

    /// The slot's turn has ended, and has computed an answer of this many tokens: the draft model reads it later.
    pub(super) fn add_unread(&mut self, index: usize, answer: usize) {
        if self.drafter.is_some() && self.core.options.drafts && answer > 0 {
            let begins = self.slots[index].timeline.len().saturating_sub(answer);
            self.unread.retain(|unread| unread.slot != index);
            self.unread.push(Unread { slot: index, answer: begins });
        }
    }

    /// Lets the draft model read a part of the newest answer that it has not read whole.
    pub(super) fn let_drafter_read(&mut self) {
        if !self.drafter_lags() {
            return;
        }
        let Some(mut drafter) = self.drafter.take() else { return self.unread.clear() };
        if let Some(&Unread { slot, answer }) = self.unread.last() {
            let has_owner = self.slots[slot].conversation().is_some();
            if !has_owner || !drafter.read_unread(&self.followed(slot), answer) {
                self.unread.pop();
            }
        }
        self.drafter = Some(drafter);
    }

    fn draft_request(&self, next: &Next, count: usize) -> DraftRequest<'_> {
        let turn = self.slots[next.slot].turn.as_ref().expect("it answers");
        DraftRequest {
            followed: self.followed(next.slot),
            turn: turn.number,
            sampled: *next.sampled.last().expect("an answer has a newest token"),
            count,
            ignores_end: turn.request.ignore_eog,
        }
    }

    fn followed(&self, index: usize) -> Followed<'_> {
        let slot = &self.slots[index];
        let owner = slot.conversation().map(|conversation| {
            let known = || self.core.tiers.summary(conversation).map(|known| known.class);
            Owner {
                conversation: conversation.clone(),
                class: slot.save.keep.class.or_else(known).unwrap_or(slot.save.keep.default_class),
                in_memory: slot.save.in_memory,
            }
        });
        Followed { slot: index, timeline: slot.timeline.tokens(), owner }
    }
}
