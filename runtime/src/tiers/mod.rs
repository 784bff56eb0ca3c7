//! Memory and disk behind the engine: what leaves the cache goes here, what comes back is assembled
//! here. The engine's thread never waits for either.
//!
//! - The *keeper* writes behind, in the order of the calls; *fetchers* read, verify and assemble,
//!   and deliver in groups. The engine's thread only takes a lock around a map.
//! - An object that is not on disk yet stays in memory whatever the budget says.
//! - A conversation's record names objects that were handed to the keeper before it, and that
//!   nobody has taken away since.
//! - What was forgotten is gone for the next question, although files are removed behind.
//! - Whatever cannot be read is a miss with a reason. The engine then computes; nothing is lost.

mod fetch;
mod find;
mod other_model;
mod plan;
mod read;
mod records;
mod sweep;
mod writer;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, mpsc,
};
use std::thread::JoinHandle;

use hob_slots::format::{Object, ObjectKind, SlotRecord};
use hob_slots::store::Store;
use hob_slots::{BlockId, ConversationId, ModelHash, Use, WarmPool};

use crate::backend::Model;
use crate::map::Tier;

use fetch::Queue;
pub use fetch::{FetchEvent, FetchHandle, Found};
pub use plan::{FetchRequest, common_prefix};
pub use read::Piece;
use records::{Records, Summary};
pub use sweep::{MaintenanceJob, Sweep, in_the_background};
use writer::{Job, Writer};

/// Memory and disk, for one fingerprint.
pub struct KvTiers {
    shared: Arc<Shared>,
    jobs: Option<mpsc::Sender<Job>>,
    fetches: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

/// Host memory that the shelf may take.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// For what is kept.
    pub memory_bytes: u64,
    /// For what waits for the disk: it stays whatever the other budget says.
    pub unsaved_bytes: u64,
}

/// What the threads share. Each lock is held around a map operation, never around I/O.
struct Shared {
    fingerprint: ModelHash,
    model: Arc<dyn Model>,
    store: Option<Arc<Store>>,
    pool: Mutex<WarmPool>,
    records: Mutex<Records>,
    objects: Mutex<HashMap<BlockId, Known>>,
    /// Held around I/O by the keeper while it removes objects, and by fetchers while they read one:
    /// what was read is still there. The engine's thread never takes it.
    removal: RwLock<()>,
    /// Memory that is ready to be exported into.
    spares: Mutex<Vec<Vec<u8>>>,
    /// The longest block that was read.
    block_bytes: AtomicUsize,
    /// Unsaved bytes from which on exports wait.
    unsaved_budget_bytes: u64,
    /// The engine wants to be told when there is room again.
    engine_waits: AtomicBool,
    counters: Counters,
}

/// Buffers that are ready to be exported into, at most.
const SPARES: usize = 4;

/// What this process knows of an object.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Bytes of its file.
    file_bytes: u64,
    on_disk: bool,
}

/// What the disk did, since the start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Bytes written: objects and slot files.
    pub written_bytes: AtomicU64,
    /// Bytes of verified payload read.
    pub read_bytes: AtomicU64,
    /// Writes that failed.
    pub write_errors: AtomicU64,
    /// Files that were there and were not usable.
    pub rejected: AtomicU64,
}

