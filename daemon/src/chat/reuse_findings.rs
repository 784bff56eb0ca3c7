//! What the guard of moved KV has found of profiles, as its file has it. Pure.
//!
//! - It has the names of profiles and figures, and nothing of their texts.
//! - The findings of another version of Hob count as none: it may repair seams otherwise.

use std::collections::BTreeMap;

use hob_prewarm::ProfileName;
use hob_prewarm::profile::ReuseLimits;
use hob_runtime::likeness::Likeness;
use serde::{Deserialize, Serialize};

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Findings {
    version: String,
    profiles: BTreeMap<String, Finding>,
}

/// What is known of a profile.
#[derive(Debug, Serialize, Deserialize)]
pub struct Finding {
    /// The limits by which it was judged.
    pub limits: ReuseLimits,
    /// Answers that were compared.
    pub samples: u64,
    /// The latest of them, the oldest first.
    pub latest: Vec<Compared>,
    /// Why its answers are exact.
    pub fell_back: Option<String>,
}

/// The figures of a [`Likeness`] that decide.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Compared {
    tokens: usize,
    agreeing: usize,
    divergence: f64,
}

impl Findings {
    pub fn of<'p>(profiles: impl Iterator<Item = (&'p ProfileName, Finding)>) -> Self {
        let profiles = profiles.map(|(name, finding)| (name.to_string(), finding)).collect();
        Self { version: VERSION.to_owned(), profiles }
    }

    /// The findings of this version of Hob.
    pub fn current(self) -> impl Iterator<Item = (ProfileName, Finding)> {
        let is_current = self.version == VERSION;
        let profiles = self.profiles.into_iter().filter(move |_| is_current);
        profiles.filter_map(|(name, finding)| Some((name.parse().ok()?, finding)))
    }
}

impl From<&Likeness> for Compared {
    fn from(likeness: &Likeness) -> Self {
        let Likeness { compared: tokens, agreeing, divergence, .. } = *likeness;
        // JSON has no infinity.
        Self { tokens, agreeing, divergence: divergence.min(f64::MAX) }
    }
}

impl From<Compared> for Likeness {
    fn from(figures: Compared) -> Self {
        let Compared { tokens: compared, agreeing, divergence } = figures;
        Self { answers: 1, compared, agreeing, divergence, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_findings_of_another_version_are_none() {
        let name: ProfileName = "reader".parse().unwrap();
        let limits = ReuseLimits::default();
        let finding = Finding { limits, samples: 4, latest: Vec::new(), fell_back: None };
        let mut findings = Findings::of(std::iter::once((&name, finding)));
        let json = serde_json::to_string(&findings).unwrap();
        let read: Findings = serde_json::from_str(&json).unwrap();
        assert_eq!(read.current().map(|(name, _)| name).collect::<Vec<_>>(), [name]);
        findings.version.push('0');
        assert_eq!(findings.current().count(), 0);
    }
}
