//! Events and the time in, actions and the next wake-up out.
//!
//! - A conversation that nobody has spoken in for `idle_after` is parked, once; one with a turn
//!   running or queued never is.
//! - Those that are due together are parked in the order in which they fell silent.
//! - When the clock steps back nothing is due because of it: silence is counted anew from there,
//!   so nothing stays hot for good either.
//! - The same events at the same times always lead to the same actions.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use hob_slots::{ConversationId, Timestamp};

/// What the planner goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a conversation stays hot after its last turn.
    pub idle_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { idle_after: Duration::from_secs(5 * 60) }
    }
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A turn was queued or began.
    TurnStarted {
        /// Whose turn.
        conversation: ConversationId,
    },
    /// A turn that had started is over, however it ended.
    TurnEnded {
        /// Whose turn.
        conversation: ConversationId,
    },
    /// Nothing of the conversation is hot any longer, or it was deleted.
    Forgotten {
        /// Which one.
        conversation: ConversationId,
    },
}

/// What should happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Move the conversation from the slots to memory and disk.
    Park(ConversationId),
}

/// Knows which conversations are hot and since when they are silent.
#[derive(Debug)]
pub struct Planner {
    settings: Settings,
    hot: BTreeMap<ConversationId, Hot>,
    actions: VecDeque<Action>,
    // When the planner was last told the time.
    told: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hot {
    Speaking { turns: usize },
    Silent { since: Timestamp },
}

impl Planner {
    /// A planner that knows of no conversation.
    pub fn new(settings: Settings) -> Self {
        Self { settings, hot: BTreeMap::new(), actions: VecDeque::new(), told: Timestamp(0) }
    }

    /// Takes note of `event`, which happened `now`.
    pub fn handle(&mut self, event: Event, now: Timestamp) {
        self.pass_to(now);
        match event {
            Event::TurnStarted { conversation } => self.start(conversation),
            Event::TurnEnded { conversation } => self.end(conversation, now),
            Event::Forgotten { conversation } => self.forget(&conversation),
        }
    }

    /// Takes note of the time: to be called when [`Planner::next_wake`] has come.
    pub fn wake(&mut self, now: Timestamp) {
        self.pass_to(now);
    }

    /// The next thing to do; to be drained before waiting again.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When something is due although nothing happens; `None` while everything is quiet.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let first = self.silent().map(|(since, _)| since).min()?;
        Some(first.after(self.settings.idle_after))
    }

    fn start(&mut self, conversation: ConversationId) {
        self.withdraw(&conversation);
        let hot = self.hot.entry(conversation).or_insert(Hot::Speaking { turns: 0 });
        *hot = match *hot {
            Hot::Speaking { turns } => Hot::Speaking { turns: turns + 1 },
            Hot::Silent { .. } => Hot::Speaking { turns: 1 },
        };
    }

    /// A turn that was never announced still leaves its conversation hot.
    fn end(&mut self, conversation: ConversationId, now: Timestamp) {
        self.withdraw(&conversation);
        match self.hot.get_mut(&conversation) {
            Some(Hot::Speaking { turns }) if *turns > 1 => *turns -= 1,
            _ => {
                self.hot.insert(conversation, Hot::Silent { since: now });
            }
        }
    }

    fn forget(&mut self, conversation: &ConversationId) {
        self.withdraw(conversation);
        self.hot.remove(conversation);
    }

    /// Who speaks again, or is gone, must not be parked by a decision from before.
    fn withdraw(&mut self, conversation: &ConversationId) {
        self.actions.retain(|Action::Park(parked)| parked != conversation);
    }

    fn pass_to(&mut self, now: Timestamp) {
        if now < self.told {
            self.count_anew_from(now);
        }
        self.told = now;
        self.park_the_idle(now);
    }

    fn count_anew_from(&mut self, now: Timestamp) {
        for hot in self.hot.values_mut() {
            if let Hot::Silent { since } = hot {
                *since = now.min(*since);
            }
        }
    }

    fn park_the_idle(&mut self, now: Timestamp) {
        let is_due = |&(since, _): &(Timestamp, _)| since.age(now) >= self.settings.idle_after;
        let mut due: Vec<_> = self.silent().filter(is_due).map(|(s, id)| (s, id.clone())).collect();
        due.sort();
        for (_, conversation) in due {
            self.hot.remove(&conversation);
            self.actions.push_back(Action::Park(conversation));
        }
    }

    fn silent(&self) -> impl Iterator<Item = (Timestamp, &ConversationId)> {
        self.hot.iter().filter_map(|(conversation, hot)| match hot {
            Hot::Silent { since } => Some((*since, conversation)),
            Hot::Speaking { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests;
