//! The handle to the engine: cloneable, callable from any thread, never waiting for the model.
//!
//! - [`Engine::submit`] checks a turn, puts it into a bounded queue and returns at once.
//! - The worker thread starts with the engine and ends with [`Engine::shutdown`], after all KV
//!   worth saving is on disk.

mod checks;
mod copies;
mod readings;
mod stop;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Instant;

use hob_slots::store::Store;
use hob_slots::{
    AdjustedTime, ConversationId, LiveRefs, ModelHash, Sweeper, Swept, Token, TtlClass,
};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use crate::backend::{LoadError, Model, RANK};
use crate::command::{Command, Reply, Submitted};
use crate::draft::CostCurve;
use crate::drafter::DrafterCore;
use crate::fault::{self, Place};
use crate::grammar::GrammarFactory;
use crate::heartbeat::{Heartbeat, died};
use crate::lifecycle;
use crate::options::EngineOptions;
use crate::pace::Pace;
use crate::status::{BusyStatus, EngineCounters, Residency};
use crate::tiers::{KvTiers, Maintainer, MemoryBudget, TierIndex};
use crate::turn::{Turn, TurnError, TurnRequest};
use crate::worker::{ChangeLog, Core, MtpCore, WarmUp};
use stop::EngineThread;

/// A handle to the engine's thread.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    commands: mpsc::Sender<Command>,
    maintainer: Maintainer,
    model: Arc<dyn Model>,
    fingerprint: ModelHash,
    options: EngineOptions,
    /// Turns in the queue.
    waiting: Arc<AtomicUsize>,
    grammars: OnceLock<GrammarFactory>,
    residency: watch::Receiver<Residency>,
    busy_status: BusyStatus,
    tiers: TierIndex,
    changes: watch::Receiver<u64>,
    heartbeat: Arc<Heartbeat>,
    thread: Mutex<Option<EngineThread>>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("fingerprint", &self.inner.fingerprint).finish()
    }
}

