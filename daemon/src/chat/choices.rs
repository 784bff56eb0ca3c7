//! The turns of one request, as one stream of events.
//!
//! - The first turn starts alone. The others start when its prompt is in the cache, and share its
//!   cells.
//! - Dropping it cancels every turn. Turns that have ended stay until then: the engine begins what it does behind an
//!   answer once the answer is stored and its end is handed out.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};

use hob_runtime::Engine;
use hob_runtime::turn::{Turn, TurnError, TurnEvent, TurnRequest};

use crate::conversations::transcript::TurnTicket;

/// The turns of one request, numbered from 0.
#[derive(Debug)]
pub struct Choices {
    engine: Engine,
    running: Vec<(usize, Turn)>,
    ended: Vec<Turn>,
    later: VecDeque<(usize, TurnRequest)>,
    first_is_cached: bool,
}

/// Starts the turns of a request, unless its conversation was deleted since it began.
///
/// # Errors
/// [`TurnError::Forgotten`] when the conversation was deleted; or the engine refuses the first turn.
pub fn start(
    engine: Engine,
    requests: Vec<TurnRequest>,
    ticket: Option<&TurnTicket>,
) -> Result<Choices, TurnError> {
    let start = || Choices::start(engine, requests);
    match ticket {
        // The ticket's lock orders the two: `submit` comes before the deletion's `forget`, or never.
        Some(ticket) => ticket.unless_deleted(start).unwrap_or(Err(TurnError::Forgotten)),
        None => start(),
    }
}

/// `count` turns of one prompt. Each has a seed of its own: equal seeds give equal answers.
pub fn copies(turn: TurnRequest, count: usize) -> impl Iterator<Item = TurnRequest> {
    (0..count as u64).map(move |number| {
        let mut copy = turn.clone();
        copy.sampling.seed = turn.sampling.seed.map(|seed| seed.wrapping_add(number));
        copy
    })
}

impl Choices {
    /// Submits the first of `requests`; the others follow later.
    ///
    /// # Errors
    /// When the engine refuses the first one.
    fn start(engine: Engine, requests: Vec<TurnRequest>) -> Result<Self, TurnError> {
        let mut later: VecDeque<_> = requests.into_iter().enumerate().collect();
        let (index, first) = later.pop_front().expect("a request has at least one choice");
        let running = vec![(index, engine.submit(first)?)];
        Ok(Self { engine, running, ended: Vec::new(), later, first_is_cached: false })
    }

    /// The next event and its turn; `None` when all turns have ended. Cancelling the wait loses
    /// nothing.
    pub async fn next(&mut self) -> Option<(usize, TurnEvent)> {
        if let Err((index, error)) = self.start_later() {
            return Some((index, TurnEvent::Failed(error)));
        }
        if self.running.is_empty() {
            return None;
        }
        let (index, event) = poll_fn(|context| self.poll(context)).await;
        match event {
            TurnEvent::Started(_) => self.first_is_cached = true,
            TurnEvent::Progress(_) | TurnEvent::Moved(_) | TurnEvent::Token { .. } => {}
            TurnEvent::Finished { .. } | TurnEvent::Failed(_) => {
                let ended = self.running.extract_if(.., |(running, _)| *running == index);
                self.ended.extend(ended.map(|(_, turn)| turn));
                self.first_is_cached = true; // If it failed, the others may still succeed.
            }
        }
        Some((index, event))
    }

    /// Submits as many as the queue accepts. The rest wait while another turn of the request runs.
    fn start_later(&mut self) -> Result<(), (usize, TurnError)> {
        while self.first_is_cached
            && let Some((index, request)) = self.later.front()
        {
            match self.engine.submit(request.clone()) {
                Ok(turn) => self.running.push((*index, turn)),
                Err(TurnError::Busy { .. }) if !self.running.is_empty() => break,
                Err(error) => {
                    let index = *index;
                    self.later.pop_front();
                    return Err((index, error));
                }
            }
            self.later.pop_front();
        }
        Ok(())
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<(usize, TurnEvent)> {
        for (index, turn) in &mut self.running {
            if let Poll::Ready(event) = pin!(turn.next()).poll(context) {
                // The channel closed without a last event: the engine has stopped.
                return Poll::Ready((
                    *index,
                    event.unwrap_or(TurnEvent::Failed(TurnError::Stopped)),
                ));
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use hob_runtime::EngineOptions;
    use hob_runtime::backend::fake::FakeModel;
    use hob_slots::{ConversationId, ModelHash, Token};
    use hob_testkit::wait::PATIENCE;

    use super::*;

    /// Tokens with cells.
    async fn held(engine: &Engine) -> usize {
        let status = engine.cell_status().await.unwrap();
        status.slots.iter().map(|slot| slot.tokens).sum()
    }

    #[tokio::test]
    async fn the_engine_computes_nothing_behind_an_answer_before_this_is_dropped() {
        let options = EngineOptions { delivery_patience: 2 * PATIENCE, ..EngineOptions::default() };
        let model = Arc::new(FakeModel::new());
        let engine = Engine::start(model, ModelHash([7; 8]), None, options).unwrap();
        let chat = ConversationId::new("chat").unwrap();
        let request = TurnRequest::answer(Some(chat), vec![Token(97); 40], 4);
        let mut choices = start(engine.clone(), vec![request], None).unwrap();
        let mut whole = 0;
        while let Some((_, event)) = choices.next().await {
            if let TurnEvent::Finished { timeline, .. } = event {
                whole = timeline.len();
            }
        }
        // Each is served in a round of its own.
        for _ in 0..3 {
            assert_eq!(held(&engine).await, whole - 1);
        }
        drop(choices);
        let end = Instant::now() + PATIENCE;
        while held(&engine).await < whole {
            assert!(Instant::now() < end, "the last token is not computed");
        }
    }
}
