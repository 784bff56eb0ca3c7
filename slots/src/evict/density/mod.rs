//! Hit density: the chance of another use over the time until then. The lowest is evicted first.
//!
//! - Learned at run time from metadata, see [`Learned`].
//! - A new block of a class that is rarely reused has the lowest density and is declined, so a scan
//!   of cold prompts evicts nothing.

mod classes;
mod histogram;
mod history;
mod learned;
mod observed;

use super::{BlockMeta, Name, Policy, Tails};
use crate::time::Timestamp;

pub(super) use classes::Class;
pub use history::History;

/// Classes of blocks: an eviction looks at no more blocks than this.
pub const CLASSES: usize = Class::COUNT;

pub(super) use learned::Learned;

/// The policy without a guard.
#[derive(Clone, Debug)]
pub struct Density<Id> {
    learned: Learned<Id>,
    queue: Queue<Id>,
}

impl<Id: Name> Density<Id> {
    pub fn new(budget_bytes: u64) -> Self {
        Self::with_history(budget_bytes, &History::default())
    }

    /// With what was learned before.
    pub fn with_history(budget_bytes: u64, history: &History) -> Self {
        let learned = Learned::new(budget_bytes).with_history(history);
        Self { learned, queue: Queue::default() }
    }

    pub(super) fn learned(&mut self) -> &mut Learned<Id> {
        &mut self.learned
    }

    pub(super) fn runs(&self) -> u64 {
        self.learned.runs()
    }

    pub(super) fn history(&self) -> History {
        self.learned.history()
    }
}

impl<Id: Name> Policy<Id> for Density<Id> {
    fn hit(&mut self, id: Id, meta: &BlockMeta<Id>, now: Timestamp) {
        let class = self.learned.used(id, meta, now);
        self.queue.used(&id, class, now);
    }

    fn inserted(&mut self, id: Id, meta: &BlockMeta<Id>, now: Timestamp) {
        let class = self.learned.used(id, meta, now);
        self.queue.inserted(id, meta.parent, class, now);
    }

    fn passed(&mut self, id: Id, meta: &BlockMeta<Id>, now: Timestamp) {
        self.learned.used(id, meta, now);
    }

    fn removed(&mut self, id: Id) {
        self.queue.removed(&id);
    }

    fn declines(&self) -> bool {
        true
    }

    fn victim(&mut self, now: Timestamp, may_leave: &dyn Fn(&Id) -> bool) -> Option<Id> {
        self.queue.lowest(&mut self.learned, now, may_leave)
    }
}

/// Cached blocks by class, then age.
#[derive(Clone, Debug)]
pub(super) struct Queue<Id> {
    tails: Tails<Id, Rank, ()>,
    uses: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    class: Class,
    used_at: Timestamp,
    use_number: u64,
}

impl<Id> Default for Queue<Id> {
    fn default() -> Self {
        Self { tails: Tails::default(), uses: 0 }
    }
}

impl<Id: Name> Queue<Id> {
    pub fn used(&mut self, id: &Id, class: Class, now: Timestamp) {
        let rank = self.rank(class, now);
        self.tails.set_rank(id, rank);
    }

    pub fn inserted(&mut self, id: Id, parent: Option<Id>, class: Class, now: Timestamp) {
        let rank = self.rank(class, now);
        self.tails.insert(id, parent, rank, ());
    }

    pub fn removed(&mut self, id: &Id) {
        self.tails.remove(id);
    }

    /// The leaf of the lowest density; of equals the least recently used. Looks at one leaf of each
    /// class and of each age that may be lower.
    pub fn lowest(
        &self,
        learned: &mut Learned<Id>,
        now: Timestamp,
        may_leave: &dyn Fn(&Id) -> bool,
    ) -> Option<Id> {
        let mut lowest: Option<(f32, u64, Id)> = None;
        let mut from = Rank { class: Class::FIRST, used_at: Timestamp(0), use_number: 0 };
        loop {
            let Some((rank, id)) = self.tails.leaves_from(from).next() else { break };
            if !may_leave(&id) {
                from = Rank { use_number: rank.use_number + 1, ..rank };
                continue;
            }
            let age = rank.used_at.age(now);
            let density = learned.density(rank.class, age);
            let found = (density.here, rank.use_number, id);
            let (least, ..) = match lowest {
                Some(other) if (other.0, other.1) <= (found.0, found.1) => other,
                _ => *lowest.insert(found),
            };
            // Blocks of the same age have the same density, and this is the oldest.
            from = match histogram::younger_than(age).filter(|_| density.least_younger <= least) {
                Some(age) => Rank {
                    used_at: Timestamp(now.0.saturating_sub(age.as_millis() as u64) + 1),
                    use_number: 0,
                    ..rank
                },
                None => Rank { used_at: Timestamp(u64::MAX), use_number: u64::MAX, ..rank },
            };
        }
        lowest.map(|(_, _, id)| id)
    }

    fn rank(&mut self, class: Class, now: Timestamp) -> Rank {
        self.uses += 1;
        Rank { class, used_at: now, use_number: self.uses }
    }
}

#[cfg(test)]
mod tests;
