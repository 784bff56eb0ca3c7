//! The way from requests to the warming loop: turns, profiles and deletions as planner events.
//!
//! - Sending never waits. Without a running loop the event is dropped.

use hob_prewarm::Event;
use hob_slots::ConversationId;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Sends events to the planner. The loop ends when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct WarmEvents(UnboundedSender<Event>);

impl WarmEvents {
    pub fn channel() -> (Self, UnboundedReceiver<Event>) {
        let (sender, receiver) = unbounded_channel();
        (Self(sender), receiver)
    }

    pub fn send(&self, event: Event) {
        let _ = self.0.send(event);
    }

    /// Sends `TurnStarted` now and `TurnEnded` when the guard is dropped; `None`: a turn without a
    /// conversation.
    pub fn turn(&self, conversation: Option<ConversationId>) -> ActiveTurn {
        self.send(Event::TurnStarted { conversation: conversation.clone() });
        ActiveTurn { conversation, events: self.clone() }
    }
}

/// A turn that keeps its conversation from being parked, and the weights in memory.
#[derive(Debug)]
#[must_use]
pub struct ActiveTurn {
    conversation: Option<ConversationId>,
    events: WarmEvents,
}

impl Drop for ActiveTurn {
    fn drop(&mut self) {
        self.events.send(Event::TurnEnded { conversation: self.conversation.clone() });
    }
}
