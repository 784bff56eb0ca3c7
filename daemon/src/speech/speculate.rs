//! Speculative prefill: the task of a session computes the prompt before the turn asks for it.
//!
//! - A newer target replaces an older one. The older prefill runs until the newer one is queued,
//!   and the newer one continues from what it computed.
//! - It renders the prompt by the same code as the turn. A failure is counted, and the turn
//!   computes more.

use hob_prewarm::{Event, PrefixName, Speculation};
use hob_runtime::turn::{Purpose, Retention, Turn, TurnError, TurnEvent, TurnRequest};
use hob_slots::ConversationId;
use tokio::sync::watch;

use super::Speech;
use super::sessions::Target;
use crate::chat::identity::Identity;
use crate::chat::request::ResolvedRequest;
use crate::chat::reuse_guard::ReuseDecision;
use crate::error::ApiError;
use crate::metrics::SpeculationOutcome;
use crate::prompt::{Extent, Rendered};
use crate::warm::events::ActiveTurn;
use crate::wire::message::{Message, Role};

/// Prefills the targets of a session until it is closed or cancelled.
pub(super) async fn run(speech: Speech, id: ConversationId, mut targets: watch::Receiver<Target>) {
    let mut task = Task { speech, id, running: None };
    loop {
        tokio::select! {
            biased;
            changed = targets.changed() => {
                if changed.is_err() {
                    return task.finish().await; // Closed: the turn takes over the running prefill.
                }
                let target = targets.borrow_and_update().clone();
                match target {
                    Target::Cancel => return,
                    Target::Prefill(resolved, speculation) => {
                        task.begin(&resolved, speculation, &mut targets).await;
                    }
                }
            }
            event = task.next() => task.handle(event),
        }
    }
}

struct Task {
    speech: Speech,
    id: ConversationId,
    running: Option<Running>,
}

struct Running {
    turn: Turn,
    speculation: Speculation,
    _active: ActiveTurn,
}

impl Task {
    async fn begin(
        &mut self,
        resolved: &ResolvedRequest,
        speculation: Speculation,
        targets: &mut watch::Receiver<Target>,
    ) {
        if resolved.request.append {
            tokio::select! {
                // The history is complete once the lock is free. Requests need not wait for us.
                guard = self.speech.options().chat.locks().enter(&self.id) => drop(guard),
                changed = targets.changed() => {
                    if changed.is_ok() {
                        targets.mark_changed();
                    }
                    return;
                }
            }
        }
        match self.submit(resolved, &speculation).await {
            Ok(Some(turn)) => {
                self.count_replaced();
                let events = &self.speech.options().events;
                let _active = events.turn(Some(self.id.clone()));
                if let Some(profile) = resolved.profile.clone() {
                    // The prefill warms the profile's prefix too.
                    events.send(Event::Used { prefix: PrefixName::Profile(profile) });
                }
                self.running = Some(Running { turn, speculation, _active });
            }
            Ok(None) => {} // Closed meanwhile.
            Err(error) => {
                self.count_replaced();
                self.running = None;
                self.failed(&error);
                self.speech.options().sessions.settled(&self.id, &speculation);
            }
        }
    }

    /// Queues the prefill; `None` when the session was closed meanwhile.
    async fn submit(
        &self,
        resolved: &ResolvedRequest,
        speculation: &Speculation,
    ) -> Result<Option<Turn>, ApiError> {
        let mut resolved = resolved.clone();
        let extent = match speculation {
            Speculation::Words(words) => Extent::Before(words.clone()),
            Speculation::Turn(text) => {
                resolved.request.messages.push(Message::plain(Role::User, text));
                Extent::Whole
            }
        };
        let options = self.speech.options();
        let identity = Identity::Named(self.id.clone());
        let adapters = options.chat.adapters(&resolved.request.shape).await?;
        let (budget, lossless) = (resolved.budget(), resolved.lossless());
        let (prompt, decision) = options.chat.probable_prompt(resolved, &identity, extent).await?;
        let ReuseDecision { reuse, reanchored, .. } = decision;
        let Rendered { tokens, segments, .. } = prompt;
        let prefill = TurnRequest::prefill(self.id.clone(), tokens, Purpose::Speculate);
        let keep = Retention { segments, ..Retention::default() };
        let request =
            TurnRequest { adapters, budget, reuse, lossless, reanchored, keep, ..prefill };
        // Once a turn has closed the session, nothing may be queued behind it.
        let submitted =
            options.sessions.while_open(&self.id, || options.chat.engine().submit(request));
        Ok(submitted.transpose()?)
    }

    /// The next event of the running prefill; pending without one.
    async fn next(&mut self) -> Option<TurnEvent> {
        match &mut self.running {
            Some(running) => running.turn.next().await,
            None => std::future::pending().await,
        }
    }

    fn handle(&mut self, event: Option<TurnEvent>) {
        let metrics = &self.speech.options().metrics;
        match event {
            Some(TurnEvent::Started(report)) => {
                return metrics.speculated(report.tokens.computed);
            }
            Some(TurnEvent::Moved(moved)) => return metrics.moved(&moved),
            Some(TurnEvent::Progress(_) | TurnEvent::Token { .. }) => return,
            Some(TurnEvent::Finished { .. }) => metrics.speculation(SpeculationOutcome::Hot),
            Some(TurnEvent::Failed(TurnError::Superseded)) | None => {
                metrics.speculation(SpeculationOutcome::Replaced);
            }
            Some(TurnEvent::Failed(error)) => self.failed(&error.into()),
        }
        if let Some(running) = self.running.take() {
            self.speech.options().sessions.settled(&self.id, &running.speculation);
        }
    }

    async fn finish(mut self) {
        while self.running.is_some() {
            let event = self.next().await;
            self.handle(event);
        }
    }

    fn count_replaced(&self) {
        if self.running.is_some() {
            self.speech.options().metrics.speculation(SpeculationOutcome::Replaced);
        }
    }

    fn failed(&self, error: &ApiError) {
        self.speech.options().metrics.speculation(SpeculationOutcome::Failed);
        tracing::debug!(conversation = %self.id, %error, "speculative prefill failed");
    }
}
