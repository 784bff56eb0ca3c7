//! The eviction policies that the studies compare: those of the runtime and those of the literature.

mod arc;
mod fifo;
mod ghosts;
mod graph_score;
mod lfu;
mod s3_fifo;
mod session_lru;

use std::fmt;
use std::str::FromStr;

use hob_slots::evict::guarded_density::GuardedDensity;
use hob_slots::evict::lru::Lru;
use hob_slots::evict::{Name, Policy};

/// An eviction policy by name.
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
            Self::Lru => Box::new(Lru::default()),
            Self::Lfu => Box::new(lfu::Lfu::default()),
            Self::Arc => Box::new(arc::Arc::new(budget_bytes)),
            Self::S3Fifo => Box::new(s3_fifo::S3Fifo::new(budget_bytes)),
            Self::SessionLru => Box::new(session_lru::SessionLru::new(budget_bytes)),
            Self::GraphScore => Box::new(graph_score::GraphScore::default()),
            Self::GuardedDensity => Box::new(GuardedDensity::new(budget_bytes)),
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
