//! The handle to the engine: cloneable, callable from anywhere, never waiting for the model.
//!
//! - [`Engine::submit`] checks a turn, puts it into a bounded queue and returns at once.
//! - The worker thread starts with the engine and ends with [`Engine::shutdown`], after everything
//!   worth keeping is on disk.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hob_slots::store::Store;
use hob_slots::{
    AdjustedTime, ConversationId, LiveRefs, ModelHash, Sweeper, Swept, Timestamp, Token,
};
use tokio::sync::{oneshot, watch};

use crate::backend::{ContextShape, LoadError, Model, ModelFacts};
use crate::grammar::{Constraint, Grammar, GrammarFactory};
use crate::lifecycle::{self, SharedStatus};
use crate::map::CacheMap;
use crate::pace::Pace;
use crate::status::{EngineCounters, EngineStatus, Residency};
use crate::tiers::{Budget, KvTiers, Sweep};
use crate::turn::{Turn, TurnError, TurnRequest};
use crate::worker::{ChangeLog, Command, Core, Submitted};

/// How an engine is made.
#[derive(Clone)]
pub struct EngineOptions {
    /// Cells of the cache, shared by all conversations.
    pub context_tokens: usize,
    /// Conversations that are hot at the same time.
    pub slots: usize,
    /// Beginnings that they share and that are hot beside them.
    pub prefixes: usize,
    /// Rows of one micro-batch at most.
    pub micro_batch: usize,
    /// How long a micro-batch should last; `None` makes its size independent of the clock.
    pub micro_batch_target: Option<Duration>,
    /// Turns that may wait.
    pub queue: usize,
    /// Host memory for parked KV.
    pub memory_budget_bytes: u64,
    /// Host memory for KV that waits for the disk. When there is more, the rest stays in its cells.
    pub unsaved_budget_bytes: u64,
    /// How long a turn waits for the next of what is kept, before it computes the rest.
    pub restore_patience: Duration,
    /// Where the time comes from.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            context_tokens: 8192,
            slots: 4,
            prefixes: 4,
            micro_batch: 512,
            micro_batch_target: Some(Duration::from_millis(100)),
            queue: 32,
            memory_budget_bytes: 1 << 30,
            unsaved_budget_bytes: 256 << 20,
            restore_patience: Duration::from_secs(10),
            clock: Arc::new(wall_clock),
        }
    }
}

