//! The one thread that owns the context. It is the only caller of the backend.
//!
//! Between two micro-batches, in this order: hear commands, let go of turns whose caller went away,
//! admit waiting turns, compute one micro-batch, bring in some of what was read for a restore, and,
//! when no prompt is waiting to be computed, one bounded piece of housekeeping. It sleeps only when
//! there is nothing to do, and never on a disk.
//!
//! - `slot`: what a sequence holds and the turn that runs in it
//! - `admit`: from the queue into a slot, and out of it: pin and share
//! - `change_log`: what the map of the cells tells
//! - `unloaded`: what is done while the weights are away
//! - `background`: turns that nobody waits for, and how they make way
//! - `restore`: what is kept comes back
//! - `step`: one micro-batch, and the tokens that come of it
//! - `keep`: export behind the answer
//! - `room`: who gives up cells, and when
//! - `cells`: every change of what a slot holds

mod admit;
mod background;
mod cells;
mod change_log;
mod keep;
mod restore;
mod room;
mod slot;
mod step;
mod unloaded;
mod used;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Instant;

use hob_slots::{ConversationId, ModelHash, RadixTree, Registry, SlotId, Timestamp, Token};
use tokio::sync::{mpsc as events, oneshot};

use crate::backend::{Backend, Model, Sequence};
use crate::engine::EngineOptions;
use crate::grammar::Constraint;
use crate::map::{EvictionReason, Reading};
use crate::pace::Pace;
use crate::status::{EngineCounters, EngineStatus, SlotStatus};
use crate::tiers::{FetchEvent, KvTiers, MaintenanceJob, Sweep};
use crate::turn::{TurnError, TurnEvent, TurnRequest};

use admit::Waiting;
pub(crate) use change_log::ChangeLog;
use slot::Slot;
pub(crate) use unloaded::{Wake, refuse, serve_unloaded, status as status_without_weights};

/// What the thread is told.
pub(crate) enum Command {
    Turn(Box<Submitted>),
    Fetched {
        slot: usize,
        fetch: u64,
        event: FetchEvent,
    },
    Embed {
        tokens: Vec<Token>,
        reply: oneshot::Sender<Result<Vec<f32>, TurnError>>,
    },
    Park {
        conversation: ConversationId,
        done: oneshot::Sender<()>,
    },
    Forget {
        conversation: ConversationId,
        done: oneshot::Sender<()>,
    },
    Sweep(Box<Sweep>),
    Maintain(MaintenanceJob),
    /// The disk has taken some of what waited for it.
    Room,
    Status(oneshot::Sender<EngineStatus>),
    Cells(oneshot::Sender<Reading>),
    /// The weights shall be in memory.
    Load,
    /// And leave it, unless somebody speaks.
    Unload(oneshot::Sender<bool>),
    Stop,
}

/// A checked turn, on its way into the queue.
pub(crate) struct Submitted {
    pub request: TurnRequest,
    pub constraint: Option<Constraint>,
    pub events: events::UnboundedSender<TurnEvent>,
    pub at: Instant,
}

pub(crate) struct Worker<'b> {
    backend: &'b mut dyn Backend,
    model: Arc<dyn Model>,
    fingerprint: ModelHash,
    tiers: KvTiers,
    options: EngineOptions,
    /// Turns in `queue`, for the bound that `submit` checks.
    waiting: Arc<AtomicUsize>,
    commands: mpsc::Sender<Command>,
    registry: Registry,
    radix: RadixTree,
    slots: Vec<Slot>,
    queue: VecDeque<Waiting>,
    /// A turn has ended since turns were admitted last: one that waits may find a slot now.
    freed: bool,
    pace: Pace,
    counters: EngineCounters,
    /// Turns that were admitted.
    turns: u64,
    /// And those of them that are over.
    ended: u64,
    /// Numbers what the shelf is asked, so that a late reply finds only the turn that waits for it.
    fetches: u64,
    change_log: ChangeLog,
    /// One row of logits, kept from one sample to the next.
    logits: Vec<f32>,
    /// Why it will have gone away.
    left: Exit,
}

