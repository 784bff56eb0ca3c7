//! LRU with a reserved share for active conversations.
//!
//! - A conversation is active when it has had two turns or more, the last one less than [`ACTIVE`]
//!   ago.
//! - Its blocks are evicted only when there are no others, or when active conversations exceed
//!   their share.

use std::time::Duration;

use hob_slots::Timestamp;
use hob_slots::evict::{BlockMeta, Name, Policy, Tails};

/// The time after its last turn that a conversation counts as active.
pub const ACTIVE: Duration = Duration::from_secs(600);

/// The share of the budget for active conversations.
pub const SHARE: f64 = 0.9;

/// Ranks by activity, then by last use.
#[derive(Clone, Debug)]
pub struct SessionLru<Id> {
    tails: Tails<Id, (bool, u64), Note>,
    uses: u64,
    share_bytes: u64,
    // Bytes of the blocks that rank as active.
    held_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Note {
    used_at: Timestamp,
    bytes: u64,
}

impl<Id: Name> SessionLru<Id> {
    pub fn new(budget_bytes: u64) -> Self {
        let share_bytes = (budget_bytes as f64 * SHARE) as u64;
        Self { tails: Tails::default(), uses: 0, share_bytes, held_bytes: 0 }
    }

    fn rank(&mut self, id: &Id, rank: (bool, u64)) {
        let (Some(before), Some(note)) = (self.tails.rank(id), self.tails.note(id)) else { return };
        self.held_bytes -= if before.0 { note.bytes } else { 0 };
        self.held_bytes += if rank.0 { note.bytes } else { 0 };
        self.tails.set_rank(id, rank);
    }

    /// Ranks conversations as inactive that were unused for [`ACTIVE`].
    fn release(&mut self, now: Timestamp) {
        loop {
            let first = self.tails.leaves_from((true, 0)).next();
            let Some((rank, id)) = first else { return };
            let note = self.tails.note(&id).expect("a leaf is here");
            if note.used_at.age(now) < ACTIVE {
                return;
            }
            self.rank(&id, (false, rank.1));
        }
    }
}

impl<Id: Name> Policy<Id> for SessionLru<Id> {
    fn hit(&mut self, id: Id, meta: &BlockMeta<Id>, now: Timestamp) {
        self.uses += 1;
        self.rank(&id, (meta.run.turn >= 2, self.uses));
        if let Some(note) = self.tails.note_mut(&id) {
            note.used_at = now;
        }
    }

    fn inserted(&mut self, id: Id, meta: &BlockMeta<Id>, now: Timestamp) {
        self.uses += 1;
        let note = Note { used_at: now, bytes: meta.bytes };
        self.tails.insert(id, meta.parent, (false, self.uses), note);
        self.rank(&id, (meta.run.turn >= 2, self.uses));
    }

    fn removed(&mut self, id: Id) {
        let is_active = self.tails.rank(&id).is_some_and(|(is_active, _)| is_active);
        if let Some(note) = self.tails.remove(&id)
            && is_active
        {
            self.held_bytes -= note.bytes;
        }
    }

    fn victim(&mut self, now: Timestamp, may_leave: &dyn Fn(&Id) -> bool) -> Option<Id> {
        self.release(now);
        let of = |tails: &Tails<Id, _, _>, is_active: bool| {
            let leaves = tails.leaves_from((is_active, 0));
            leaves.take_while(|(rank, _)| rank.0 == is_active).map(|(_, id)| id).find(may_leave)
        };
        let over = self.held_bytes > self.share_bytes;
        of(&self.tails, over).or_else(|| of(&self.tails, !over))
    }
}
