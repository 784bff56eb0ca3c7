//! S3-FIFO (Yang et al., 2023) over tails.
//!
//! - Every new block enters a small queue with a tenth of the budget. A block used there moves to
//!   the main queue; an unused one is evicted and its name remembered. A remembered block enters
//!   the main queue directly and leaves it after one round for each use, three at most.
//! - An eviction moves a bounded number of blocks; then the front block is evicted, used or not.

use hob_slots::Timestamp;
use hob_slots::evict::{BlockMeta, Name, Policy, Tails};

use super::ghosts::Ghosts;

const MAX_USES: u8 = 3;

/// Blocks that an eviction moves at most.
const MAX_MOVES: usize = 64;

/// Ranks by queue (the small one is `false`), then by position.
#[derive(Clone, Debug)]
pub struct S3Fifo<Id> {
    tails: Tails<Id, (bool, u64), Note>,
    left: Ghosts<Id>,
    budget_bytes: u64,
    small_bytes: u64,
    places: u64,
}

#[derive(Clone, Copy, Debug)]
struct Note {
    bytes: u64,
    uses: u8,
}

impl<Id: Name> S3Fifo<Id> {
    pub fn new(budget_bytes: u64) -> Self {
        let (tails, left) = (Tails::default(), Ghosts::default());
        Self { tails, left, budget_bytes, small_bytes: 0, places: 0 }
    }

    fn move_on(&mut self, id: &Id, uses: u8) {
        self.places += 1;
        let small = self.is_small(id);
        let Some(note) = self.tails.note_mut(id) else { return };
        note.uses = uses;
        if small {
            self.small_bytes -= note.bytes;
        }
        self.tails.set_rank(id, (true, self.places));
    }

    fn is_small(&self, id: &Id) -> bool {
        self.tails.rank(id).is_some_and(|(main, _)| !main)
    }
}

impl<Id: Name> Policy<Id> for S3Fifo<Id> {
    fn hit(&mut self, id: Id, _: &BlockMeta<Id>, _: Timestamp) {
        if let Some(note) = self.tails.note_mut(&id) {
            note.uses = MAX_USES.min(note.uses + 1);
        }
    }

    fn inserted(&mut self, id: Id, meta: &BlockMeta<Id>, _: Timestamp) {
        self.places += 1;
        let main = self.left.take(&id);
        self.small_bytes += if main { 0 } else { meta.bytes };
        let note = Note { bytes: meta.bytes, uses: 0 };
        self.tails.insert(id, meta.parent, (main, self.places), note);
    }

    fn removed(&mut self, id: Id) {
        let small = self.is_small(&id);
        let Some(note) = self.tails.remove(&id) else { return };
        if small {
            self.small_bytes -= note.bytes;
            self.left.push(id, note.bytes);
            self.left.trim(self.budget_bytes);
        }
    }

    fn victim(&mut self, _: Timestamp, may_leave: &dyn Fn(&Id) -> bool) -> Option<Id> {
        for moves in 0.. {
            let front = |main: bool| {
                let leaves = self.tails.leaves_from((main, 0));
                leaves.take_while(|(rank, _)| rank.0 == main).map(|(_, id)| id).find(may_leave)
            };
            let from_main = self.small_bytes <= self.budget_bytes / 10;
            let id = front(from_main).or_else(|| front(!from_main))?;
            let uses = self.tails.note(&id).expect("a leaf is here").uses;
            if uses == 0 || moves == MAX_MOVES {
                return Some(id);
            }
            let left = if self.is_small(&id) { 0 } else { uses - 1 };
            self.move_on(&id, left);
        }
        unreachable!("a decision moves a bounded number of blocks")
    }
}
