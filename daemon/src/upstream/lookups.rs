//! Names of models that requests asked for, and that the engine did not list when it was asked for each of them.
//!
//! - Pure: takes `now`.
//! - Many clients name a model that no engine here has, such as `gpt-4o`, in each request. Such a name costs one
//!   listing in [`REMEMBERED`], and all names together at most [`MAX_NAMES`].

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const REMEMBERED: Duration = Duration::from_secs(10);

const MAX_NAMES: usize = 64;

/// Longer names are not looked up: engines name models by paths at most.
const MAX_NAME_BYTES: usize = 1024;

#[derive(Debug, Default)]
pub struct Lookups {
    /// When each name was looked up.
    at: BTreeMap<String, Instant>,
}

impl Lookups {
    /// Whether the engine should be asked for its models because of `name`, which is not among the known ones.
    pub fn is_due(&mut self, name: &str, now: Instant) -> bool {
        self.at.retain(|_, at| now.saturating_duration_since(*at) < REMEMBERED);
        name.len() <= MAX_NAME_BYTES && self.at.len() < MAX_NAMES && !self.at.contains_key(name)
    }

    /// The engine was asked because of `name`, successfully or not.
    pub fn note(&mut self, name: &str, now: Instant) {
        self.at.insert(name.to_owned(), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_once_in_ten_seconds() {
        let (mut lookups, begun) = (Lookups::default(), Instant::now());
        assert!(lookups.is_due("gpt-4o", begun));
        lookups.note("gpt-4o", begun);
        assert!(!lookups.is_due("gpt-4o", begun + Duration::from_millis(9_999)));
        assert!(lookups.is_due("another", begun));
        assert!(lookups.is_due("gpt-4o", begun + REMEMBERED));
    }

    #[test]
    fn lookups_are_bounded() {
        let (mut lookups, begun) = (Lookups::default(), Instant::now());
        assert!(!lookups.is_due(&"x".repeat(MAX_NAME_BYTES + 1), begun));
        for n in 0..MAX_NAMES {
            assert!(lookups.is_due(&n.to_string(), begun));
            lookups.note(&n.to_string(), begun);
        }
        assert!(!lookups.is_due("one more", begun));
        assert!(lookups.is_due("one more", begun + REMEMBERED));
    }
}
