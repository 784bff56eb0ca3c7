//! Receives commands and handles them.
//!
//! - The thread sleeps here, and only when no slot, turn in the queue or caller has work for it.
//! - Running turns wait here at most 5 ms for the first event of each restore.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::slot::Slot;
use super::{Exit, Worker};
use crate::command::Command;
use crate::heartbeat::Activity;
use crate::map::EvictionReason;
use crate::turn::TurnError;

/// How long running turns wait for the first event of a restore that has just begun. One that finds
/// nothing ends within a fraction of a millisecond.
const MAX_FETCH_WAIT: Duration = Duration::from_millis(5);

impl Worker<'_> {
    /// Handles all queued commands; waits for one when there is nothing else to do. Returns whether
    /// to go on.
    pub(super) fn receive(&mut self, inbox: &Receiver<Command>) -> bool {
        if !self.has_work() {
            self.publish_open();
            self.settle();
            self.core.pulse.begin(Activity::Waiting);
            let timeouts = [self.restores_end_in(), self.stalls_end_in(), self.deliveries_end_in()];
            let received = match timeouts.into_iter().flatten().min() {
                Some(timeout) => inbox.recv_timeout(timeout),
                None => inbox.recv().map_err(RecvTimeoutError::from),
            };
            self.core.pulse.begin(Activity::Computing);
            match received {
                Ok(command) => {
                    if !self.handle(command) {
                        return false;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        self.core.pulse.attention.heard();
        self.handle_queued(inbox)
    }

    /// Waits at most [`MAX_FETCH_WAIT`] for the first event of each new restore. Most have nothing to restore, and
    /// their turns need not wait for a micro-batch of others then. Returns whether to go on.
    pub(super) fn await_fetches(&mut self, inbox: &Receiver<Command>) -> bool {
        let most = Instant::now() + MAX_FETCH_WAIT;
        // Of each restore, once: a disk that stalls delays one micro-batch, not each of them.
        let first_event_by = |slot: &Slot| {
            let new = slot.restoring().filter(|restoring| !restoring.heard)?;
            Some(most.min(new.waits_since + MAX_FETCH_WAIT))
        };
        let mut heard = false;
        while let Some(until) = self.slots.iter().filter_map(first_event_by).max()
            && until > Instant::now()
            && (0..self.slots.len()).any(|it| self.would_compute(it))
        {
            let Ok(command) = inbox.recv_timeout(until.saturating_duration_since(Instant::now()))
            else {
                break;
            };
            heard = true;
            self.slot_may_be_free = true; // The command may be a turn.
            if !self.handle(command) {
                return false;
            }
        }
        if heard {
            self.publish_open();
            self.import_arrivals();
        }
        true
    }

    /// Handles all queued commands. Returns whether to go on.
    pub(super) fn handle_queued(&mut self, inbox: &Receiver<Command>) -> bool {
        while let Ok(command) = inbox.try_recv() {
            // The command may be a turn, or free a slot: the next round admits before it sleeps.
            self.slot_may_be_free = true;
            if !self.handle(command) {
                return false;
            }
        }
        self.end_deliveries();
        self.publish_open();
        self.reply_to_saving();
        true
    }

    fn has_work(&self) -> bool {
        let may_admit = self.slot_may_be_free && !self.queue.is_empty();
        let slots = &self.slots;
        may_admit
            || slots.iter().any(Slot::has_arrivals)
            || (0..slots.len()).any(|index| self.would_compute(index))
            || (slots.iter().any(|slot| slot.needs_record() && !slot.is_delivering())
                && !self.core.tiers.is_full())
            || self.may_save_drafted()
            || self.drafter_lags()
            || self.ends_a_stall()
            || self.may_warm_up()
    }

    /// Replies to the callers of [`Command::Settle`], if no turn runs and no slot waits to be saved.
    fn settle(&mut self) {
        self.reply_to_saving();
        let is_busy =
            |slot: &Slot| slot.turn.is_some() || slot.is_delivering() || slot.needs_record();
        if self.slots.iter().any(is_busy) || self.drafter_needs_record() {
            return;
        }
        for done in self.settling.drain(..) {
            self.core.when_flushed(move || done.send(()));
        }
    }

    /// Returns whether to go on.
    pub(super) fn handle(&mut self, command: Command) -> bool {
        if command.calls() {
            self.core.pulse.attention.received();
        }
        match command {
            Command::Turn(turn) => self.enqueue(turn),
            Command::Fetched { slot, fetch, event } => self.fetched(slot, fetch, event),
            Command::Embed { tokens, reply } => {
                let embedding = self.backend.embed(&tokens);
                let embedding = embedding.map_err(|error| TurnError::Backend(error.to_string()));
                reply.send(embedding);
            }
            Command::Save { conversation, done } => self.saving.push((conversation, done)),
            Command::Park { conversation, done } => {
                self.park_all(&conversation, EvictionReason::Idle);
                self.publish_open();
                done.send(());
            }
            Command::Forget { conversation, done } => self.forget(&conversation, done),
            Command::SetClass { conversation, class, done } => {
                done.send(self.set_class(&conversation, class));
            }
            Command::CalledTools(conversation) => self.called_tools(&conversation),
            // The command has woken the thread: housekeeping and stalled turns go on, cancelled turns end, and so do
            // deliveries.
            Command::Room | Command::Dropped => {}
            Command::Status(reply) => reply.send(self.status()),
            Command::Cells(reply) => reply.send(self.read_cells()),
            Command::UnnamedTokens { slot, reply } => reply.send(self.unnamed_tokens(slot)),
            Command::Settle(done) => self.settling.push(done),
            Command::Load(reply) => reply.send(Ok(())), // The weights are in memory.
            Command::Unload(done) => {
                if self.queue.is_empty() && self.running().is_empty() {
                    self.exit = Exit::Unloading(done);
                    return false;
                }
                done.send(false);
            }
            Command::Stop => return false,
        }
        true
    }
}