impl KvTiers {
    /// Starts the threads. Without a store, memory is all there is. `on_room` is called when
    /// [`KvTiers::is_full`] was true and is not any more.
    pub fn new(
        model: Arc<dyn Model>,
        fingerprint: ModelHash,
        store: Option<Arc<Store>>,
        budget: Budget,
        on_room: impl Fn() + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            fingerprint,
            model,
            store,
            pool: Mutex::new(WarmPool::new(budget.memory_bytes)),
            records: Mutex::default(),
            objects: Mutex::default(),
            removal: RwLock::default(),
            spares: Mutex::default(),
            block_bytes: AtomicUsize::new(0),
            unsaved_budget_bytes: budget.unsaved_bytes,
            engine_waits: AtomicBool::new(false),
            counters: Counters::default(),
        });
        let (jobs, job_inbox) = mpsc::channel();
        let fetches = Arc::new(Queue::of_threads(fetch::most_for_one()));
        let writer = shared.clone();
        let mut threads = vec![spawn("hob-writer", move || {
            step_back(BEHIND_ANSWERS);
            Writer::new(&writer, &on_room).run(&job_inbox);
        })];
        for _ in 0..fetch::THREADS {
            let (queue, shared) = (fetches.clone(), shared.clone());
            threads.push(spawn("hob-fetcher", move || queue.serve(&shared)));
        }
        Self { shared, jobs: Some(jobs), fetches, threads }
    }

    /// Whether the bytes of `id` need not be exported again.
    pub fn holds(&self, id: &BlockId) -> bool {
        self.shared.holds(id)
    }

    /// Where the bytes of `id` are.
    pub fn place_of(&self, id: &BlockId) -> Tier {
        if self.shared.pool().contains(id) {
            return Tier::Memory;
        }
        match self.shared.holds(id) {
            true => Tier::Disk,
            false => Tier::Nowhere,
        }
    }

    /// Keeps an object: in memory at once, on disk behind. `used`: the request that made it.
    pub fn keep(&self, id: BlockId, object: Object, used: Use) {
        let known = Known { file_bytes: object.file_bytes(), on_disk: false };
        self.shared.objects().insert(id, known);
        // A snapshot stands for all before it, and follows on nothing.
        let parent = (object.kind == ObjectKind::Block).then_some(object.parent);
        if self.shared.store.is_none() {
            return self.shared.pool().insert_saved(id, parent, object.payload, used);
        }
        self.shared.pool().insert(id, parent, object.payload.clone(), used);
        self.send(Job::Object(id, Box::new(object)));
    }

    /// Bytes of the object's file; 0 for one that this process has neither kept nor read.
    pub fn file_bytes(&self, id: &BlockId) -> u64 {
        self.shared.objects().get(id).map_or(0, |known| known.file_bytes)
    }

    /// Keeps what a conversation is made of.
    ///
    /// # Errors
    /// The objects that are not held: another conversation that had them too was forgotten. Nothing
    /// was recorded.
    pub fn record(&self, record: SlotRecord) -> Result<(), BTreeSet<BlockId>> {
        let mut records = self.shared.records();
        let named = record.objects().map(|(id, _)| id);
        let missing: BTreeSet<BlockId> = named.filter(|id| !self.shared.holds(id)).collect();
        if !missing.is_empty() {
            return Err(missing);
        }
        let record = Arc::new(record);
        // Nothing else leads to a snapshot. Blocks are found by what they hold: the sweep's work.
        let mut superseded = records.set(record.clone());
        superseded.retain(|id| record.snapshots.iter().all(|snapshot| snapshot.id != *id));
        self.send(Job::Record(record, superseded));
        Ok(())
    }

    /// Forgets a conversation: its record, and the objects that it alone named or that were kept of
    /// it since (`unrecorded`), in memory and on disk.
    pub fn forget(&self, conversation: &ConversationId, unrecorded: Vec<BlockId>) {
        let mut named = self.shared.records().forget(conversation);
        named.extend(unrecorded);
        self.send(Job::Forget(conversation.clone(), named));
    }

    /// Sweeps the directory, behind; what is `open` stays.
    pub fn sweep(&self, open: BTreeSet<ConversationId>, sweep: Sweep) {
        self.send(Job::Sweep(open, Box::new(sweep)));
    }

    /// Works on the directory, behind; `open`: what must stay.
    pub fn maintain(&self, open: BTreeSet<ConversationId>, tending: MaintenanceJob) {
        self.send(Job::Maintain(open, tending));
    }

    /// Assembles what is kept of a prompt; `deliver` is called on other threads, until the ticket is
    /// dropped or the end was delivered.
    pub fn fetch(
        &self,
        wanted: FetchRequest,
        deliver: impl Fn(FetchEvent) + Send + 'static,
    ) -> FetchHandle {
        Queue::submit(&self.fetches, wanted, Box::new(deliver))
    }

    /// Whether it is known what the newest record of a conversation is.
    pub fn knows(&self, conversation: &ConversationId) -> bool {
        self.shared.records().knows(conversation)
    }

    /// The newest record of a conversation, if it is in memory.
    pub fn known_record(&self, conversation: &ConversationId) -> Option<Arc<SlotRecord>> {
        self.shared.records().seen(conversation).flatten()
    }

    /// What is known of a conversation's record without reading it.
    pub fn summary(&self, conversation: &ConversationId) -> Option<Summary> {
        self.shared.records().summary(conversation).cloned()
    }

    /// Conversations whose record this process has seen.
    pub fn known_conversations(&self) -> Vec<(ConversationId, usize)> {
        let records = self.shared.records();
        records.conversations().map(|(id, tokens)| (id.clone(), tokens)).collect()
    }

    /// Whether so much waits for the disk that nothing more should be kept for now. The engine is
    /// told when there is room again.
    pub fn is_full(&self) -> bool {
        // Said before it is looked at: a write that ends in between tells the engine.
        self.shared.engine_waits.store(true, Ordering::SeqCst);
        let full = self.shared.is_full();
        if !full {
            self.shared.engine_waits.store(false, Ordering::SeqCst);
        }
        full
    }

    /// Memory for what is to be kept next, that the system has given already.
    pub fn spare_buffer(&self) -> Vec<u8> {
        lock(&self.shared.spares).pop().unwrap_or_default()
    }

    /// Waits until everything kept so far is on disk.
    pub fn flush(&self) {
        let (done, wait) = mpsc::channel();
        self.send(Job::Flush(done));
        wait.recv().ok(); // An error: the keeper is gone, and with it what could be waited for.
    }

    /// Bytes in memory and the most there may be.
    pub fn memory_bytes(&self) -> (u64, u64) {
        let pool = self.shared.pool();
        (pool.bytes(), pool.budget())
    }

    /// What the disk did, since the start.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    fn send(&self, job: Job) {
        let jobs = self.jobs.as_ref().expect("the writer runs until drop");
        jobs.send(job).expect("the writer runs until drop");
    }
}

