//! The published score of a node in the graph of prefixes, with its published weights.
//!
//! score = age in seconds x 0.01 - degree x 5 - edge weight x 2 - importance x 20 - hits x 3
//!
//! - The highest score is evicted first. All blocks age alike, so time alone never changes the
//!   order, which is stored, not computed.
//! - Degree is the number of cached neighbours; the weight of the edge to the parent is 1.
//! - Importance and hits far outweigh recency: measured, it does worse than any other policy here.
//!   It is here for comparison.

use hob_slots::Timestamp;
use hob_slots::evict::{BlockMeta, Name, Policy, Tails};

/// The importance of every block: the traces do not record any.
const IMPORTANCE: f64 = 0.5;

/// Ranks by the part of the score without age, in thousandths; then by last use.
#[derive(Clone, Debug)]
pub struct GraphScore<Id> {
    tails: Tails<Id, (i64, u64), Note>,
    uses: u64,
}

#[derive(Clone, Copy, Debug)]
struct Note {
    used_at: Timestamp,
    hits: u64,
}

impl<Id> Default for GraphScore<Id> {
    fn default() -> Self {
        Self { tails: Tails::default(), uses: 0 }
    }
}

impl<Id: Name> GraphScore<Id> {
    fn rank_again(&mut self, id: &Id) {
        let (Some(note), Some((_, uses))) = (self.tails.note(id), self.tails.rank(id)) else {
            return;
        };
        let parent = self.tails.parent(id).is_some_and(|parent| self.tails.contains(&parent));
        let edge = u32::from(parent);
        let degree = self.tails.children(id) + edge;
        // A higher rank stays longer, so a later use counts more.
        let used_secs = note.used_at.0 as f64 / 1_000.0;
        let stays = used_secs * 0.01
            + f64::from(degree) * 5.0
            + f64::from(edge) * 2.0
            + IMPORTANCE * 20.0
            + note.hits as f64 * 3.0;
        self.tails.set_rank(id, ((stays * 1_000.0) as i64, uses));
    }
}

impl<Id: Name> Policy<Id> for GraphScore<Id> {
    fn hit(&mut self, id: Id, _: &BlockMeta<Id>, now: Timestamp) {
        self.uses += 1;
        let Some(note) = self.tails.note_mut(&id) else { return };
        *note = Note { used_at: now, hits: note.hits + 1 };
        self.tails.set_rank(&id, (0, self.uses));
        self.rank_again(&id);
    }

    fn inserted(&mut self, id: Id, meta: &BlockMeta<Id>, now: Timestamp) {
        self.uses += 1;
        let note = Note { used_at: now, hits: 0 };
        self.tails.insert(id, meta.parent, (0, self.uses), note);
        self.rank_again(&id);
        if let Some(parent) = meta.parent {
            self.rank_again(&parent);
        }
    }

    fn removed(&mut self, id: Id) {
        let parent = self.tails.parent(&id);
        self.tails.remove(&id);
        if let Some(parent) = parent {
            self.rank_again(&parent);
        }
    }

    fn victim(&mut self, _: Timestamp, may_leave: &dyn Fn(&Id) -> bool) -> Option<Id> {
        self.tails.first(may_leave)
    }
}