impl Engine {
    /// Starts the engine's thread and waits until its context is made.
    ///
    /// # Errors
    /// [`LoadError::Context`] when the context cannot be made.
    pub fn start(
        model: Arc<dyn Model>,
        fingerprint: ModelHash,
        store: Option<Arc<Store>>,
        options: EngineOptions,
    ) -> Result<Self, LoadError> {
        fault::point(Place::Start);
        let (commands, inbox) = mpsc::channel();
        let (ready, started) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let (residency_sender, residency) = watch::channel(Residency::default());
        let busy_status = BusyStatus::default();
        let (change_log, changes) = ChangeLog::new();
        let tiers = open_tiers(&model, fingerprint, store.clone(), &options, &commands);
        let drafter = options.draft_model.as_ref().map(|draft_model| {
            let commands = commands.clone();
            // An error: the engine has stopped.
            let on_room = move || commands.send(Command::Room).unwrap_or(());
            let drafter = DrafterCore::new(draft_model.clone(), store, &options, on_room);
            tiers.protect(&drafter.tiers);
            drafter
        });
        let maintainer = tiers.maintainer();
        let index = tiers.index();
        let heartbeat = Arc::new(Heartbeat::default());
        let core = Core {
            pulse: heartbeat.start(),
            graph_nodes: 0,
            draft_tiers: drafter.as_ref().map(|drafter| drafter.tiers.clone()),
            drafter,
            draft_failure: None,
            mtp: MtpCore::new(&options, model.kv_on_devices()),
            costs: if options.micro_batch_target.is_some() {
                CostCurve::measured(model.kv_on_devices())
            } else {
                CostCurve::fixed(1.0)
            },
            pace: Pace::new(options.micro_batch_target, options.max_rows()),
            warm_up: WarmUp::of(&*model, &options),
            counters: EngineCounters::default(),
            turns: 0,
            fetches: 0,
            change_log,
            model: model.clone(),
            fingerprint,
            tiers,
            options: options.clone(),
            waiting: waiting.clone(),
            commands: commands.clone(),
            busy_status: busy_status.clone(),
        };
        let thread = EngineThread::spawn(move || {
            lifecycle::run(core, &inbox, ready, &residency_sender);
        });
        started.recv().expect("the thread reports once")?;
        let inner = Inner {
            commands,
            maintainer,
            grammars: OnceLock::new(),
            model,
            fingerprint,
            options,
            waiting,
            residency,
            busy_status,
            tiers: index,
            changes,
            heartbeat,
            thread: Mutex::new(Some(thread)),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Checks and queues a turn.
    ///
    /// # Errors
    /// A [`TurnError`] that names what is wrong with the request, or [`TurnError::Busy`].
    pub fn submit(&self, request: TurnRequest) -> Result<Turn, TurnError> {
        self.check_alive()?;
        self.check(&request)?;
        let grammar = request.grammar.as_deref();
        let constraint = grammar.map(|grammar| self.constrain(grammar)).transpose()?.flatten();
        let waiting = self.inner.waiting.fetch_add(1, Ordering::AcqRel);
        if waiting >= self.inner.options.queue {
            self.inner.waiting.fetch_sub(1, Ordering::AcqRel);
            return Err(TurnError::Busy { waiting });
        }
        let commands = self.inner.commands.clone();
        // An error: the engine has stopped, and the turn with it.
        let wake = move || commands.send(Command::Dropped).unwrap_or(());
        let (events, turn) = Turn::channel(self.inner.heartbeat.clone(), wake);
        let answers = !request.purpose.is_background();
        let submitted = Submitted { request, constraint, events, at: Instant::now() };
        self.send(Command::Turn(Box::new(submitted)))?;
        if answers {
            self.inner.heartbeat.attention.call_for_command();
        }
        Ok(turn)
    }

    /// Whether the queue is full: [`Self::submit`] would answer [`TurnError::Busy`] now.
    pub fn is_full(&self) -> bool {
        self.inner.waiting.load(Ordering::Acquire) >= self.inner.options.queue
    }

    /// The pooled embedding of `tokens`, of length 1.
    ///
    /// # Errors
    /// [`TurnError::NotEmbedding`] for a model that makes none, [`TurnError::TooLong`].
    pub async fn embed(&self, tokens: Vec<Token>) -> Result<Vec<f32>, TurnError> {
        match self.inner.model.facts().pooling.as_deref() {
            None => Err(TurnError::NotEmbedding),
            Some(RANK) => Err(TurnError::Ranks),
            Some(_) => self.pooled(tokens).await,
        }
    }

    /// The score of a text for a query, in one row of tokens.
    ///
    /// # Errors
    /// [`TurnError::NotRanking`] for a model that gives none, [`TurnError::TooLong`].
    pub async fn rank(&self, tokens: Vec<Token>) -> Result<f32, TurnError> {
        if self.inner.model.facts().pooling.as_deref() != Some(RANK) {
            return Err(TurnError::NotRanking);
        }
        let scores = self.pooled(tokens).await?;
        scores
            .first()
            .copied()
            .ok_or_else(|| TurnError::Backend("no score was computed".to_owned()))
    }

    async fn pooled(&self, tokens: Vec<Token>) -> Result<Vec<f32>, TurnError> {
        self.check_tokens(&tokens, self.conversation_tokens())?;
        let (reply, answer) = Reply::channel();
        self.send(Command::Embed { tokens, reply })?;
        self.answered(answer).await?
    }

    /// Writes a conversation's KV to disk now, unless a turn of it runs; it stays in its slot.
    pub async fn save(&self, conversation: ConversationId) {
        let (done, wait) = Reply::channel();
        if self.send(Command::Save { conversation, done }).is_ok() {
            self.answered(wait).await.ok(); // An error: the engine has saved everything, or died.
        }
    }

    /// Takes a conversation out of the cache unless it runs; its next turn restores it.
    pub async fn park(&self, conversation: ConversationId) {
        let (done, wait) = Reply::channel();
        if self.send(Command::Park { conversation, done }).is_ok() {
            self.answered(wait).await.ok(); // An error: the engine has parked everything, or died.
        }
    }

    /// Gives a conversation in a slot or in the queue a class, which its next record has; it is written soon. `false`:
    /// it is in neither, or nothing of it can be recorded before its next answer.
    ///
    /// # Errors
    /// [`TurnError::Stopped`].
    pub async fn set_class(
        &self,
        conversation: ConversationId,
        class: TtlClass,
    ) -> Result<bool, TurnError> {
        let (done, answer) = Reply::channel();
        self.send(Command::SetClass { conversation, class, done })?;
        self.answered(answer).await
    }

    /// Writes now into the conversation's saved record as the time of its last use, behind the saves
    /// before. Without a record it does nothing.
    pub fn renew(&self, conversation: ConversationId) {
        let now = (self.inner.options.clock)();
        self.inner.maintainer.renew(conversation, now);
    }

    /// Drops a conversation's KV everywhere: the cells, the objects of all its branches in memory
    /// and on disk, under every model. Its turns, running or queued, end. Returns when its files
    /// are durably gone.
    ///
    /// # Errors
    /// [`TurnError::Stopped`], and [`TurnError::NotForgotten`] when a file could not be removed.
    pub async fn forget(&self, conversation: ConversationId) -> Result<(), TurnError> {
        let (done, removed) = Reply::channel();
        self.send(Command::Forget { conversation, done })?;
        self.inner.heartbeat.attention.call_for_command();
        self.answered(removed).await?.map_err(TurnError::NotForgotten)
    }

    /// The last answer of the conversation calls tools: the next request comes sooner than a
    /// person writes. Only the text says so, which the engine does not parse.
    pub fn called_tools(&self, conversation: ConversationId) {
        // An error: the engine has stopped.
        self.send(Command::CalledTools(conversation)).ok();
    }

    /// Sweeps the directory of saved KV on the writer thread; open conversations stay.
    ///
    /// # Errors
    /// [`TurnError::Stopped`].
    pub async fn sweep(
        &self,
        sweeper: Arc<Mutex<Sweeper>>,
        now: AdjustedTime,
    ) -> Result<Swept, TurnError> {
        let (reply, answer) = Reply::channel();
        self.inner.maintainer.sweep(sweeper, now, |swept| reply.send(swept));
        answer.await.map_err(|_| self.stopped())
    }

    /// Bytes of saved KV that this engine has written. Ends with the engine.
    pub fn written_bytes(&self) -> watch::Receiver<u64> {
        self.inner.maintainer.written_bytes()
    }

    /// Runs a maintenance job on the writer thread, in one order with the engine's saves. The
    /// [`LiveRefs`] names the KV that is in use and must stay.
    ///
    /// # Errors
    /// [`TurnError::Stopped`], also when there is no store.
    pub async fn maintain<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Store, &dyn LiveRefs) -> T + Send + 'static,
    ) -> Result<T, TurnError> {
        let (reply, answer) = Reply::channel();
        self.inner.maintainer.run(|store, live_refs| reply.send(job(store, live_refs)));
        answer.await.map_err(|_| self.stopped())
    }

