//! The name of a prefix, its state, and where its tokens came from. Plain data.

use std::fmt;

use hob_slots::{ConversationId, Timestamp};

use crate::learned::LearnedName;
use crate::name::ProfileName;

/// Whose prefix it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PrefixName {
    Profile(ProfileName),
    Learned(LearnedName),
}

impl PrefixName {
    /// The id under which the engine has the prefix.
    pub fn id(&self) -> ConversationId {
        match self {
            Self::Profile(name) => name.prefix_id(),
            Self::Learned(name) => name.prefix_id(),
        }
    }

    /// The prefix with this `id`; `None` for other conversations.
    pub fn of_id(id: &ConversationId) -> Option<Self> {
        let profile = || ProfileName::of_prefix(id).map(Self::Profile);
        profile().or_else(|| LearnedName::of_prefix(id).map(Self::Learned))
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Profile(name) => name.as_str(),
            Self::Learned(name) => name.as_str(),
        }
    }
}

impl fmt::Display for PrefixName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Tokens of a prefix by origin. The four add up to its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenOrigins {
    /// Already hot, in this sequence or in another one.
    pub shared: usize,
    /// Imported from host memory.
    pub memory: usize,
    /// Imported from disk.
    pub disk: usize,
    /// Computed by prefill.
    pub computed: usize,
}

impl TokenOrigins {
    /// All tokens.
    pub fn tokens(&self) -> usize {
        self.shared + self.memory + self.disk + self.computed
    }

    /// The origin of most tokens.
    pub fn main(&self) -> TokenOrigin {
        let Self { shared, memory, disk, computed } = *self;
        let origins = [
            (shared, TokenOrigin::Shared),
            (memory, TokenOrigin::Memory),
            (disk, TokenOrigin::Disk),
            (computed, TokenOrigin::Computed),
        ];
        // The last of equals is the slowest.
        let most = origins.into_iter().max_by_key(|(tokens, _)| *tokens);
        most.map_or(TokenOrigin::Shared, |(_, origin)| origin)
    }
}

/// Where tokens came from, the fastest origin first; see [`TokenOrigins`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TokenOrigin {
    Shared,
    Memory,
    Disk,
    Computed,
}

impl TokenOrigin {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Computed => "computed",
        }
    }
}

impl fmt::Display for TokenOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What the planner knows of a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackedPrefix {
    pub state: PrefixState,
    /// The last success.
    pub warmed: Option<Warmed>,
    /// The last failure; `None` when the last attempt succeeded.
    pub failed: Option<WarmFailure>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixState {
    /// The planner will warm it.
    Waiting,
    /// The engine warms it now.
    Warming,
    /// It is warm, and keep-alive rounds touch it.
    Warm,
}

impl PrefixState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Warming => "warming",
            Self::Warm => "warm",
        }
    }
}

/// How and when a prefix became warm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warmed {
    pub from: TokenOrigins,
    pub at: Timestamp,
    /// The last use or touch.
    pub touched: Timestamp,
}

/// Why a prefix could not be warmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmFailure {
    pub reason: String,
    pub at: Timestamp,
    /// Failures in a row.
    pub times: u32,
}
