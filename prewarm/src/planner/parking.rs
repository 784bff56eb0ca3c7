//! Decides which hot conversations to park, by the time since their last turn.

use std::collections::BTreeMap;
use std::time::Duration;

use hob_slots::{ConversationId, Timestamp};

#[derive(Debug)]
pub(super) struct Parking {
    idle_after: Duration,
    hot: BTreeMap<ConversationId, Hot>,
    /// Turns without a conversation that are queued or running.
    anonymous_turns: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hot {
    /// Turns that are queued or running.
    Active {
        turns: usize,
    },
    Idle {
        since: Timestamp,
    },
}

impl Parking {
    pub(super) fn new(idle_after: Duration) -> Self {
        Self { idle_after, hot: BTreeMap::new(), anonymous_turns: 0 }
    }

    /// `None`: without a conversation, so there is nothing to park.
    pub(super) fn turn_started(&mut self, conversation: Option<ConversationId>) {
        let Some(conversation) = conversation else {
            self.anonymous_turns += 1;
            return;
        };
        let hot = self.hot.entry(conversation).or_insert(Hot::Active { turns: 0 });
        *hot = match *hot {
            Hot::Active { turns } => Hot::Active { turns: turns + 1 },
            Hot::Idle { .. } => Hot::Active { turns: 1 },
        };
    }

    /// A turn without a start leaves its conversation hot too.
    pub(super) fn turn_ended(&mut self, conversation: Option<ConversationId>, now: Timestamp) {
        let Some(conversation) = conversation else {
            self.anonymous_turns = self.anonymous_turns.saturating_sub(1);
            return;
        };
        match self.hot.get_mut(&conversation) {
            Some(Hot::Active { turns }) if *turns > 1 => *turns -= 1,
            _ => {
                self.hot.insert(conversation, Hot::Idle { since: now });
            }
        }
    }

    pub(super) fn forget(&mut self, conversation: &ConversationId) {
        self.hot.remove(conversation);
    }

    pub(super) fn has_active_turns(&self) -> bool {
        let is_active = |hot: &Hot| matches!(hot, Hot::Active { .. });
        self.anonymous_turns > 0 || self.hot.values().any(is_active)
    }

    pub(super) fn clock_stepped_back(&mut self, now: Timestamp) {
        for hot in self.hot.values_mut() {
            if let Hot::Idle { since } = hot {
                *since = now.min(*since);
            }
        }
    }

    /// Removes and returns the conversations that were idle for `idle_after`, the longest idle
    /// first.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Vec<ConversationId> {
        let is_due = |&(since, _): &(Timestamp, _)| since.age(now) >= self.idle_after;
        let mut due: Vec<_> = self.idle().filter(is_due).map(|(s, id)| (s, id.clone())).collect();
        due.sort();
        for (_, conversation) in &due {
            self.hot.remove(conversation);
        }
        due.into_iter().map(|(_, conversation)| conversation).collect()
    }

    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        let first = self.idle().map(|(since, _)| since).min()?;
        Some(first.after(self.idle_after))
    }

    fn idle(&self) -> impl Iterator<Item = (Timestamp, &ConversationId)> {
        self.hot.iter().filter_map(|(conversation, hot)| match hot {
            Hot::Idle { since } => Some((*since, conversation)),
            Hot::Active { .. } => None,
        })
    }
}
