//! The one thread that owns the context. It is the only caller of the backend.
//!
//! One round: receive commands, drop cancelled turns, admit waiting turns, compute one micro-batch,
//! import restored KV for at most 20 ms, and do housekeeping: export about as many blocks as were computed, or, when
//! no prompt can be computed, a whole state. The thread sleeps only when there is nothing to do. A prompt that no
//! other turn waits beside is computed in long micro-batches, which a caller that arrives meanwhile interrupts. The
//! thread waits for the disk where KV would be lost and no
//! answer is being generated, and at most 5 ms for the first event of each restore.
//!
//! - `inbox`: receives commands and handles them
//! - `slot`: a sequence; `running`: the turn that runs in it; `waiting`: a turn in the queue
//! - `admit`: from the queue into a slot: pins it and reuses hot cells
//! - `anonymous`: conversations without a name that have outgrown their cells
//! - `background`: prewarms and speculative prefills, and how they yield; `speculation`: what these have done to a
//!   slot
//! - `restore`: fetches saved KV, and waits for it; `import`: puts it into cells
//! - `progress`, `progress_log`: reports of how far a prompt is
//! - `plan`: the rows of the next micro-batch; `tile`: how many fill a tile of attention
//! - `beside`, `rows_beside`: parks idle conversations that slow others
//! - `gather`: moves an answer's cells to where those were
//! - `adapters`: whose adapters a micro-batch is computed with
//! - `hot`: the timelines in the cells
//! - `follow`: prompts in flight that begin alike
//! - `draft`: guessed tokens of answers; `draft_model`: those that the draft model guesses, and its KV; `mtp`: those that
//!   the model's MTP heads guess; `both_tiers`: the KV of model and draft model in memory and on disk
//! - `mark`: goes back to a running state as it was before a micro-batch
//! - `step`: one micro-batch; `answer`: the tokens that are sampled from it; `choose`: the choice of a token
//! - `delivery`: the work behind an answer waits until its caller has it
//! - `save`: exports KV behind the answer; `save_state`: what of a slot is saved; `class`: for how long
//! - `rest`: snapshots of memories that are not plain
//! - `room`: parks, evicts and preempts
//! - `budget`: the cells that a conversation may have
//! - `away`, `block_uses`, `notes`: which blocks of a conversation leave its cells, and what stays of these blocks;
//!   `away_blocks`: those in memory
//! - `chunks`: imports KV of parts of a prompt that was computed at another place; `heads`: computes the
//!   beginnings of several such parts together; `growth`, `selective`: where more than the beginning is computed
//! - `recall`: brings back what the new text asks for
//! - `cells`, `cell_numbers`: every change of a slot's cells
//! - `change_log`: evictions and changes for the cache map
//! - `usage`: reports the use of KV to the eviction policy
//! - `status`: the figures of the engine
//! - `unloaded`: commands while the weights are not in memory
//! - `warm_up`: loads a device's kernels before turns need them

mod adapters;
mod admit;
mod anonymous;
mod answer;
mod away;
mod away_blocks;
mod background;
mod beside;
mod block_uses;
mod both_tiers;
mod budget;
mod cell_numbers;
mod cells;
mod change_log;
mod choose;
mod chunks;
mod class;
mod delivery;
mod draft;
mod draft_model;
mod follow;
mod gather;
mod growth;
mod heads;
mod hot;
mod import;
mod inbox;
mod mark;
mod mtp;
mod notes;
mod plan;
mod progress;
mod progress_log;
mod recall;
mod rest;
mod restore;
mod room;
mod rows_beside;
mod running;
mod save;
mod save_state;
mod selective;
mod slot;
mod speculation;
mod status;
mod step;
mod tile;
mod unloaded;
mod usage;
mod waiting;
mod warm_up;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{self, Receiver};

use hob_slots::{BLOCK_TOKENS, ConversationId, ModelHash, Registry, SlotId, Timestamp};

use crate::backend::{Backend, Model, Sequence};
use crate::command::{Command, Reply};
use crate::draft::CostCurve;
use crate::drafter::{Drafter, DrafterCore};
use crate::fault::{self, Place};
use crate::heartbeat::{Activity, Pulse};
use crate::map::EvictionReason;
use crate::options::EngineOptions;
use crate::pace::Pace;
use crate::status::{BusyStatus, EngineCounters};
use crate::tiers::KvTiers;
use crate::turn::TurnError;

