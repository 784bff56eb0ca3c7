//! Counts the rows that others compute beside an idle slot's cells, see `beside`.

#[derive(Default)]
pub(super) struct RowsBeside {
    /// Since the slot's last turn, or since `beside` last left the conversation in its cells.
    rows: usize,
    /// Rows until `beside` looks for the conversation in memory again: the tiers' index has a lock.
    unparked_until: usize,
}

impl RowsBeside {
    /// Another owner is pinned to the slot.
    pub fn pinned(&mut self) {
        self.unparked_until = 0;
    }

    /// Whether the idle slot has had `max` rows beside it, with the next `ahead` ones.
    pub fn has_reached(&self, max: usize, ahead: usize) -> bool {
        self.unparked_until == 0 && self.rows.saturating_add(ahead) >= max
    }

    /// The conversation is not in memory: `beside` looks again after `rows` rows.
    pub fn look_again_after(&mut self, rows: usize) {
        self.unparked_until = rows;
    }

    /// `rows` were computed. `runs`: the slot has a turn.
    pub fn count(&mut self, rows: usize, runs: bool) {
        self.rows = if runs { 0 } else { self.rows + rows };
        self.unparked_until = self.unparked_until.saturating_sub(rows);
    }
}
