//! A caller's request to the engine and the events that answer it. No threads, no llama.cpp.
//!
//! - A [`TurnRequest`] carries tokens, never text: templates and tokenizers run before the engine.
//! - Events arrive in order: any number of `Progress`, one `Started`, any number of `Token`, one
//!   `Finished` or `Failed`; `Moved` at any place between.
//! - Dropping the [`Turn`] cancels it; the engine notices before its next micro-batch, cuts a long one, and
//!   wakes where it waits for the disk.
//! - Dropping it behind its last event begins the work behind the answer, which otherwise waits for
//!   `EngineOptions::delivery_patience`.

mod error;
mod report;
mod request;

use std::fmt;
use std::sync::Arc;

use hob_slots::Token;
use tokio::sync::{mpsc, watch};

use crate::heartbeat::{Death, Heartbeat, died};

pub use error::TurnError;
pub use report::{
    AheadCounts, BackReason, CellCounts, DraftCounts, Moved, PromptPhase, PromptProgress,
    RecallReport, TokenCounts, TurnReport, Way,
};
pub use request::{Purpose, Retention, Reuse, TurnRequest};

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// An end-of-generation token, a stop text, or the end of the grammar.
    Stop,
    /// `max_tokens` were generated, or the context is full.
    Length,
    /// A line ended behind `max_time_to_line`.
    Time,
}

/// A likely token and its natural-log probability.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprob {
    pub token: Token,
    /// The token's piece, which need not be valid UTF-8 by itself.
    pub bytes: Vec<u8>,
    /// ln(p) under the model's own distribution, before temperature and filters, unless the request asks for
    /// that of the sampling.
    pub logprob: f32,
}

/// The chosen token's log-probability and the likeliest alternatives, most likely first.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprobs {
    pub chosen: TokenLogprob,
    pub top: Vec<TokenLogprob>,
}

#[derive(Clone, Debug)]
pub enum TurnEvent {
    /// Present when the request asked for it: one at each change of the phase, at most ten a second
    /// beside.
    Progress(PromptProgress),
    /// The prompt is computed and the first token is known: sent once, before any `Token`.
    Started(TurnReport),
    /// A block has moved; any number, at any time before the last event.
    Moved(Moved),
    /// A token of the answer.
    Token {
        token: Token,
        /// Text that no stop text can take back any more, in whole UTF-8. Often empty.
        text: String,
        /// Present when the request asked for it.
        logprobs: Option<Logprobs>,
    },
    /// The answer is complete.
    Finished {
        reason: FinishReason,
        /// The held-back rest of the text.
        text: String,
        /// The stop text that ended it; `None`: another reason.
        stop_text: Option<String>,
        /// Generated tokens, the end-of-generation token included.
        completion_tokens: usize,
        /// From the first token to the last one.
        generation_ms: f64,
        drafts: DraftCounts,
        cells: CellCounts,
        /// Prompt and answer, the end-of-generation token included.
        timeline: Vec<Token>,
    },
    Failed(TurnError),
}

/// A turn under way. Dropping it cancels it. Behind its last event: a caller that passes the answer on keeps it until
/// that is done, so that the engine computes nothing meanwhile.
#[derive(Debug)]
pub struct Turn {
    events: mpsc::UnboundedReceiver<TurnEvent>,
    death: watch::Receiver<Option<Death>>,
    heartbeat: Arc<Heartbeat>,
    wake: Wake,
    /// The last event was received.
    over: bool,
}

/// Wakes the engine's thread where that waits for a command.
struct Wake(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wake")
    }
}

impl Turn {
    /// `heartbeat`: of the engine that runs the turn, which `wake` wakes.
    pub(crate) fn channel(
        heartbeat: Arc<Heartbeat>,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> (EventSender, Self) {
        let (send, events) = mpsc::unbounded_channel();
        let (death, wake) = (heartbeat.death(), Wake(Box::new(wake)));
        (EventSender(send), Self { events, death, heartbeat, wake, over: false })
    }

    /// The next event; `None` after the last one.
    pub async fn next(&mut self) -> Option<TurnEvent> {
        if self.over {
            return None;
        }
        let event = tokio::select! {
            biased; // What came before the death is delivered.
            event = self.events.recv() => event,
            death = died(&mut self.death) => Some(TurnEvent::Failed(TurnError::Dead(death))),
        };
        Some(self.or_stopped(event))
    }

    /// The next event, for callers without a runtime; `None` after the last one.
    pub fn next_blocking(&mut self) -> Option<TurnEvent> {
        if self.over {
            return None; // The engine keeps its end of the channel until the turn is dropped.
        }
        let event = self.events.blocking_recv();
        Some(self.or_stopped(event))
    }

    /// A channel that ends without a last event means that the engine has stopped or died.
    fn or_stopped(&mut self, event: Option<TurnEvent>) -> TurnEvent {
        let event = event.unwrap_or_else(|| {
            let death = self.death.borrow().clone();
            TurnEvent::Failed(death.map_or(TurnError::Stopped, TurnError::Dead))
        });
        self.over = matches!(event, TurnEvent::Finished { .. } | TurnEvent::Failed(_));
        event
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.events.close(); // The engine sees it as soon as it is called.
        if !self.over {
            self.heartbeat.attention.call();
        }
        (self.wake.0)();
    }
}

/// Sends a turn's events. A caller that has dropped its [`Turn`] is ignored here: the worker ends
/// the turn before its next micro-batch.
#[derive(Clone)]
pub(crate) struct EventSender(mpsc::UnboundedSender<TurnEvent>);

impl EventSender {
    pub fn send(&self, event: TurnEvent) {
        self.0.send(event).ok();
    }

    pub fn fail(&self, error: TurnError) {
        self.send(TurnEvent::Failed(error));
    }

    /// Whether the caller has dropped its [`Turn`].
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}