impl Drop for KvTiers {
    /// Waits for the threads: everything that was kept is on disk afterwards.
    fn drop(&mut self) {
        self.jobs = None;
        self.fetches.close();
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
    }
}

impl Shared {
    fn pool(&self) -> MutexGuard<'_, WarmPool> {
        lock(&self.pool)
    }

    /// Where others are taken too, this one is taken first.
    fn records(&self) -> MutexGuard<'_, Records> {
        lock(&self.records)
    }

    fn objects(&self) -> MutexGuard<'_, HashMap<BlockId, Known>> {
        lock(&self.objects)
    }

    /// As long as this is held, no object is removed.
    fn reading(&self) -> RwLockReadGuard<'_, ()> {
        self.removal.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// As long as this is held, nobody reads an object.
    fn removing(&self) -> RwLockWriteGuard<'_, ()> {
        self.removal.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_full(&self) -> bool {
        self.pool().unsaved_bytes() >= self.unsaved_budget_bytes
    }

    /// Has memory ready for exports of `bytes`: the engine's thread shall not wait until the system
    /// has cleared some.
    fn make_spares(&self, bytes: usize) {
        while bytes > 0 && lock(&self.spares).len() < SPARES {
            let mut spare = vec![1; bytes]; // Not zeros, which the system would promise alone.
            spare.clear();
            lock(&self.spares).push(spare);
        }
    }

    fn holds(&self, id: &BlockId) -> bool {
        let on_disk = self.objects().get(id).is_some_and(|known| known.on_disk);
        on_disk || self.pool().contains(id)
    }
}

impl Counters {
    fn add(counter: &AtomicU64, value: u64) {
        counter.fetch_add(value, Ordering::Relaxed);
    }
}

/// The maps stay consistent whatever panics elsewhere: each change is one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The keeper's niceness: running answers have the cores first.
const BEHIND_ANSWERS: i32 = 10;

/// Lets others have the cores before this thread and those that it starts; `by`: levels of niceness.
fn step_back(by: i32) {
    // Only on Linux a thread has a priority of its own. An error: then it has the usual one.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(by);
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(body).expect("the system can start a thread")
}
