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
pub use density::History;
pub use guarded_density::Guard;
pub use tails::Tails;

use crate::time::Timestamp;

/// The name of a block: [`BlockId`](crate::BlockId) in the runtime, a number in the simulator.
pub trait Name: Copy + Eq + Ord + Hash + fmt::Debug + Send + 'static {}

impl<T: Copy + Eq + Ord + Hash + fmt::Debug + Send + 'static> Name for T {}

/// A block, as the run that uses it describes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockMeta<Id> {
    /// The block before it, if any; it need not be cached.
    pub parent: Option<Id>,
    pub bytes: u64,
    pub run: Run,
}

impl<Id> BlockMeta<Id> {
    /// A block of an unknown run.
    pub fn new(parent: Option<Id>, bytes: u64) -> Self {
        Self { parent, bytes, run: Run::default() }
    }
}

/// A request and its answer, as policies see them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Equal for all reports of one request; 0 when each block is reported once.
    pub number: u64,
    /// A hash of the conversation's id; 0 for none.
    pub conversation: u64,
    /// The request's number in the conversation, from 1.
    pub turn: u32,
    /// Tokens of the prompt.
    pub tokens: u32,
    /// Blocks of the prompt, of any length: a run counts as one, whatever its length.
    pub blocks: u32,
    pub ended: AnswerEnd,
}

/// How an answer ended: tools respond sooner than people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AnswerEnd {
    /// Unknown, or cancelled.
    #[default]
    Unknown,
    ToolCall,
    /// The conversation waits for the user.
    Turn,
}

/// Chooses the block to evict.
///
/// The cache reports every block that a run uses, in the order of the prompt: as a hit, inserted,
/// or passed.
pub trait Policy<Id: Name>: Send + fmt::Debug {
    /// A cached block was used.
    fn hit(&mut self, id: Id, meta: &BlockMeta<Id>, now: Timestamp);

    /// A block was used and is cached from now on.
    fn inserted(&mut self, id: Id, meta: &BlockMeta<Id>, now: Timestamp);

    /// A block was used and is not cached.
    fn passed(&mut self, _id: Id, _meta: &BlockMeta<Id>, _now: Timestamp) {}

    /// A block is no longer cached.
    fn removed(&mut self, id: Id);

    /// Whether the new block itself may be evicted at once. A run has its KV in cells and does not
    /// need it cached.
    fn declines(&self) -> bool {
        false
    }

    /// The guard's choice so far; `None` for a policy without a guard.
    fn guard(&self) -> Option<Guard> {
        None
    }

    /// What was learned until now; `None` for a policy that learns nothing.
    fn history(&self) -> Option<History> {
        None
    }

    /// The next block to evict among those that may be. It is cached until [`Policy::removed`].
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

    fn guard(&self) -> Option<Guard> {
        (**self).guard()
    }

    fn history(&self) -> Option<History> {
        (**self).history()
    }

    fn victim(&mut self, now: Timestamp, may_leave: &dyn Fn(&Id) -> bool) -> Option<Id> {
        (**self).victim(now, may_leave)
    }
}
