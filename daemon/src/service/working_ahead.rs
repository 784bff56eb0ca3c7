//! The task of a room: computes what was wished last, ahead of the turn.
//!
//! - A newer wish takes the place of an older one, which runs until then: nothing that it computed is
//!   lost.
//! - When the room is closed, what runs is left to the turn that closed it.

use hob_prewarm::{Ahead, Event};
use hob_runtime::turn::{Turn, TurnError, TurnEvent};
use hob_slots::ConversationId;
use tokio::sync::watch;

use super::Service;
use super::chat::ResolvedRequest;
use super::rooms::Target;
use crate::error::ApiError;
use crate::idle::Speaking;
use crate::metrics::Outcome;

/// Does what is wished until the room is closed.
pub(super) async fn compute_ahead(
    service: Service,
    id: ConversationId,
    mut wishes: watch::Receiver<Target>,
) {
    let mut work = Work { service, id, running: None };
    loop {
        tokio::select! {
            biased;
            changed = wishes.changed() => {
                if changed.is_err() {
                    return work.finish().await; // A turn takes it over.
                }
                let wish = wishes.borrow_and_update().clone();
                match wish {
                    Target::Silence => return,
                    Target::Hot(asked, ahead) => work.begin(&asked, ahead, &mut wishes).await,
                }
            }
            event = work.next() => work.take(event),
        }
    }
}

struct Work {
    service: Service,
    id: ConversationId,
    running: Option<Running>,
}

struct Running {
    turn: Turn,
    ahead: Ahead,
    _speaking: Speaking,
}

impl Work {
    /// What runs goes on until the newer one is in the queue and takes its place.
    async fn begin(
        &mut self,
        asked: &ResolvedRequest,
        ahead: Ahead,
        wishes: &mut watch::Receiver<Target>,
    ) {
        if asked.request.append {
            tokio::select! {
                // The history is whole once we are let in. Whoever comes then need not wait for us.
                guard = self.service.inner.conversation_locks.enter(&self.id) => drop(guard),
                changed = wishes.changed() => {
                    if changed.is_ok() {
                        wishes.mark_changed();
                    }
                    return;
                }
            }
        }
        match self.service.begin_ahead(&self.id, asked, &ahead).await {
            Ok(Some(turn)) => {
                self.count_replaced();
                let planner = self.service.inner.planner.clone();
                let _speaking = Speaking::announce(self.id.clone(), planner);
                if let Some(profile) = asked.profile.clone() {
                    // It computes the profile's prefix, if that is not warm yet.
                    self.service.tell_planner(Event::Used { profile });
                }
                self.running = Some(Running { turn, ahead, _speaking });
            }
            Ok(None) => {} // Closed meanwhile.
            Err(error) => {
                self.count_replaced();
                self.running = None;
                self.failed(&error);
                self.service.inner.rooms.settled(&self.id, &ahead);
            }
        }
    }

    /// The next event of what runs; without anything that runs there is none.
    async fn next(&mut self) -> Option<TurnEvent> {
        match &mut self.running {
            Some(running) => running.turn.next().await,
            None => std::future::pending().await,
        }
    }

    fn take(&mut self, event: Option<TurnEvent>) {
        let outcome = match event {
            Some(TurnEvent::Started(report)) => {
                return self.service.metrics().computed_ahead(report.tokens.computed);
            }
            Some(TurnEvent::Token { .. }) => return,
            Some(TurnEvent::Finished { .. }) => Outcome::Hot,
            Some(TurnEvent::Failed(TurnError::Superseded)) | None => Outcome::Replaced,
            Some(TurnEvent::Failed(error)) => return self.end_failed(&error.into()),
        };
        self.service.metrics().ahead(outcome);
        self.settle();
    }

    async fn finish(mut self) {
        while self.running.is_some() {
            let event = self.next().await;
            self.take(event);
        }
    }

    fn count_replaced(&self) {
        if self.running.is_some() {
            self.service.metrics().ahead(Outcome::Replaced);
        }
    }

    fn end_failed(&mut self, error: &ApiError) {
        self.failed(error);
        self.settle();
    }

    fn failed(&self, error: &ApiError) {
        self.service.metrics().ahead(Outcome::Failed);
        tracing::debug!(conversation = %self.id, %error, "nothing was computed ahead");
    }

    fn settle(&mut self) {
        if let Some(running) = self.running.take() {
            self.service.inner.rooms.settled(&self.id, &running.ahead);
        }
    }
}
