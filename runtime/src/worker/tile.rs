//! Fills micro-batches up to a tile of attention's rows, where that takes less time; see
//! [`tile`](crate::backend::tile).
//!
//! - A prompt beside answers gets the rows of a tile: 64 of them behind 4,096 cells take less time than 32.
//! - Where the prompt has no more tokens, rows of no conversation are computed with it, in the scratch sequence.
//! - Answers alone fill a tile with what they copy; see `draft`.

use super::Worker;
use super::plan::Plan;
use crate::backend::Row;
use crate::backend::tile::TILE_ROWS;

/// Maximum factor by which a tile of a prompt may prolong a micro-batch: answers wait for it.
const MAX_LONGER: f64 = 1.25;

/// Rows of no conversation must save 4 %: the ratio is that of one machine.
const MAX_FILLED: f64 = 0.96;

impl Worker<'_> {
    /// Rows of prompts, of which `first` is the first, beside those of `plan`: `rows`, or as many as fill a tile.
    pub(super) fn rows_filling(&self, plan: &Plan, first: usize, rows: usize) -> usize {
        let planned = plan.rows.len();
        let next = rows.min(self.tokens_left(first));
        let Some(tile) = self.core.model.facts().attention_tile else { return rows };
        if planned + next >= TILE_ROWS || next < rows {
            return rows;
        }
        let (seen, cells) = self.seen_by(plan);
        let own = self.slots[first].cells.len();
        let ratio = tile.ratio(planned + next, seen + next * own, cells + own);
        if ratio <= MAX_LONGER { TILE_ROWS - planned } else { rows }
    }

    /// Fills a tile with rows of no conversation. [`Self::drop_fillers`] follows.
    pub(super) fn fill_tile(&self, plan: &mut Plan) {
        let (seen, cells) = self.seen_by(plan);
        self.add_fillers(plan, seen, cells);
    }

    /// `seen`: the cells that each row attends to, summed. `cells`: those that any of them attends to.
    pub(super) fn add_fillers(&self, plan: &mut Plan, seen: usize, cells: usize) {
        let Some(tile) = self.core.model.facts().attention_tile else { return };
        let rows = plan.rows.len();
        // The time of answers alone tells how many tokens of a draft are worth it.
        if rows >= TILE_ROWS || plan.only_answers || tile.ratio(rows, seen, cells) > MAX_FILLED {
            return;
        }
        if self.core.options.max_rows().min(self.free_cells()) < TILE_ROWS {
            return;
        }
        let (sequence, token) = (self.scratch(), plan.rows[0].token);
        plan.fillers = TILE_ROWS - rows;
        let filler = |position| Row { token, position, sequence, wants_logits: false };
        plan.rows.extend((0..plan.fillers).map(filler));
    }

    /// The seconds of a micro-batch of answers alone that fills a tile. `None`: attention has no tiles, their time is not
    /// known yet, or an arrival would wait for it too long.
    pub(super) fn cost_of_tile(&self) -> Option<f64> {
        let tile = self.core.model.facts().attention_tile?;
        let answering = self.slots.iter().filter(|slot| slot.is_decoding());
        let (answers, cells) = answering
            .fold((0, 0), |(answers, cells), slot| (answers + 1, cells + slot.cells.len()));
        // The answers have about equally many rows.
        let ratio = |rows: usize| tile.ratio(rows, rows * cells / answers.max(1), cells);
        let longest = self.core.pace.longest_uncut().map(|longest| longest.as_secs_f64());
        let seconds = self.core.costs.tile_seconds(ratio)?;
        longest.is_none_or(|longest| seconds <= longest).then_some(seconds)
    }

    /// The micro-batch was computed, or was not.
    pub(super) fn drop_fillers(&mut self, plan: &mut Plan) {
        let fillers = std::mem::take(&mut plan.fillers);
        if fillers > 0 {
            self.backend.clear(self.scratch());
            plan.rows.truncate(plan.rows.len() - fillers);
        }
    }

    fn seen_by(&self, plan: &Plan) -> (usize, usize) {
        let of_shares = plan.shares.iter().map(|share| {
            let cells = self.slots[share.slot].cells.len();
            (share.tokens.len() * cells, cells)
        });
        of_shares.fold((0, 0), |(seen, cells), of| (seen + of.0, cells + of.1))
    }
}
