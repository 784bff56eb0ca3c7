//! What is known of a profile's prefix: what it is called, and how it became warm.
//!
//! - Plain data, for whoever shows it.

use std::fmt;

use hob_slots::Timestamp;

/// Where the tokens of a prefix came from. The four add up to its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Were hot already, here or in another sequence.
    pub shared: usize,
    /// Were imported from host memory.
    pub memory: usize,
    /// Were read from disk.
    pub disk: usize,
    /// Were computed.
    pub computed: usize,
}

impl Sources {
    /// All tokens.
    pub fn tokens(&self) -> usize {
        self.shared + self.memory + self.disk + self.computed
    }

    /// Where most of them came from.
    pub fn how(&self) -> How {
        let Self { shared, memory, disk, computed } = *self;
        let ways = [
            (shared, How::Shared),
            (memory, How::Memory),
            (disk, How::Disk),
            (computed, How::Computed),
        ];
        // The last of equals: the one that took the most time.
        ways.into_iter().max_by_key(|(tokens, _)| *tokens).map_or(How::Shared, |(_, how)| how)
    }
}

/// How a prefix became warm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// It was.
    Shared,
    /// By an import from host memory.
    Memory,
    /// By an import from disk.
    Disk,
    /// By prefill.
    Computed,
}

impl How {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Computed => "computed",
        }
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What is known of a profile's prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// What happens to it.
    pub state: PrefixState,
    /// How it became warm, when it was at last.
    pub warmed: Option<Warmed>,
    /// Why it is not warm, or not any longer; `None` when the last attempt succeeded.
    pub failed: Option<Failed>,
}

/// What happens to a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixState {
    /// It will be made warm.
    Waiting,
    /// It is being made warm.
    Warming,
    /// It is warm, and kept so.
    Warm,
}

impl PrefixState {
    /// The word for it.
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
    /// Where its tokens came from.
    pub from: Sources,
    /// When.
    pub at: Timestamp,
    /// When it was last used or touched.
    pub touched: Timestamp,
}

/// Why a prefix could not be made warm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What was said.
    pub reason: String,
    /// When.
    pub at: Timestamp,
    /// How often in a row.
    pub times: u32,
}