use adapters::Current;
pub(crate) use budget::check_budget;
pub(crate) use change_log::ChangeLog;
use draft_model::Unread;
use hot::HotTimelines;
pub(crate) use mtp::MtpCore;
use running::Owner;
use slot::Slot;
use step::Stepped;
pub(crate) use unloaded::{Wake, refuse, serve_unloaded, status as unloaded_status};
use waiting::Waiting;
pub(crate) use warm_up::WarmUp;

pub(crate) struct Worker<'b> {
    backend: &'b mut dyn Backend,
    /// See [`crate::backend::Model::kv_on_devices`].
    kv_on_devices: bool,
    core: Core,
    /// `None`: there is no draft model, or it has no context.
    drafter: Option<Drafter<'b>>,
    /// MTP heads guess: the model has some, and there is no drafter.
    uses_mtp: bool,
    /// The newest last.
    unread: Vec<Unread>,
    registry: Registry,
    hot: HotTimelines,
    current: Current,
    slots: Vec<Slot>,
    /// The next number of a cell of each slot, see `cells`. Each slot has numbers of its own, so that answers
    /// side by side have theirs in a row.
    cells_given: Vec<u64>,
    queue: VecDeque<Waiting>,
    /// A slot was pinned or freed, or the queue has changed, since the last [`Worker::publish_open`].
    open_changed: bool,
    /// A turn has ended since the last admission: a waiting one may find a slot.
    slot_may_be_free: bool,
    /// Turns that have ended.
    ended: u64,
    /// Callers that wait until the engine has settled.
    settling: Vec<Reply<()>>,
    /// Callers that wait until a conversation is on disk.
    saving: Vec<(ConversationId, Reply<()>)>,
    /// The slot whose running state is marked, and its position, while a micro-batch is computed.
    marked: Option<(usize, usize)>,
    /// One row of logits. Each token reuses its memory.
    logits: Vec<f32>,
    exit: Exit,
}

/// The parts of a worker that survive a reload of the weights: all but the cells and their slots.
pub(crate) struct Core {
    /// The first field: in a panic it reports the death before the others are dropped.
    pub pulse: Pulse,
    pub model: Arc<dyn Model>,
    pub fingerprint: ModelHash,
    pub tiers: KvTiers,
    /// The tiers of the draft model.
    pub draft_tiers: Option<Arc<KvTiers>>,
    /// While there is no context. `None`: there is no draft model.
    pub drafter: Option<DrafterCore>,
    /// Why the draft model has no context beside the model's.
    pub draft_failure: Option<String>,
    pub mtp: MtpCore,
    pub options: EngineOptions,
    /// Turns in the queue, for the bound that `submit` checks.
    pub waiting: Arc<AtomicUsize>,
    pub commands: mpsc::Sender<Command>,
    pub busy_status: BusyStatus,
    pub pace: Pace,
    pub costs: CostCurve,
    /// Nodes in the graph of the last micro-batch: all graphs of a model have about as many. 0: none was computed,
    /// or the backend reports none.
    pub graph_nodes: u64,
    pub counters: EngineCounters,
    /// `None`: the warm-up is over.
    pub warm_up: Option<WarmUp>,
    /// Turns that were admitted.
    pub turns: u64,
    /// Numbers fetches, so that a late event cannot reach a later turn of the same slot.
    pub fetches: u64,
    pub change_log: ChangeLog,
}

/// Why a worker ends.
pub(crate) enum Exit {
    Stopped,
    /// The weights are to be dropped. Replies whether they were.
    Unloading(Reply<bool>),
}

impl<'b> Worker<'b> {
    /// `drafts`: the context of the draft model.
    pub(crate) fn new(
        backend: &'b mut dyn Backend,
        drafts: Option<&'b mut dyn Backend>,
        mut core: Core,
    ) -> Self {
        let count = |slots: usize| u32::try_from(slots).expect("slots are few");
        let (slots, prefixes) = (count(core.options.slots), count(core.options.prefixes));
        let slot = |id| Slot::new(SlotId(id), core.fingerprint);
        backend.report_to(core.pulse.shared());
        let draft_model = core.drafter.as_ref().map(|drafter| drafter.model());
        let is_queued = core.model.offload().or_else(|| draft_model?.offload()).is_some();
        core.pulse.set_queued(is_queued);
        let drafter = drafts.and_then(|drafts| {
            drafts.report_to(core.pulse.shared());
            Some(Drafter::new(drafts, core.drafter.take()?, core.model.vocabulary().len()))
        });
        let has_heads = backend.mtp().is_some();
        core.mtp.begin(&core.model.mtp(), has_heads);
        let uses_mtp = has_heads && drafter.is_none() && core.options.drafts;
        Self {
            backend,
            kv_on_devices: core.model.kv_on_devices(),
            drafter,
            uses_mtp,
            unread: Vec::new(),
            registry: Registry::with_prefixes(slots, prefixes),
            hot: HotTimelines::default(),
            current: Current::default(),
            slots: (0..slots + prefixes).map(slot).collect(),
            cells_given: (0..u64::from(slots + prefixes)).map(|slot| slot << 40).collect(),
            queue: VecDeque::new(),
            open_changed: true,
            slot_may_be_free: false,
            ended: 0,
            settling: Vec::new(),
            saving: Vec::new(),
            marked: None,
            logits: Vec::new(),
            exit: Exit::Stopped,
            core,
        }
    }

