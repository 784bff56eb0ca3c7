//! Where the events of an answer come from: the engine in this process, or one at another address.

use std::time::Instant;

use hob_runtime::turn::{Logprobs, TokenLogprob, TurnEvent};
use hob_slots::Token;
use tokio::task::JoinSet;

use super::choices::Choices;
use crate::error::ApiError;
use crate::upstream::chunk::{Logprob, TokenLogprobs};
use crate::upstream::{Event, UpstreamAnswer, UpstreamError};

/// Dropping it cancels the answer.
pub enum Source {
    Engine(Choices),
    Upstream(Box<Forwarded>),
}

#[derive(Debug)]
pub enum AnswerEvent {
    /// The number of a choice, and its event.
    Turn(usize, TurnEvent),
    Upstream(Event),
}

impl Source {
    pub fn upstream(&self) -> Option<&Forwarded> {
        match self {
            Self::Engine(_) => None,
            Self::Upstream(forwarded) => Some(forwarded),
        }
    }

    /// The next event; `None` at the end. Cancelling the wait loses nothing.
    ///
    /// # Errors
    /// When an engine at another address gives no answer; the one in this process says so in an event.
    pub async fn next(&mut self) -> Result<Option<AnswerEvent>, ApiError> {
        Ok(match self {
            Self::Engine(choices) => {
                choices.next().await.map(|(choice, event)| AnswerEvent::Turn(choice, event))
            }
            Self::Upstream(forwarded) => forwarded.next().await?.map(AnswerEvent::Upstream),
        })
    }
}

/// An answer of an engine at another address.
pub struct Forwarded {
    pub state: Forwarding,
    /// When the engine got the request.
    pub begun: Instant,
    /// The model that it is asked for, under the engine's name. The engine may serve another one once it answers.
    pub model: String,
    pub url: String,
}

pub enum Forwarding {
    /// The engine has not begun to answer. One task, which ends with the set.
    Opening(JoinSet<Result<UpstreamAnswer, UpstreamError>>),
    Open(UpstreamAnswer),
}

impl Forwarded {
    async fn next(&mut self) -> Result<Option<Event>, ApiError> {
        loop {
            match &mut self.state {
                Forwarding::Opening(opening) => {
                    let opened = opening.join_next().await.expect("it has a task");
                    let opened = opened.expect("the task does not panic")?;
                    opened.model().clone_into(&mut self.model);
                    self.state = Forwarding::Open(opened);
                }
                Forwarding::Open(answer) => return Ok(answer.next().await?),
            }
        }
    }

    /// Milliseconds since the engine got the request.
    pub fn elapsed_ms(&self) -> f64 {
        self.begun.elapsed().as_secs_f64() * 1e3
    }
}

/// The log-probabilities of tokens whose numbers are unknown here.
pub fn logprobs_of(tokens: Vec<TokenLogprobs>) -> Vec<Logprobs> {
    let one = |Logprob { bytes, logprob }| TokenLogprob { token: Token(-1), bytes, logprob };
    let of_token = |TokenLogprobs { chosen, top }| Logprobs {
        chosen: one(chosen),
        top: top.into_iter().map(one).collect(),
    };
    tokens.into_iter().map(of_token).collect()
}
