//! The turns of one request, as one stream of events.
//!
//! - The first turn starts alone. The others start when its prompt is in the cache, and share its
//!   cells.
//! - A turn is made of its request when it is submitted: 64 prompts with 16 answers each would be 1,024 copies, each with
//!   its tokens and the biases of a whole vocabulary.
//! - Dropping it cancels every turn. Turns that have ended stay until then: the engine begins what it does behind an
//!   answer once the answer is stored and its end is handed out.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Range;
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
    /// None is empty.
    later: VecDeque<Copies>,
    /// Turns that have left `later`.
    numbered: usize,
    first_is_cached: bool,
}

/// Turns of one request that differ in their seeds.
#[derive(Debug)]
pub struct Copies {
    request: TurnRequest,
    numbers: Range<u64>,
}

impl Copies {
    /// The turns with these `numbers` among those of a prompt. Each has a seed of its own: equal seeds give equal answers.
    pub fn new(request: TurnRequest, numbers: Range<u64>) -> Self {
        Self { request, numbers }
    }

    fn first(&self) -> TurnRequest {
        let mut copy = self.request.clone();
        copy.sampling.seed = copy.sampling.seed.map(|seed| seed.wrapping_add(self.numbers.start));
        copy
    }
}

/// Starts the turns of a request, unless its conversation was deleted since it began.
///
/// # Errors
/// [`TurnError::Forgotten`] when the conversation was deleted; or the engine refuses the first turn.
pub fn start(
    engine: Engine,
    turns: Vec<Copies>,
    ticket: Option<&TurnTicket>,
) -> Result<Choices, TurnError> {
    let start = || Choices::start(engine, turns);
    match ticket {
        // The ticket's lock orders the two: `submit` comes before the deletion's `forget`, or never.
        Some(ticket) => ticket.unless_deleted(start).unwrap_or(Err(TurnError::Forgotten)),
        None => start(),
    }
}

impl Choices {
    /// Submits the first of `turns`; the others follow later.
    ///
    /// # Errors
    /// When the engine refuses the first one.
    fn start(engine: Engine, turns: Vec<Copies>) -> Result<Self, TurnError> {
        let mut later: VecDeque<Copies> = turns.into();
        later.retain(|copies| !copies.numbers.is_empty());
        let first = later.front().expect("a request has at least one choice").first();
        let turn = engine.submit(first)?;
        let (running, ended) = (Vec::new(), Vec::new());
        let mut choices =
            Self { engine, running, ended, later, numbered: 0, first_is_cached: false };
        let number = choices.next_number();
        choices.running.push((number, turn));
        Ok(choices)
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
        while self.first_is_cached {
            // A copy has all tokens of the prompt, and this is asked at each token of the others.
            if !self.running.is_empty() && self.engine.is_full() {
                break;
            }
            let Some(request) = self.later.front().map(Copies::first) else { break };
            let submitted = self.engine.submit(request);
            if matches!(submitted, Err(TurnError::Busy { .. })) && !self.running.is_empty() {
                break;
            }
            let number = self.next_number();
            self.running.push((number, submitted.map_err(|error| (number, error))?));
        }
        Ok(())
    }

    /// The number of the next turn, which is no later one any more.
    fn next_number(&mut self) -> usize {
        let copies = self.later.front_mut().expect("there is a next turn");
        copies.numbers.next();
        if copies.numbers.is_empty() {
            self.later.pop_front();
        }
        self.numbered += 1;
        self.numbered - 1
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
        let turns = vec![Copies::new(request, 0..1)];
        let mut choices = start(engine.clone(), turns, None).unwrap();
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
