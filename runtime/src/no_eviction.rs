//! Why no part of a conversation can leave its cells, in words.

use std::fmt;

/// Why a conversation stays in its cells, and ends with them. A budget of it does not count, except with
/// [`Self::Protected`] and [`Self::Memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoEviction {
    /// The options say so.
    Off,
    /// Some layers have cells of the newest tokens only.
    SlidingWindow,
    /// The model has a running state beside its cells.
    Hybrid,
    /// The model has a running state, and no cells of tokens.
    Recurrent,
    /// Blocks may leave, but what has cells at the end of an answer must stay, or could not be saved.
    Protected,
    /// Blocks may leave, and have to stay in memory, whose budget such blocks use up.
    Memory,
}

impl NoEviction {
    /// The word in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::SlidingWindow => "sliding_window",
            Self::Hybrid => "hybrid",
            Self::Recurrent => "recurrent",
            Self::Protected => "protected",
            Self::Memory => "memory",
        }
    }

    /// What to do for a conversation that is longer than its cells.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Off => "set `eviction` to restore, or start with a larger --ctx",
            Self::Protected => {
                "pin fewer messages, raise the budget where there is one, or start with a larger --ctx"
            }
            Self::Memory => {
                "raise `memory_budget_bytes`, or name a conversation that is not private, whose KV goes to \
                 the disk"
            }
            _ => "start with a larger --ctx, or use a model with plain attention",
        }
    }
}

impl fmt::Display for NoEviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "the setting `eviction` is off",
            Self::SlidingWindow => {
                "the model has layers with a sliding window, to which nothing can be brought back"
            }
            Self::Hybrid => {
                "the model has a running state beside its cells, from which no part can be taken"
            }
            Self::Recurrent => {
                "the model has a running state in place of cells, from which no part can be taken"
            }
            Self::Protected => {
                "all that has cells must stay (instructions, pinned parts, the newest block), or could not be \
                 saved"
            }
            Self::Memory => {
                "KV of private conversations, and of requests without a cache key, stays in memory, where \
                 `memory_budget_bytes` is used up"
            }
        })
    }
}
