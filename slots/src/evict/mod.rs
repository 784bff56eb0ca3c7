//! Which blocks leave when there is no room: one policy a file, the same code for the memory pool
//! and for the simulator.
//!
//! - Pure: no clock, no I/O. The same calls always give the same choices.
//! - Only the tail of a chain leaves: no policy chooses a block while one that follows it is kept,
//!   see [`Tails`]. So what is kept of a prompt is always its beginning.
//! - What may not leave is never chosen, whatever else would have to go.
//! - A policy may decline a newcomer, see [`Policy::declines`]: the run that made it has it in its
//!   slot anyway.
//!
//! Reading order: [`Policy`] and [`BlockMeta`]; [`Tails`], on which every policy is built; [`lru`]
//! for the simplest of them, [`guarded_density`] for the default; [`Cache`] for a set of blocks
//! under a budget.

pub mod arc;
mod cache;
pub mod density;
pub mod fifo;
mod ghosts;
pub mod graph_score;
pub mod guarded_density;
pub mod lfu;
pub mod lru;
pub mod s3_fifo;
pub mod session_lru;
mod tails;

use std::fmt;
use std::hash::Hash;
use std::str::FromStr;

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
    /// How much its segment matters, from 0 to 1.
    pub importance: f32,
}

impl<Id> BlockMeta<Id> {
    /// A block of which no more is known.
    pub fn new(parent: Option<Id>, bytes: u64) -> Self {
        Self { parent, bytes, run: Run::default(), importance: 0.5 }
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

/// The policies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyKind {
    /// The one that was kept first.
    Fifo,
    /// The least recently used.
    Lru,
    /// The least often used.
    Lfu,
    /// Adaptive replacement: recency and frequency, balanced by what left too early.
    Arc,
    /// Three queues, of which the small one sorts out what is used once.
    S3Fifo,
    /// Least recently used, with a share reserved for conversations that go on.
    SessionLru,
    /// The published score of age, degree, edges, importance and hits.
    GraphScore,
    /// The least likely hits for the room it takes, as long as that beats the least recently used.
    GuardedDensity,
}

impl PolicyKind {
    /// What the runtime uses.
    pub const DEFAULT: Self = Self::GuardedDensity;

    /// Every policy.
    pub const ALL: [Self; 8] = [
        Self::Fifo,
        Self::Lru,
        Self::Lfu,
        Self::Arc,
        Self::S3Fifo,
        Self::SessionLru,
        Self::GraphScore,
        Self::GuardedDensity,
    ];

    /// Its name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Lru => "lru",
            Self::Lfu => "lfu",
            Self::Arc => "arc",
            Self::S3Fifo => "s3-fifo",
            Self::SessionLru => "session-lru",
            Self::GraphScore => "graph-score",
            Self::GuardedDensity => "guarded-density",
        }
    }

    /// A new policy of this kind, for a store of `budget_bytes`.
    pub fn build<Id: Name>(self, budget_bytes: u64) -> Box<dyn Policy<Id>> {
        match self {
            Self::Fifo => Box::new(fifo::Fifo::default()),
            Self::Lru => Box::new(lru::Lru::default()),
            Self::Lfu => Box::new(lfu::Lfu::default()),
            Self::Arc => Box::new(arc::Arc::new(budget_bytes)),
            Self::S3Fifo => Box::new(s3_fifo::S3Fifo::new(budget_bytes)),
            Self::SessionLru => Box::new(session_lru::SessionLru::new(budget_bytes)),
            Self::GraphScore => Box::new(graph_score::GraphScore::default()),
            Self::GuardedDensity => Box::new(guarded_density::GuardedDensity::new(budget_bytes)),
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no policy has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no policy is called \"{got}\": it is one of {}", PolicyKind::ALL.map(PolicyKind::name).join(", "))]
pub struct UnknownPolicy {
    /// What was given.
    pub got: String,
}

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| UnknownPolicy { got: text.to_owned() })
    }
}

#[cfg(test)]
mod tests;
