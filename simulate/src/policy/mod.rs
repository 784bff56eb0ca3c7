//! The eviction policies of the studies: those of the runtime and those of the literature.

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
use hob_slots::evict::{History, Name, Policy};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyKind {
    /// First in, first out.
    Fifo,
    /// Least recently used.
    Lru,
    /// Least frequently used.
    Lfu,
    /// Adaptive replacement: recency and frequency, balanced by evictions that came too early.
    Arc,
    /// S3-FIFO: a small queue filters blocks used once.
    S3Fifo,
    /// LRU with a reserved share for active conversations.
    SessionLru,
    /// The published score of age, degree, edges, importance and hits.
    GraphScore,
    /// Lowest hit density, while it beats LRU; with the shipped prior.
    GuardedDensity,
    /// [`Self::GuardedDensity`] without a prior.
    NoPrior,
}

impl PolicyKind {
    /// The policy of the runtime.
    pub const DEFAULT: Self = Self::GuardedDensity;

    pub const ALL: [Self; 9] = [
        Self::Fifo,
        Self::Lru,
        Self::Lfu,
        Self::Arc,
        Self::S3Fifo,
        Self::SessionLru,
        Self::GraphScore,
        Self::GuardedDensity,
        Self::NoPrior,
    ];

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
            Self::NoPrior => "no-prior",
        }
    }

    /// For a store of `budget_bytes`.
    pub fn build<Id: Name>(self, budget_bytes: u64) -> Box<dyn Policy<Id>> {
        match self {
            Self::Fifo => Box::new(fifo::Fifo::default()),
            Self::Lru => Box::new(Lru::default()),
            Self::Lfu => Box::new(lfu::Lfu::default()),
            Self::Arc => Box::new(arc::Arc::new(budget_bytes)),
            Self::S3Fifo => Box::new(s3_fifo::S3Fifo::new(budget_bytes)),
            Self::SessionLru => Box::new(session_lru::SessionLru::new(budget_bytes)),
            Self::GraphScore => Box::new(graph_score::GraphScore::default()),
            Self::GuardedDensity => {
                Box::new(GuardedDensity::with_history(budget_bytes, &History::prior()))
            }
            Self::NoPrior => Box::new(GuardedDensity::new(budget_bytes)),
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no policy is called \"{got}\": it is one of {}", PolicyKind::ALL.map(PolicyKind::name).join(", "))]
pub struct UnknownPolicy {
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
