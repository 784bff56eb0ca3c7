//! What the warming loop publishes: the state of each prefix, counts of prewarms by outcome, and when the
//! weights are unloaded.
//!
//! - The loop writes, any task reads, and neither waits for the other.

use std::collections::BTreeMap;

use hob_prewarm::{PrefixName, TokenOrigin, TrackedPrefix};
use hob_slots::Timestamp;
use tokio::sync::watch;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarmStatus {
    pub prefixes: BTreeMap<PrefixName, TrackedPrefix>,
    /// Prewarms and touches since the start.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// When the weights are unloaded, if no turn begins before; `None`: they stay, or are unloaded.
    pub unload_at: Option<Timestamp>,
}

/// How a prewarm or a touch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The prefix is warm; most of its tokens came from here.
    Warm(TokenOrigin),
    Failed,
    /// The planner cancelled it for something more urgent.
    Cancelled,
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warm(origin) => origin.as_str(),
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

#[derive(Clone, Debug)]
pub struct WarmStatusReader(watch::Receiver<WarmStatus>);

#[derive(Debug)]
pub struct WarmStatusWriter(watch::Sender<WarmStatus>);

/// The two ends of an empty status.
pub fn warm_status() -> (WarmStatusWriter, WarmStatusReader) {
    let (writer, reader) = watch::channel(WarmStatus::default());
    (WarmStatusWriter(writer), WarmStatusReader(reader))
}

impl WarmStatusReader {
    pub fn read(&self) -> WarmStatus {
        self.0.borrow().clone()
    }
}

impl WarmStatusWriter {
    pub(super) fn show<'a>(
        &self,
        prefixes: impl Iterator<Item = (&'a PrefixName, TrackedPrefix)>,
        unload_at: Option<Timestamp>,
    ) {
        let shown = prefixes.map(|(name, prefix)| (name.clone(), prefix)).collect();
        self.0.send_if_modified(|warm_status| {
            let differs = warm_status.prefixes != shown || warm_status.unload_at != unload_at;
            (warm_status.prefixes, warm_status.unload_at) = (shown, unload_at);
            differs
        });
    }

    pub(super) fn count(&self, outcome: Outcome) {
        self.0.send_modify(|warm_status| *warm_status.outcomes.entry(outcome).or_default() += 1);
    }
}
