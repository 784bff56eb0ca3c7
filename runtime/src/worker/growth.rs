//! Computes more of a moved chunk where its head, computed anew, still differs from what was moved.
//!
//! - Only where the turn's strategy of repair says so: a comparison, see `cargo xtask bench chunks`.
//! - Text that attends little to what is before it has nearly the same KV at both places, and its head ends. The KV of
//!   the last tokens that were computed says how much the ones behind them would change.
//! - A head grows before the next one of its turn is computed. So its new tokens see those before them as they are.
//! - Where both states cannot be read, no head grows.

use std::ops::Range;

use hob_slots::content::repair::GROWTH;
use tracing::debug;

use super::Worker;
use crate::backend::Sequence;
use crate::backend::deviation::difference;
use crate::splice;
use crate::turn::Reuse;

/// Tokens that are compared: the last ones of a head.
const COMPARED: usize = 16;

impl Worker<'_> {
    /// See [`hob_slots::content::Repair::grows_above`].
    pub(super) fn grows_above(&self, index: usize) -> Option<usize> {
        match self.slots[index].turn.as_ref()?.request.reuse {
            Reuse::Repaired(repair) => repair.grows_above(),
            Reuse::Exact => None,
        }
    }

    /// The tokens behind a head that are computed next. `sequence` has the head as it was just computed, the slot as it
    /// was moved.
    pub(super) fn growth(
        &mut self,
        index: usize,
        head: &Range<usize>,
        sequence: Sequence,
    ) -> Option<Range<usize>> {
        let most = self.grows_above(index)?;
        let slot = &self.slots[index];
        let own = slot.sequence;
        // Moved tokens have a view for each chunk.
        let views = slot.timeline.views();
        let chunk_end = views.iter().map(|run| run.end as usize).find(|end| *end >= head.end)?;
        let next = head.end..chunk_end.min(head.end + GROWTH);
        if next.is_empty() {
            return None;
        }
        let last = head.end.saturating_sub(COMPARED).max(head.start)..head.end;
        let scratch = self.scratch();
        let mut state_of = |sequence| {
            splice::export(self.backend, scratch, sequence, last.clone(), Vec::new()).ok()
        };
        let (moved, anew) = (state_of(own)?, state_of(sequence)?);
        let percent = difference(&moved, &anew)? * 100.0;
        debug!(?head, percent, most, "compared the end of a head");
        (percent > most as f32).then_some(next)
    }
}
