//! Which blocks are evicted when the KV budget is exceeded: one policy a file, the same code for the
//! memory pool and for the simulator.
//!
//! - Pure: no clock, no I/O. The same calls always give the same choices.
//! - Only the tail of a chain is evicted: no policy chooses a block while a block that follows it is
//!   cached, see [`Tails`]. So the cached part of a prompt is always its beginning.
//! - A block that must stay is never chosen, even over budget.
//! - A policy may decline a new block, see [`Policy::declines`]: its KV is in the run's cells anyway.
//!
//! Reading order: [`Policy`] and [`BlockMeta`]; [`Tails`], on which every policy is built; [`lru`],
//! the simplest; [`guarded_density`], the default; [`Cache`], a set of blocks under a budget. The
//! policies that are only compared with these are in `hob-simulate`.

mod cache;
pub mod density;
pub mod guarded_density;
pub mod lru;
mod tails;

use std::fmt;
use std::hash::Hash;

pub use cache::{Answer, Cache};
pub use tails::Tails;

use crate::time::Timestamp;

/// What a block is called: [`BlockId`](crate::BlockId) in the runtime, a number in the simulator.
pub trait Name: Copy + Eq + Ord + Hash + fmt::Debug + Send + 'static {}

impl<T: Copy + Eq + Ord + Hash + fmt::Debug + Send + 'static> Name for T {}

/// What a policy is told of a block by the run that uses it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockMeta<Id> {
    /// The block before it, if there is one. It need not be kept.
    pub parent: Option<Id>,
    /// What it takes of the budget.
    pub bytes: u64,
    /// The run that uses it now.
    pub run: Run,
}

impl<Id> BlockMeta<Id> {
    /// A block of which no more is known.
    pub fn new(parent: Option<Id>, bytes: u64) -> Self {
        Self { parent, bytes, run: Run::default() }
    }
}

/// A request and its answer, as far as policies care.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// A hash of the conversation's id; 0 for none.
    pub conversation: u64,
    /// Which request of the conversation it is, from 1.
    pub turn: u32,
    /// Blocks of its prompt.
    pub blocks: u32,
    /// How the answer ended, as far as it is known.
    pub ended: Ended,
}

/// How an answer ended: a tool answers sooner than a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ended {
    /// It is not known, or it was cut off.
    #[default]
    Unknown,
    /// It calls a tool.
    ToolCall,
    /// It is the other's turn.
    Turn,
}

/// Chooses which of the blocks that are kept leaves.
///
/// Whoever keeps the blocks tells of each one that a run uses, in the order of the prompt, whether
/// it is kept, comes to be kept, or is not kept.
pub trait Policy<Id: Name>: Send + fmt::Debug {
    /// A kept block was used.
    fn hit(&mut self, id: Id, meta: &BlockMeta<Id>, now: Timestamp);

    /// A block that was not kept was used, and is kept from now on.
    fn inserted(&mut self, id: Id, meta: &BlockMeta<Id>, now: Timestamp);

    /// A block that was not kept was used, and still is not.
    fn passed(&mut self, _id: Id, _meta: &BlockMeta<Id>, _now: Timestamp) {}

    /// A block is not kept any more.
    fn removed(&mut self, id: Id);

    /// Whether a newcomer may itself be the one to leave, at once. A run lives in its slot, so it
    /// does not need what it has just computed to be kept.
    fn declines(&self) -> bool {
        false
    }

    /// The block that should leave next, among those that may. It stays until
    /// [`Policy::removed`].
    fn victim(&mut self, now: Timestamp, may_leave: &dyn Fn(&Id) -> bool) -> Option<Id>;
}

impl<Id: Name> Policy<Id> for Box<dyn Policy<Id>> {
    fn hit(&mut self, id: Id, meta: &BlockMeta<Id>, now: Timestamp) {
        (**self).hit(id, meta, now);
    }

    fn inserted(&mut self, id: Id, meta: &BlockMeta<Id>, now: Timestamp) {
        (**self).inserted(id, meta, now);
    }

    fn passed(&mut self, id: Id, meta: &BlockMeta<Id>, now: Timestamp) {
        (**self).passed(id, meta, now);
    }

    fn removed(&mut self, id: Id) {
        (**self).removed(id);
    }

    fn declines(&self) -> bool {
        (**self).declines()
    }

    fn victim(&mut self, now: Timestamp, may_leave: &dyn Fn(&Id) -> bool) -> Option<Id> {
        (**self).victim(now, may_leave)
    }
}
