//! Which conversations are hot, and since when they are silent.

use std::collections::BTreeMap;
use std::time::Duration;

use hob_slots::{ConversationId, Timestamp};

#[derive(Debug)]
pub(super) struct Parking {
    idle_after: Duration,
    hot: BTreeMap<ConversationId, Hot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hot {
    Speaking { turns: usize },
    Silent { since: Timestamp },
}

impl Parking {
    pub(super) fn new(idle_after: Duration) -> Self {
        Self { idle_after, hot: BTreeMap::new() }
    }

    pub(super) fn start(&mut self, conversation: ConversationId) {
        let hot = self.hot.entry(conversation).or_insert(Hot::Speaking { turns: 0 });
        *hot = match *hot {
            Hot::Speaking { turns } => Hot::Speaking { turns: turns + 1 },
            Hot::Silent { .. } => Hot::Speaking { turns: 1 },
        };
    }

    /// A turn that was never announced still leaves its conversation hot.
    pub(super) fn end(&mut self, conversation: ConversationId, now: Timestamp) {
        match self.hot.get_mut(&conversation) {
            Some(Hot::Speaking { turns }) if *turns > 1 => *turns -= 1,
            _ => {
                self.hot.insert(conversation, Hot::Silent { since: now });
            }
        }
    }

    pub(super) fn forget(&mut self, conversation: &ConversationId) {
        self.hot.remove(conversation);
    }

    pub(super) fn somebody_speaks(&self) -> bool {
        self.hot.values().any(|hot| matches!(hot, Hot::Speaking { .. }))
    }

    pub(super) fn count_anew_from(&mut self, now: Timestamp) {
        for hot in self.hot.values_mut() {
            if let Hot::Silent { since } = hot {
                *since = now.min(*since);
            }
        }
    }

    /// Takes those out that were silent for long enough, the longest silent first.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Vec<ConversationId> {
        let is_due = |&(since, _): &(Timestamp, _)| since.age(now) >= self.idle_after;
        let mut due: Vec<_> = self.silent().filter(is_due).map(|(s, id)| (s, id.clone())).collect();
        due.sort();
        for (_, conversation) in &due {
            self.hot.remove(conversation);
        }
        due.into_iter().map(|(_, conversation)| conversation).collect()
    }

    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        let first = self.silent().map(|(since, _)| since).min()?;
        Some(first.after(self.idle_after))
    }

    fn silent(&self) -> impl Iterator<Item = (Timestamp, &ConversationId)> {
        self.hot.iter().filter_map(|(conversation, hot)| match hot {
            Hot::Silent { since } => Some((*since, conversation)),
            Hot::Speaking { .. } => None,
        })
    }
}
