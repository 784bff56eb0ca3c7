//! The policies by name.

use std::fmt;
use std::str::FromStr;

use super::Scorer;
use super::evoke::Evoke;
use super::graph::Graph;
use super::random::Random;
use super::recency::Recency;
use super::streaming::Streaming;

/// Which blocks leave first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// The block that was used longest ago.
    Recency,
    /// The oldest block, whatever uses it.
    Streaming,
    /// By chance.
    Random,
    /// The lowest score of EVOKE.
    Evoke,
    /// The block that is related least to the others, as in KVCacheGraph.
    #[default]
    Graph,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{got:?} is not an eviction policy: use recency, streaming, random, evoke or graph")]
pub struct UnknownPolicy {
    pub got: String,
}

impl Policy {
    pub const ALL: [Self; 5] =
        [Self::Recency, Self::Streaming, Self::Random, Self::Evoke, Self::Graph];

    /// The word in settings and benchmarks.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Recency => "recency",
            Self::Streaming => "streaming",
            Self::Random => "random",
            Self::Evoke => "evoke",
            Self::Graph => "graph",
        }
    }

    /// `seed`: of [`Random`]; the others draw nothing.
    pub fn scorer(self, seed: u64) -> Box<dyn Scorer> {
        match self {
            Self::Recency => Box::new(Recency),
            Self::Streaming => Box::new(Streaming),
            Self::Random => Box::new(Random::new(seed)),
            Self::Evoke => Box::new(Evoke),
            Self::Graph => Box::new(Graph),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let policy = Self::ALL.into_iter().find(|policy| policy.as_str() == text);
        policy.ok_or_else(|| UnknownPolicy { got: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_from_its_word() {
        for policy in Policy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        let error = "lru".parse::<Policy>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"lru\" is not an eviction policy: use recency, streaming, random, evoke or graph"
        );
    }
}