    /// Saves all KV to disk and drops the weights; the next turn loads both again. `false` when a
    /// turn runs or waits, or when the model file cannot be read again.
    pub async fn unload(&self) -> bool {
        let (done, answer) = Reply::channel();
        self.send(Command::Unload(done)).is_ok() && self.answered(answer).await.unwrap_or(false)
    }

    /// Loads the weights ahead of a turn.
    pub fn load(&self) {
        let (reply, _) = Reply::channel();
        self.send(Command::Load(reply)).ok(); // An error: the engine has stopped.
    }

    /// Loads the weights ahead of a turn, and waits until they are in memory, where they may not stay.
    ///
    /// # Errors
    /// [`TurnError::Backend`] when they cannot be loaded, [`TurnError::Stopped`].
    pub async fn loaded(&self) -> Result<(), TurnError> {
        let (reply, answer) = Reply::channel();
        self.send(Command::Load(reply))?;
        self.answered(answer).await?
    }

    pub fn model(&self) -> &Arc<dyn Model> {
        &self.inner.model
    }

    /// Names the model's KV.
    pub fn fingerprint(&self) -> ModelHash {
        self.inner.fingerprint
    }

    /// Names the draft model's KV; `None`: there is no draft model.
    pub fn draft_fingerprint(&self) -> Option<ModelHash> {
        self.inner.options.draft_model.as_ref().map(|draft_model| draft_model.fingerprint())
    }

    /// Cells of the cache.
    pub fn context_tokens(&self) -> usize {
        self.inner.options.context_tokens
    }

    /// Maximum tokens of a prefix, which stays in its cells.
    pub fn prefix_tokens(&self) -> usize {
        self.context_tokens().min(self.conversation_tokens())
    }

    /// Maximum tokens of one conversation: the context that the model was trained with, and, unless blocks
    /// leave a live conversation, the cells of the cache.
    pub fn conversation_tokens(&self) -> usize {
        self.inner.options.conversation_tokens(self.inner.model.facts())
    }

    fn check_alive(&self) -> Result<(), TurnError> {
        self.inner.heartbeat.death().borrow().clone().map_or(Ok(()), |it| Err(TurnError::Dead(it)))
    }

    /// Waits for the answer of the engine's thread, or for its death.
    async fn answered<T>(&self, answer: oneshot::Receiver<T>) -> Result<T, TurnError> {
        let mut deaths = self.death();
        tokio::select! {
            biased;
            answer = answer => answer.map_err(|_| self.stopped()),
            death = died(&mut deaths) => Err(TurnError::Dead(death)),
        }
    }

    /// Why the thread does not answer.
    fn stopped(&self) -> TurnError {
        self.check_alive().err().unwrap_or(TurnError::Stopped)
    }

    fn send(&self, command: Command) -> Result<(), TurnError> {
        self.inner.commands.send(command).map_err(|_| self.stopped())
    }
}

impl Drop for Inner {
    /// The last handle is gone: the thread saves and ends by itself.
    fn drop(&mut self) {
        self.commands.send(Command::Stop).ok(); // An error: it has stopped already.
    }
}

/// The tiers of the model's KV. They tell the engine's thread when the budget of unsaved bytes has room again.
fn open_tiers(
    model: &Arc<dyn Model>,
    fingerprint: ModelHash,
    store: Option<Arc<Store>>,
    options: &EngineOptions,
    commands: &mpsc::Sender<Command>,
) -> KvTiers {
    let budget = MemoryBudget {
        memory_bytes: options.memory_budget_bytes,
        unsaved_bytes: options.unsaved_budget_bytes,
    };
    let commands = commands.clone();
    // An error: the engine has stopped.
    let on_room = move || commands.send(Command::Room).unwrap_or(());
    KvTiers::new(model.clone(), fingerprint, store, budget, options.embedder.clone(), on_room)
}
