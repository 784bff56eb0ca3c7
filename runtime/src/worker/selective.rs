//! Has those tokens of a moved chunk computed anew at their place whose K deviates most from what was moved
//! (CacheBlend).
//!
//! - Only where the turn's strategy of repair says so: a comparison, see `cargo xtask bench chunks`.
//! - To know which, all tokens of the chunk are computed beside it, and dropped.

use std::collections::BTreeMap;
use std::ops::Range;

use hob_slots::Token;

use super::Worker;
use crate::backend::Row;
use crate::backend::deviation::deviations;
use crate::splice;
use crate::turn::Reuse;

impl Worker<'_> {
    /// Where the turn's strategy of repair says so: adds those tokens of a moved chunk, or of what is behind its head, to
    /// the heads of the turn. A head that waits to be computed is seen as it was moved.
    pub(super) fn select_deviating(&mut self, index: usize, chunk: Range<usize>) {
        let turn = self.slots[index].turn.as_ref().expect("it has chunks");
        let Reuse::Repaired(repair) = turn.request.reuse else { return };
        let Some(percent) = repair.selected() else { return };
        let Some(deviating) = self.deviations(index, &chunk) else { return };
        let mut positions: Vec<(usize, f32)> = deviating.into_iter().collect();
        positions.sort_by(|one, other| other.1.total_cmp(&one.1));
        positions.truncate((chunk.len() * percent).div_ceil(100));
        let mut positions: Vec<usize> =
            positions.into_iter().map(|(position, _)| position).collect();
        positions.sort_unstable();
        let runs = positions.chunk_by(|one, next| one + 1 == *next);
        let runs: Vec<_> = runs.map(|run| run[0]..run[0] + run.len()).collect();
        self.slots[index].turn.as_mut().expect("it has chunks").heads.extend(runs);
    }

    /// `None` where there is no room to compute the chunk beside itself.
    fn deviations(&mut self, index: usize, chunk: &Range<usize>) -> Option<BTreeMap<usize, f32>> {
        let slot = &self.slots[index];
        let is_whole = slot.cells.away(slot.timeline.len()).is_empty();
        if chunk.is_empty() || !is_whole || chunk.len() > self.free_cells() {
            return None;
        }
        let adapters = slot.adapters.clone();
        self.use_adapters(&adapters).ok()?;
        let (own, beside) = (self.slots[index].sequence, self.head_sequences().next()?);
        let prompt = &self.slots[index].turn.as_ref()?.request.prompt;
        let tokens = prompt[chunk.clone()].to_vec();
        if chunk.start > 0 {
            self.backend.share(own, beside, 0..chunk.start);
        }
        let row = |(position, &token): (usize, &Token)| Row {
            token,
            position,
            sequence: beside,
            wants_logits: false,
        };
        let rows: Vec<Row> = chunk.clone().zip(&tokens).map(row).collect();
        let computed =
            rows.chunks(self.core.options.max_rows()).all(|rows| self.backend.decode(rows).is_ok());
        let scratch = self.scratch();
        let mut state_of = |sequence| {
            splice::export(self.backend, scratch, sequence, chunk.clone(), Vec::new()).ok()
        };
        let states = if computed { state_of(own).zip(state_of(beside)) } else { None };
        self.backend.clear(beside);
        let (moved, anew) = states?;
        deviations(&moved, &anew)
    }
}
