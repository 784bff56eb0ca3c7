//! What the engine's handles send to its thread, and how it replies.

use std::time::Instant;

use hob_slots::{ConversationId, SlotId, Token, TtlClass};
use tokio::sync::oneshot;

use crate::grammar::Constraint;
use crate::map::Reading;
use crate::status::EngineStatus;
use crate::tiers::FetchEvent;
use crate::turn::{EventSender, TurnError, TurnRequest};

pub(crate) enum Command {
    Turn(Box<Submitted>),
    Fetched {
        slot: usize,
        fetch: u64,
        event: FetchEvent,
    },
    Embed {
        tokens: Vec<Token>,
        reply: Reply<Result<Vec<f32>, TurnError>>,
    },
    /// Saves a conversation unless it runs. Replies once it is on disk.
    Save {
        conversation: ConversationId,
        done: Reply<()>,
    },
    Park {
        conversation: ConversationId,
        done: Reply<()>,
    },
    Forget {
        conversation: ConversationId,
        done: Reply<Result<(), String>>,
    },
    /// Records a conversation in a slot or in the queue with this class. Replies whether it is or will be recorded so.
    SetClass {
        conversation: ConversationId,
        class: TtlClass,
        done: Reply<bool>,
    },
    /// The last answer of the conversation calls tools.
    CalledTools(ConversationId),
    /// The disk has written some of what waited for it.
    Room,
    /// A caller has dropped its turn, at any time or behind its last event.
    Dropped,
    Status(Reply<EngineStatus>),
    Cells(Reply<Reading>),
    /// Replies what an anonymous turn has left in the cells of a slot.
    UnnamedTokens {
        slot: SlotId,
        reply: Reply<Vec<Token>>,
    },
    /// Replies once no turn runs, all KV is exported, and everything is on disk.
    Settle(Reply<()>),
    /// Loads the weights. Replies once they are loaded, or why they are not.
    Load(Reply<Result<(), TurnError>>),
    /// Drops the weights, unless a turn runs or waits. Replies whether they were dropped.
    Unload(Reply<bool>),
    Stop,
}

impl Command {
    /// Whether its caller [calls](crate::attention::Attention::call_for_command) once it has sent it.
    pub fn calls(&self) -> bool {
        match self {
            Self::Turn(submitted) => !submitted.request.purpose.is_background(),
            Self::Forget { .. } => true,
            _ => false,
        }
    }
}

/// A checked turn, on its way into the queue.
pub(crate) struct Submitted {
    pub request: TurnRequest,
    pub constraint: Option<Constraint>,
    pub events: EventSender,
    pub at: Instant,
}

/// Sends one answer to a caller. A caller that has gone away is ignored.
pub(crate) struct Reply<T>(oneshot::Sender<T>);

impl<T> Reply<T> {
    pub fn channel() -> (Self, oneshot::Receiver<T>) {
        let (sender, answer) = oneshot::channel();
        (Self(sender), answer)
    }

    pub fn send(self, value: T) {
        self.0.send(value).ok();
    }
}