/// A handle to the engine's thread.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    commands: mpsc::Sender<Command>,
    model: Arc<dyn Model>,
    fingerprint: ModelHash,
    options: EngineOptions,
    waiting: Arc<AtomicUsize>,
    grammars: OnceLock<GrammarFactory>,
    residency: watch::Receiver<Residency>,
    meanwhile: Arc<Mutex<EngineStatus>>,
    changes: watch::Receiver<u64>,
    thread: Mutex<Option<JoinHandle<()>>>,
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
        let (commands, inbox) = mpsc::channel();
        let (ready, started) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let (tell, residency) = watch::channel(Residency::default());
        let meanwhile = Arc::<Mutex<EngineStatus>>::default();
        let outside = SharedStatus { residency: tell, meanwhile: meanwhile.clone() };
        let (change_log, changes) = ChangeLog::new();
        let thread = {
            let (model, options) = (model.clone(), options.clone());
            let (commands, waiting) = (commands.clone(), waiting.clone());
            let body = move || {
                let budget = Budget {
                    memory_bytes: options.memory_budget_bytes,
                    unsaved_bytes: options.unsaved_budget_bytes,
                };
                let writer = commands.clone();
                // An error: the engine has stopped.
                let on_room = move || writer.send(Command::Room).unwrap_or(());
                let tiers = KvTiers::new(model.clone(), fingerprint, store, budget, on_room);
                let micro_batch = options.micro_batch.min(options.context_tokens);
                let core = Core {
                    pace: Pace::new(options.micro_batch_target, micro_batch),
                    counters: EngineCounters::default(),
                    turns: 0,
                    fetches: 0,
                    change_log,
                    model,
                    fingerprint,
                    tiers,
                    options,
                    waiting,
                    commands,
                };
                lifecycle::run(core, &inbox, &ready, &outside);
            };
            let thread = std::thread::Builder::new().name("hob-engine".to_owned());
            thread.spawn(body).expect("the system can start a thread")
        };
        started.recv().expect("the thread reports once")?;
        let inner = Inner {
            commands,
            grammars: OnceLock::new(),
            model,
            fingerprint,
            options,
            waiting,
            residency,
            meanwhile,
            changes,
            thread: Mutex::new(Some(thread)),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Puts a turn into the queue.
    ///
    /// # Errors
    /// A [`TurnError`] that names what is wrong with the request, or [`TurnError::Busy`].
    pub fn submit(&self, request: TurnRequest) -> Result<Turn, TurnError> {
        self.check(&request)?;
        let constraint = request.grammar.as_deref().map(|grammar| self.constrain(grammar));
        let constraint = constraint.transpose()?;
        let waiting = self.inner.waiting.fetch_add(1, Ordering::AcqRel);
        if waiting >= self.inner.options.queue {
            self.inner.waiting.fetch_sub(1, Ordering::AcqRel);
            return Err(TurnError::Busy { waiting });
        }
        let (events, turn) = Turn::channel();
        let submitted = Submitted { request, constraint, events, at: Instant::now() };
        self.send(Command::Turn(Box::new(submitted)))?;
        Ok(turn)
    }

    /// The pooled embedding of `tokens`, of length 1.
    ///
    /// # Errors
    /// [`TurnError::NotEmbedding`] for a model without pooling, [`TurnError::TooLong`].
    pub async fn embed(&self, tokens: Vec<Token>) -> Result<Vec<f32>, TurnError> {
        if self.inner.model.facts().pooling.is_none() {
            return Err(TurnError::NotEmbedding);
        }
        let options = &self.inner.options;
        self.check_tokens(&tokens, options.micro_batch.min(options.context_tokens))?;
        let (reply, answer) = oneshot::channel();
        self.send(Command::Embed { tokens, reply })?;
        answer.await.map_err(|_| TurnError::Stopped)?
    }

    /// Takes a conversation out of the cache; its next turn brings it back. Running ones stay.
    pub async fn park(&self, conversation: ConversationId) {
        let (done, wait) = oneshot::channel();
        if self.send(Command::Park { conversation, done }).is_ok() {
            wait.await.ok(); // An error: the engine stopped, and parked everything.
        }
    }

    /// Drops a conversation's KV everywhere. A running turn is cancelled.
    pub async fn forget(&self, conversation: ConversationId) {
        let (done, wait) = oneshot::channel();
        if self.send(Command::Forget { conversation, done }).is_ok() {
            wait.await.ok(); // An error: the engine stopped in between.
        }
    }

    /// Sweeps the directory of kept KV, behind; what is open stays.
    ///
    /// # Errors
    /// [`TurnError::Stopped`].
    pub async fn sweep(
        &self,
        sweeper: Arc<Mutex<Sweeper>>,
        moment: AdjustedTime,
    ) -> Result<Swept, TurnError> {
        let (reply, answer) = oneshot::channel();
        let reply = Box::new(|swept| drop(reply.send(swept))); // An error: the caller went away.
        self.send(Command::Sweep(Box::new(Sweep { sweeper, moment, reply })))?;
        answer.await.map_err(|_| TurnError::Stopped)
    }

    /// Works on the directory of kept KV, behind, in one order with everything that is saved. The
    /// [`LiveRefs`] says what is open and must stay.
    ///
    /// # Errors
    /// [`TurnError::Stopped`], also when nothing is kept on disk.
    pub async fn maintain<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store, &dyn LiveRefs) -> T + Send + 'static,
    ) -> Result<T, TurnError> {
        let (reply, answer) = oneshot::channel();
        // An error: the caller went away.
        self.send(Command::Maintain(Box::new(|store: &Store, live_refs: &dyn LiveRefs| {
            drop(reply.send(work(store, live_refs)));
        })))?;
        answer.await.map_err(|_| TurnError::Stopped)
    }

    /// What the engine holds and does.
    ///
    /// # Errors
    /// [`TurnError::Stopped`].
    pub async fn status(&self) -> Result<EngineStatus, TurnError> {
        let residency = *self.inner.residency.borrow();
        if matches!(residency, Residency::Loading { .. }) {
            // The thread is busy with it, for seconds perhaps.
            let meanwhile = self.inner.meanwhile.lock().unwrap_or_else(PoisonError::into_inner);
            return Ok(EngineStatus { residency, ..meanwhile.clone() });
        }
        let (reply, answer) = oneshot::channel();
        self.send(Command::Status(reply))?;
        answer.await.map_err(|_| TurnError::Stopped)
    }

    /// What lies in the cells, block by block, and what left them lately.
    ///
    /// # Errors
    /// [`TurnError::Stopped`].
    pub async fn map(&self) -> Result<CacheMap, TurnError> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Cells(reply))?;
        answer.await.map(CacheMap::of).map_err(|_| TurnError::Stopped)
    }

    /// Changes whenever [`Engine::map`] has something new to tell; ends with the engine.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.clone()
    }

    /// Gives back the memory of the model's weights, after everything worth keeping is on disk; the
    /// next turn brings both back. `false` when somebody speaks, or the file cannot be read again.
    pub async fn unload(&self) -> bool {
        let (done, answer) = oneshot::channel();
        self.send(Command::Unload(done)).is_ok() && answer.await.unwrap_or(false)
    }

    /// Brings the weights back without a turn: somebody is about to speak.
    pub fn load(&self) {
        self.send(Command::Load).ok(); // An error: the engine has stopped.
    }

    /// Where the weights are, now and whenever that changes.
    pub fn residency(&self) -> watch::Receiver<Residency> {
        self.inner.residency.clone()
    }

    /// The model that the engine runs.
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.inner.model
    }

    /// What the KV is named by.
    pub fn fingerprint(&self) -> ModelHash {
        self.inner.fingerprint
    }

    /// Cells of the cache.
    pub fn context_tokens(&self) -> usize {
        self.inner.options.context_tokens
    }

    /// Tokens of one conversation at most: the cells of the cache, or the context that the model was
    /// trained with, beyond which its answers mean nothing.
    pub fn conversation_tokens(&self) -> usize {
        conversation_tokens(&self.inner.options, self.inner.model.facts())
    }

    /// Checks that a grammar can be followed with this vocabulary.
    ///
    /// # Errors
    /// [`TurnError::Grammar`] with what is wrong.
    pub fn check_grammar(&self, grammar: &Grammar) -> Result<(), TurnError> {
        self.constrain(grammar).map(drop)
    }

    /// Breaks off running turns, saves what is worth keeping, and waits until it is on disk.
    /// Blocks; afterwards every call answers [`TurnError::Stopped`].
    pub fn shutdown(&self) {
        self.send(Command::Stop).ok(); // An error: it has stopped already.
        let thread = self.inner.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            thread.join().ok(); // A panic of the worker was reported by its hook.
        }
    }

    fn check(&self, request: &TurnRequest) -> Result<(), TurnError> {
        if self.inner.model.facts().pooling.is_some() {
            return Err(TurnError::NotGenerative);
        }
        self.check_tokens(&request.prompt, self.conversation_tokens())
    }

    fn check_tokens(&self, tokens: &[Token], context_tokens: usize) -> Result<(), TurnError> {
        let vocabulary = self.inner.model.vocabulary();
        if tokens.is_empty() {
            return Err(TurnError::EmptyPrompt);
        }
        if tokens.len() > context_tokens {
            return Err(TurnError::TooLong { prompt_tokens: tokens.len(), context_tokens });
        }
        match tokens.iter().find(|&&token| !vocabulary.contains(token)) {
            Some(token) => {
                Err(TurnError::UnknownToken { token: token.0, vocabulary: vocabulary.len() })
            }
            None => Ok(()),
        }
    }

    /// Makes what every grammar needs, unless it is made: it walks the whole vocabulary, about a
    /// second for 150,000 tokens. Blocks; meant for a moment in which nobody speaks.
    pub fn prepare_grammars(&self) {
        self.grammars();
    }

    fn grammars(&self) -> &GrammarFactory {
        let vocabulary = self.inner.model.vocabulary();
        self.inner.grammars.get_or_init(|| GrammarFactory::new(vocabulary))
    }

    fn constrain(&self, grammar: &Grammar) -> Result<Constraint, TurnError> {
        let factory = self.grammars();
        factory.start(grammar).map_err(|error| TurnError::Grammar(error.to_string()))
    }

    fn send(&self, command: Command) -> Result<(), TurnError> {
        self.inner.commands.send(command).map_err(|_| TurnError::Stopped)
    }
}

impl Drop for Inner {
    /// The last handle is gone: the thread saves and ends by itself.
    fn drop(&mut self) {
        self.commands.send(Command::Stop).ok(); // An error: it has stopped already.
    }
}

pub(crate) fn conversation_tokens(options: &EngineOptions, model: &ModelFacts) -> usize {
    match model.trained_context {
        0 => options.context_tokens, // The file does not tell.
        trained => options.context_tokens.min(trained),
    }
}

pub(crate) fn shape(options: &EngineOptions) -> ContextShape {
    ContextShape {
        context_tokens: options.context_tokens,
        sequences: options.slots + options.prefixes + 1, // And one for splices.
        micro_batch: options.micro_batch.min(options.context_tokens),
    }
}

fn wall_clock() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let millis = since.map_or(0, |since| since.as_millis());
    Timestamp(u64::try_from(millis).unwrap_or(u64::MAX))
}
