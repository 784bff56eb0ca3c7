//! What the loop tells of prefixes: each one's state, and how often what came of warming them.
//!
//! - The loop writes, everybody reads; nobody waits for the other.

use std::collections::BTreeMap;

use hob_prewarm::{How, Prefix, ProfileName};
use tokio::sync::watch;

/// What is known of prefixes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarmStatus {
    /// Each profile's.
    pub prefixes: BTreeMap<ProfileName, Prefix>,
    /// Prewarms and touches since the start, by what came of them.
    pub outcomes: BTreeMap<Outcome, u64>,
}

/// What came of warming a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It is warm, and became so in this way.
    Warm(How),
    /// It could not be warmed now.
    Failed,
    /// Something else came first.
    Cancelled,
}

impl Outcome {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warm(how) => how.as_str(),
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The end that reads.
#[derive(Clone, Debug)]
pub struct WarmStatusReader(watch::Receiver<WarmStatus>);

/// The end that the loop writes.
#[derive(Debug)]
pub struct BoardWriter(watch::Sender<WarmStatus>);

/// An empty board.
pub fn warm_status() -> (BoardWriter, WarmStatusReader) {
    let (writer, reader) = watch::channel(WarmStatus::default());
    (BoardWriter(writer), WarmStatusReader(reader))
}

impl WarmStatusReader {
    /// What it says now.
    pub fn read(&self) -> WarmStatus {
        self.0.borrow().clone()
    }
}

impl BoardWriter {
    pub(super) fn show<'a>(&self, prefixes: impl Iterator<Item = (&'a ProfileName, Prefix)>) {
        let shown = prefixes.map(|(profile, prefix)| (profile.clone(), prefix)).collect();
        self.0.send_if_modified(|warm_status| {
            let differs = warm_status.prefixes != shown;
            warm_status.prefixes = shown;
            differs
        });
    }

    pub(super) fn count(&self, outcome: Outcome) {
        self.0.send_modify(|warm_status| *warm_status.outcomes.entry(outcome).or_default() += 1);
    }
}