/// What outlives a context: everything but cells and those who use them.
pub(crate) struct Core {
    pub model: Arc<dyn Model>,
    pub fingerprint: ModelHash,
    pub tiers: KvTiers,
    pub options: EngineOptions,
    pub waiting: Arc<AtomicUsize>,
    pub commands: mpsc::Sender<Command>,
    pub pace: Pace,
    pub counters: EngineCounters,
    pub turns: u64,
    pub fetches: u64,
    pub change_log: ChangeLog,
}

/// Why a worker went away.
pub(crate) enum Exit {
    /// For good.
    Stopped,
    /// So that the weights can leave memory; who is told whether they have.
    Unloading(oneshot::Sender<bool>),
}

impl<'b> Worker<'b> {
    pub(crate) fn new(backend: &'b mut dyn Backend, core: Core) -> Self {
        let Core { model, fingerprint, tiers, options, .. } = core;
        let count = |slots: usize| u32::try_from(slots).expect("slots are few");
        let (slots, prefixes) = (count(options.slots), count(options.prefixes));
        Self {
            backend,
            registry: Registry::with_prefixes(slots, prefixes),
            radix: RadixTree::new(),
            slots: (0..slots + prefixes).map(|id| Slot::new(SlotId(id), fingerprint)).collect(),
            queue: VecDeque::new(),
            freed: false,
            pace: core.pace,
            counters: core.counters,
            turns: core.turns,
            ended: 0,
            fetches: core.fetches,
            change_log: core.change_log,
            logits: Vec::new(),
            model,
            fingerprint,
            tiers,
            options,
            waiting: core.waiting,
            commands: core.commands,
            left: Exit::Stopped,
        }
    }

    /// Serves until told to leave, first of all `first`; then saves what is worth keeping.
    pub(crate) fn run(mut self, first: Option<Command>, inbox: &Receiver<Command>) -> (Core, Exit) {
        if !first.is_none_or(|command| self.handle(command)) {
            return self.close();
        }
        self.change_log.touch(); // There are cells.
        self.freed = true; // It may be a turn, and waits for nobody.
        while self.receive(inbox) {
            self.drop_cancelled();
            self.admit();
            let prompts_wait = self.step();
            let restores = self.bring_in_arrivals();
            if !prompts_wait && !restores {
                self.housekeep();
            }
            self.change_log.tell();
        }
        self.close()
    }

