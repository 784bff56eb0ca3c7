//! A turn in the queue. Data and questions about it; no llama.cpp.

use hob_slots::{ConversationId, Token};

use super::running::Running;
use crate::adapters::Adapters;
use crate::command::Submitted;
use crate::turn::{EventSender, Purpose, Retention};

/// A turn in the queue.
pub(super) enum Waiting {
    New(Box<Submitted>),
    /// Gave its cells to other turns when `ended` turns had ended.
    Preempted {
        turn: Box<Running>,
        ended: u64,
    },
}

impl Waiting {
    pub fn events(&self) -> &EventSender {
        match self {
            Self::New(turn) => &turn.events,
            Self::Preempted { turn, .. } => &turn.events,
        }
    }

    pub fn purpose(&self) -> Purpose {
        match self {
            Self::New(turn) => turn.request.purpose,
            Self::Preempted { turn, .. } => turn.request.purpose,
        }
    }

    /// The id that the turn pins; `None` for a new turn without a conversation.
    pub fn conversation(&self) -> Option<&ConversationId> {
        match self {
            Self::New(turn) => turn.request.conversation.as_ref(),
            Self::Preempted { .. } => self.pins_again(),
        }
    }

    /// The id that a preempted turn has pinned before, and pins again.
    pub fn pins_again(&self) -> Option<&ConversationId> {
        match self {
            Self::New(_) => None,
            Self::Preempted { turn, .. } => Some(turn.owner.id()),
        }
    }

    /// The id of an anonymous turn that has run.
    pub fn anonymous(&self) -> Option<&ConversationId> {
        match self {
            Self::Preempted { turn, .. } if turn.owner.conversation().is_none() => {
                Some(turn.owner.id())
            }
            _ => None,
        }
    }

    pub fn adapters(&self) -> &Adapters {
        match self {
            Self::New(turn) => &turn.request.adapters,
            Self::Preempted { turn, .. } => &turn.request.adapters,
        }
    }

    pub fn prompt(&self) -> &[Token] {
        match self {
            Self::New(turn) => &turn.request.prompt,
            Self::Preempted { turn, .. } => &turn.request.prompt,
        }
    }

    /// How its KV is saved.
    pub fn keep_mut(&mut self) -> &mut Retention {
        match self {
            Self::New(turn) => &mut turn.request.keep,
            Self::Preempted { turn, .. } => &mut turn.request.keep,
        }
    }

    /// The id whose turns this one waits for: that of its conversation.
    pub fn waits_for(&self) -> Option<&ConversationId> {
        self.conversation().filter(|id| !id.is_hint())
    }
}