    /// Handles `first`, then serves until the engine stops or unloads; then saves everything.
    pub(crate) fn run(mut self, first: Option<Command>, inbox: &Receiver<Command>) -> (Core, Exit) {
        self.core.pulse.begin(Activity::Computing);
        if !first.is_none_or(|command| self.handle(command)) {
            return self.close();
        }
        self.core.change_log.touch(); // The map has cells again.
        self.slot_may_be_free = true; // `first` may be a turn.
        while self.receive(inbox) {
            self.core.pulse.beat();
            fault::point(Place::Engine);
            self.drop_cancelled();
            self.admit();
            if !self.await_fetches(inbox) {
                break;
            }
            let Stepped { rows, computes, prompts_wait } = self.step();
            // What was fetched during the micro-batch is imported now, and counts as arrived.
            if !self.handle_queued(inbox) {
                break;
            }
            let restores = self.import_arrivals();
            // As many blocks as were computed, so that none are left to save at the end. A block takes
            // a fraction of a millisecond, a snapshot may take many.
            let snapshots = !prompts_wait && !restores;
            (0..=rows / BLOCK_TOKENS).for_each(|_| self.housekeep(snapshots, computes));
            self.let_drafter_read();
            self.warm_up();
            self.core.change_log.notify();
            assert!(self.cells_agree(), "each change of cells is told to the backend");
        }
        self.close()
    }

    /// Protects the conversations in a slot or in the queue from maintenance.
    fn publish_open(&mut self) {
        if std::mem::take(&mut self.open_changed) {
            self.core.set_open(self.open());
        }
        debug_assert!(self.core.tiers.is_open(&self.open()), "each change sets `open_changed`");
    }

    fn open(&self) -> BTreeSet<ConversationId> {
        let pinned = self.slots.iter().filter_map(|slot| slot.owner.as_ref().map(Owner::id));
        let waiting = self.queue.iter().filter_map(Waiting::conversation);
        pinned.chain(waiting).cloned().collect()
    }

    /// Ends the turns whose caller has gone away, running or queued.
    fn drop_cancelled(&mut self) {
        for index in 0..self.slots.len() {
            if self.slots[index].turn.as_ref().is_some_and(|turn| turn.events.is_closed()) {
                self.core.counters.cancelled += 1;
                self.end_turn(index);
            }
        }
        let queued = self.remove_queued(|waiting| waiting.events().is_closed());
        self.core.counters.cancelled += queued as u64;
    }

    fn close(mut self) -> (Core, Exit) {
        self.queue.iter().for_each(|waiting| waiting.events().fail(TurnError::Stopped));
        self.remove_queued(|_| true);
        for index in 0..self.slots.len() {
            if let Some(turn) = &self.slots[index].turn {
                turn.events.fail(TurnError::Stopped);
                self.end_turn(index);
            }
            self.save_all_and_flush(index);
            self.release_blocks(index); // The tiers outlive the slots, which alone know what they hold.
            self.log_eviction(index, 0, EvictionReason::Unloaded);
            self.drop_anonymous(index);
        }
        self.core.pulse.begin(Activity::Flushing);
        self.core.flush();
        self.core.set_open(BTreeSet::new());
        self.core.drafter = self.drafter.take().map(Drafter::into_core).or(self.core.drafter);
        self.core.change_log.touch();
        self.core.change_log.notify();
        (self.core, self.exit)
    }

    fn now(&self) -> Timestamp {
        (self.core.options.clock)()
    }

    /// A sequence of its own for splices; empty between two calls.
    fn scratch(&self) -> Sequence {
        Sequence(i32::try_from(self.slots.len()).expect("slots are few"))
    }

    /// A sequence that shares a running state while the micro-batch is computed that changes it, see `mark`.
    fn mark(&self) -> Sequence {
        Sequence(self.scratch().0 + 1)
    }

    fn is_plain(&self) -> bool {
        self.core.model.facts().memory.is_plain()
    }
}