    /// Takes all commands that are there; waits for one when there is nothing else to do.
    fn receive(&mut self, inbox: &Receiver<Command>) -> bool {
        if !self.has_work() {
            let heard = match self.patience() {
                Some(patience) => inbox.recv_timeout(patience),
                None => inbox.recv().map_err(RecvTimeoutError::from),
            };
            match heard {
                Ok(command) => {
                    if !self.handle(command) {
                        return false;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        while let Ok(command) = inbox.try_recv() {
            if !self.handle(command) {
                return false;
            }
        }
        true
    }

    fn has_work(&self) -> bool {
        let may_admit = self.freed && !self.queue.is_empty();
        let slots = &self.slots;
        may_admit
            || slots.iter().any(Slot::has_arrivals)
            || (0..slots.len()).any(|index| self.is_served(index))
            || (slots.iter().any(Slot::wants_keeping) && !self.tiers.is_full())
    }

    fn handle(&mut self, command: Command) -> bool {
        match command {
            Command::Turn(turn) => self.enqueue(turn),
            Command::Fetched { slot, fetch, event } => self.arrived(slot, fetch, event),
            Command::Embed { tokens, reply } => {
                let embedding = self.backend.embed(&tokens);
                let embedding = embedding.map_err(|error| TurnError::Backend(error.to_string()));
                reply.send(embedding).ok(); // An error: the caller went away.
            }
            Command::Park { conversation, done } => {
                self.park(&conversation, EvictionReason::Idle);
                done.send(()).ok(); // An error: the caller went away.
            }
            Command::Forget { conversation, done } => {
                self.forget(&conversation);
                done.send(()).ok(); // An error: the caller went away.
            }
            Command::Sweep(sweep) => self.tiers.sweep(self.open(), *sweep),
            Command::Maintain(tending) => self.tiers.maintain(self.open(), tending),
            Command::Room => {} // What waits for it is found again.
            Command::Status(reply) => {
                reply.send(self.status()).ok(); // An error: the caller went away.
            }
            Command::Cells(reply) => {
                reply.send(self.read_cells()).ok(); // An error: the caller went away.
            }
            Command::Load => {} // They are.
            Command::Unload(done) => {
                if self.queue.is_empty() && self.running().is_empty() {
                    self.left = Exit::Unloading(done);
                    return false;
                }
                done.send(false).ok(); // An error: the caller went away.
            }
            Command::Stop => return false,
        }
        true
    }

    /// Conversations in a slot, and those that wait for one.
    fn open(&self) -> BTreeSet<ConversationId> {
        let pinned = self.slots.iter().filter_map(|slot| slot.owner.as_ref());
        let waiting = self.queue.iter().filter_map(Waiting::conversation);
        pinned.chain(waiting).cloned().collect()
    }

    /// Ends the turns whose caller went away, running or waiting.
    fn drop_cancelled(&mut self) {
        for index in 0..self.slots.len() {
            if self.slots[index].turn.as_ref().is_some_and(|turn| turn.events.is_closed()) {
                self.counters.cancelled += 1;
                self.end_turn(index);
            }
        }
        let gone = self.leave_queue(|waiting| waiting.events().is_closed());
        self.counters.cancelled += gone as u64;
    }

    fn close(mut self) -> (Core, Exit) {
        for waiting in self.queue.drain(..) {
            // An error: the caller went away.
            waiting.events().send(TurnEvent::Failed(TurnError::Stopped)).ok();
        }
        for index in 0..self.slots.len() {
            if let Some(turn) = &self.slots[index].turn {
                turn.events.send(TurnEvent::Failed(TurnError::Stopped)).ok(); // As above.
                self.end_turn(index);
            }
            self.save_patiently(index);
            self.leaves(index, 0, EvictionReason::Unloaded);
        }
        self.tiers.flush();
        self.change_log.touch();
        self.change_log.tell();
        let core = Core {
            model: self.model,
            fingerprint: self.fingerprint,
            tiers: self.tiers,
            options: self.options,
            waiting: self.waiting,
            commands: self.commands,
            pace: self.pace,
            counters: self.counters,
            turns: self.turns,
            fetches: self.fetches,
            change_log: self.change_log,
        };
        (core, self.left)
    }

    fn status(&self) -> EngineStatus {
        let mut slots = self.slots.iter().map(|slot| SlotStatus {
            slot: slot.id,
            conversation: slot.named_owner(),
            tokens: slot.timeline.len(),
            state: slot.state(),
        });
        let hot = |id: &ConversationId| self.registry.slot_of(id).is_some();
        let slots_of_conversations = slots.by_ref().take(self.options.slots).collect();
        EngineStatus {
            slots: slots_of_conversations,
            prefixes: slots.collect(),
            parked: {
                let known = self.tiers.known_conversations();
                known.into_iter().filter(|(id, _)| !hot(id)).collect()
            },
            waiting: self.queue.len(),
            used_tokens: self.used_tokens(),
            ..reading(&self.tiers, &self.options, &self.pace, self.counters)
        }
    }

    /// Cells that hold something: what slots share is counted once.
    fn used_tokens(&self) -> usize {
        match self.is_plain() {
            true => self.radix.tokens(),
            false => self.slots.iter().map(|slot| slot.timeline.len()).sum(),
        }
    }

    fn now(&self) -> Timestamp {
        (self.options.clock)()
    }

    /// The sequence that is empty between two calls.
    fn scratch(&self) -> Sequence {
        Sequence(i32::try_from(self.slots.len()).expect("slots are few"))
    }

    fn is_plain(&self) -> bool {
        self.model.facts().memory.is_plain()
    }
}

/// What can be told without a context.
fn reading(
    tiers: &KvTiers,
    options: &EngineOptions,
    pace: &Pace,
    counters: EngineCounters,
) -> EngineStatus {
    let (memory_bytes, memory_budget_bytes) = tiers.memory_bytes();
    let disk = tiers.counters();
    EngineStatus {
        context_tokens: options.context_tokens,
        memory_bytes,
        memory_budget_bytes,
        prefill_tokens_per_second: pace.rows_per_second(),
        counters: EngineCounters {
            written_bytes: disk.written_bytes.load(Ordering::Relaxed),
            read_bytes: disk.read_bytes.load(Ordering::Relaxed),
            write_errors: disk.write_errors.load(Ordering::Relaxed),
            rejected_files: disk.rejected.load(Ordering::Relaxed),
            ..counters
        },
        ..EngineStatus::default()
    }
}
