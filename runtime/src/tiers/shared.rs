//! What the engine's thread, the writer and the readers share. Each lock but `removal` is held
//! around map operations, never around I/O, and by no thread of low priority: see `locked`.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use hob_slots::evict::History;
use hob_slots::format::{Object, ObjectKind, SlotRecord};
use hob_slots::store::{ObjectName, Store};
use hob_slots::{
    AdapterSet, BlockId, ConversationId, ModelHash, Timeline, Token, ViewRun, WarmPool,
};
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::watch;

use super::contents::Contents;
use super::counters::Counters;
use super::marks::Marks;
use super::meaning::Unembedded;
use super::passages::Indexes;
use super::records::Records;
use crate::backend::Model;
use crate::embedder::Embedder;

/// Host memory that the tiers may use.
#[derive(Clone, Copy, Debug)]
pub struct MemoryBudget {
    /// For KV that is on disk, or that there is no disk for.
    pub memory_bytes: u64,
    /// For KV that waits for the disk; it stays in memory beyond the other budget.
    pub unsaved_bytes: u64,
}

pub(super) struct Shared {
    pub fingerprint: ModelHash,
    pub model: Arc<dyn Model>,
    pub store: Option<Arc<Store>>,
    /// The tiers of the draft model, which maintenance protects too.
    pub beside: OnceLock<Arc<Shared>>,
    /// These are the tiers of a draft model: the model's tiers have all other directories.
    pub is_beside: AtomicBool,
    pool: Mutex<WarmPool>,
    /// With `pool`: an object waits for the disk no longer.
    pub fewer_unsaved: Condvar,
    records: Mutex<Records>,
    objects: Mutex<HashMap<BlockId, Known>>,
    /// Known objects beyond which [`Shared::forget_evicted`] looks for those to drop.
    max_known: AtomicUsize,
    /// The object of each file name of a sealed directory that this process has seen or writes.
    names: Mutex<HashMap<ObjectName, BlockId>>,
    /// The writer write-locks this while it removes objects, readers read-lock it around I/O: an object that
    /// was read still exists. The engine's thread never takes this lock.
    removal: RwLock<()>,
    /// Conversations in a slot or in the queue; maintenance leaves their files alone.
    pub open: Mutex<BTreeSet<ConversationId>>,
    /// Maintenance ends early, and queued jobs are dropped.
    pub stopping: Arc<AtomicBool>,
    pub marks: Marks,
    /// The words of live conversations.
    pub passages: Indexes,
    /// The records by their content.
    pub contents: Contents,
    /// Blocks that wait for vectors.
    pub unembedded: Unembedded,
    /// Makes these vectors.
    pub embedder: Option<Embedder>,
    /// Conversations whose time of use the writer is about to write: a sweep that has read the slot
    /// file before must not find them expired.
    pub renewing: Mutex<BTreeSet<ConversationId>>,
    /// Cleared memory for exports.
    pub spares: Mutex<Vec<Vec<u8>>>,
    /// The longest block that was read.
    pub block_bytes: AtomicUsize,
    /// Size per token of the last block that was exported.
    pub bytes_per_token: AtomicU64,
    /// Requests that the saved history of the eviction policy covers.
    pub saved_runs: AtomicU64,
    /// Since the writer has read what slot files name, maintenance has replaced a slot file, or a record that stays in
    /// memory has replaced the record of one.
    pub slot_files_unread: AtomicBool,
    unsaved_budget_bytes: u64,
    /// The engine waits for [`Shared::is_full`] to become false.
    pub engine_waits: AtomicBool,
    pub counters: Counters,
    /// `counters.written_bytes`, for those who wait for it to grow.
    pub written: watch::Sender<u64>,
}

/// Maximum number of spare buffers.
const MAX_SPARES: usize = 4;

/// Known objects below which none is dropped.
const MIN_KNOWN: usize = 64;

/// What this process knows of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub file_bytes: u64,
    pub on_disk: bool,
    /// The object is in memory alone, and is not on its way to the disk.
    pub in_memory: bool,
}

impl Known {
    pub fn on_disk(file_bytes: u64) -> Self {
        Self { file_bytes, on_disk: true, in_memory: false }
    }
}

impl Shared {
    pub fn new(
        model: Arc<dyn Model>,
        fingerprint: ModelHash,
        store: Option<Arc<Store>>,
        budget: MemoryBudget,
        embedder: Option<Embedder>,
    ) -> Self {
        let history = store.as_ref().and_then(|store| store.reader().eviction_history());
        let history = history.unwrap_or_else(History::prior);
        let pool = WarmPool::with_history(budget.memory_bytes, &history);
        Self {
            fingerprint,
            model,
            pool: Mutex::new(pool),
            store,
            beside: OnceLock::new(),
            is_beside: AtomicBool::new(false),
            fewer_unsaved: Condvar::new(),
            records: Mutex::default(),
            objects: Mutex::default(),
            max_known: AtomicUsize::new(MIN_KNOWN),
            names: Mutex::default(),
            removal: RwLock::default(),
            open: Mutex::default(),
            stopping: Arc::default(),
            marks: Marks::default(),
            passages: Indexes::default(),
            contents: Contents::default(),
            unembedded: Unembedded::default(),
            embedder,
            renewing: Mutex::default(),
            spares: Mutex::default(),
            block_bytes: AtomicUsize::new(0),
            bytes_per_token: AtomicU64::new(0),
            saved_runs: AtomicU64::new(0),
            slot_files_unread: AtomicBool::new(false),
            unsaved_budget_bytes: budget.unsaved_bytes,
            engine_waits: AtomicBool::new(false),
            counters: Counters::default(),
            written: watch::Sender::new(0),
        }
    }

    /// Whether the files of `model` are these tiers' to remove.
    pub fn is_ours(&self, model: ModelHash) -> bool {
        if self.is_beside.load(Ordering::Relaxed) {
            return model == self.fingerprint;
        }
        self.beside.get().is_none_or(|beside| beside.fingerprint != model)
    }

    /// An object or a slot file was written.
    pub fn count_written(&self, bytes: u64) {
        Counters::add(&self.counters.written_bytes, bytes);
        self.written.send_replace(self.counters.written_bytes.load(Ordering::Relaxed));
    }

    /// The blocks of `tokens`, which begin a conversation with these adapters. `views`: of the first ones;
    /// the others attended to everything.
    pub fn timeline(&self, adapters: &AdapterSet, tokens: &[Token], views: &[ViewRun]) -> Timeline {
        let vocabulary = self.model.vocabulary();
        let mut timeline = Timeline::of_root(adapters.root(self.fingerprint));
        timeline.push_runs(tokens, views, |token| vocabulary.is_eog(token));
        timeline
    }

    pub fn pool(&self) -> MutexGuard<'_, WarmPool> {
        self.pool.lock()
    }

    /// Lock order: before `objects` and `pool`.
    pub fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock()
    }

    pub fn objects(&self) -> MutexGuard<'_, HashMap<BlockId, Known>> {
        self.objects.lock()
    }

    /// To be called before an object gets known: a sealed directory does not tell which object a file name is of.
    pub fn learn_names(&self, ids: impl IntoIterator<Item = BlockId>) {
        let Some(store) = self.store.as_ref().filter(|store| store.hides_names()) else { return };
        for id in ids {
            let name = store.name(id); // Takes a microsecond, without the lock.
            self.names.lock().insert(name, id);
        }
    }

    /// A record was read from disk. The next record names its snapshots again; a reader notices a missing snapshot.
    pub fn learn(&self, record: &SlotRecord) {
        self.learn_names(record.objects().map(|(id, _)| id));
        let branches = record.branches.iter().filter(|it| it.kind == ObjectKind::Snapshot);
        let branches = branches.map(|snapshot| (snapshot.id, snapshot.bytes));
        let snapshots = record.snapshots.iter().map(|snapshot| (snapshot.id, snapshot.bytes));
        for (id, file_bytes) in snapshots.chain(branches) {
            self.objects().entry(id).or_insert(Known::on_disk(file_bytes));
        }
    }

    /// The object of a file, if this process knows it.
    pub fn id_of(&self, name: &ObjectName) -> Option<BlockId> {
        let store = self.store.as_ref()?;
        if store.hides_names() {
            self.names.lock().get(name).copied()
        } else {
            store.clear_id(*name)
        }
    }

    /// The file was removed.
    pub fn forget_name(&self, name: &ObjectName) {
        self.names.lock().remove(name);
    }

    /// The files of these objects were removed.
    pub fn forget_names<'i>(&self, ids: impl IntoIterator<Item = &'i BlockId>) {
        let Some(store) = self.store.as_ref().filter(|store| store.hides_names()) else { return };
        let mut names = self.names.lock();
        for id in ids {
            names.remove(&store.name(*id));
        }
    }

    /// While this is held, no object is removed.
    pub fn reading(&self) -> RwLockReadGuard<'_, ()> {
        self.removal.read()
    }

    /// While this is held, no object is read.
    pub fn removing(&self) -> RwLockWriteGuard<'_, ()> {
        self.removal.write()
    }

    pub fn is_full(&self) -> bool {
        let (bytes, budget_bytes) = self.unsaved_bytes();
        bytes >= budget_bytes
    }

    /// Bytes that wait for the disk, and their budget.
    pub fn unsaved_bytes(&self) -> (u64, u64) {
        (self.pool().unsaved_bytes(), self.unsaved_budget_bytes)
    }

    /// Drops what is known of objects that were in memory alone and have left it. Walks the known objects each time
    /// they have doubled. Beside a disk, those stay to which a conversation refers: a plan must know that they are
    /// lost, and not look for them there.
    pub fn forget_evicted(&self) {
        if self.objects().len() <= self.max_known.load(Ordering::Relaxed) {
            return;
        }
        let records = self.records();
        let mut objects = self.objects();
        let pool = self.pool();
        let has_disk = self.store.is_some();
        objects.retain(|id, known| {
            let is_needed = has_disk && (!known.in_memory || records.refers_to(id));
            is_needed || pool.contains(id)
        });
        self.max_known.store(2 * objects.len() + MIN_KNOWN, Ordering::Relaxed);
    }

    /// Waits until the writer has made room, or has nothing left to write.
    pub fn await_room(&self, until: Instant) {
        let mut pool = self.pool();
        while pool.unsaved_bytes() > 0 && pool.unsaved_bytes() >= self.unsaved_budget_bytes {
            if self.fewer_unsaved.wait_until(&mut pool, until).timed_out() {
                return;
            }
        }
    }

    /// Fills the spare buffers for exports of `bytes`, so that the engine's thread does not wait
    /// for the system to clear pages.
    pub fn make_spares(&self, bytes: usize) {
        while bytes > 0 && self.needs_spare() {
            self.spares.lock().push(cleared(bytes));
        }
    }

    pub fn needs_spare(&self) -> bool {
        self.spares.lock().len() < MAX_SPARES
    }

    /// Learns how long blocks are.
    pub fn learn_size(&self, object: &Object) {
        let tokens = object.tokens.len() as u64;
        if object.kind == ObjectKind::Block && tokens > 0 {
            let bytes = object.payload.len() as u64 / tokens;
            self.bytes_per_token.store(bytes, Ordering::Relaxed);
        }
    }

    /// [`Self::holds`], and, unless the bytes may stay in memory alone, they are on disk or on their
    /// way to it.
    pub fn has(&self, id: &BlockId, in_memory: bool) -> bool {
        let in_memory_alone = self.objects().get(id).is_some_and(|known| known.in_memory);
        self.holds(id) && (in_memory || !in_memory_alone)
    }

    /// The object was not found. Returns whether it was known to be on disk until now. The object stays known, so
    /// that no record that names it is believed.
    pub fn lose(&self, id: &BlockId) -> bool {
        self.objects().get_mut(id).is_some_and(|known| std::mem::take(&mut known.on_disk))
    }

    /// Whether no tier has an object that was saved: this process knows it and has it no longer, or there is
    /// no disk where it could be.
    pub fn has_lost(&self, id: &BlockId) -> bool {
        !self.holds(id) && (self.store.is_none() || self.objects().contains_key(id))
    }

    pub fn holds(&self, id: &BlockId) -> bool {
        let on_disk = self.objects().get(id).is_some_and(|known| known.on_disk);
        on_disk || self.pool().contains(id)
    }
}

/// Memory that the system has cleared: zeros would be promised, not given.
pub(super) fn cleared(bytes: usize) -> Vec<u8> {
    let mut spare = vec![1; bytes];
    spare.clear();
    spare
}

#[cfg(test)]
mod tests {
    use hob_slots::format::BranchRef;
    use hob_slots::{Payload, Use};

    use super::*;
    use crate::backend::fake::FakeModel;

    fn shared(store: Option<Arc<Store>>) -> Shared {
        let budget = MemoryBudget { memory_bytes: 100, unsaved_bytes: 0 };
        Shared::new(Arc::new(FakeModel::new()), ModelHash([0; 8]), store, budget, None)
    }

    fn id(number: u32) -> BlockId {
        let mut id = [0; 32];
        id[..4].copy_from_slice(&number.to_le_bytes());
        BlockId(id)
    }

    fn in_memory() -> Known {
        Known { on_disk: false, in_memory: true, ..Known::on_disk(50) }
    }

    /// Puts 1,000 objects of 50 bytes into memory alone.
    fn put_many(shared: &Shared) {
        for number in 0..1_000 {
            shared.objects().insert(id(number), in_memory());
            let payload = Payload::from(vec![0; 50]);
            shared.pool().insert_saved(id(number), None, payload, Use::default());
            shared.forget_evicted();
        }
    }

    #[test]
    fn what_has_left_memory_is_not_known_for_ever() {
        let shared = shared(None);
        put_many(&shared);
        assert!(shared.objects().len() <= MIN_KNOWN + 4, "{}", shared.objects().len());
        assert!(shared.pool().len() <= 2);
    }

    #[test]
    fn beside_a_disk_what_has_left_memory_is_known_while_a_conversation_refers_to_it() {
        let directory = tempfile::tempdir().unwrap();
        let shared = shared(Some(Arc::new(Store::open(directory.path()).unwrap())));
        let [referred, other, on_disk] = [1_001, 1_002, 1_003].map(id);
        let object =
            BranchRef { kind: ObjectKind::Block, start: 0, end: 64, id: referred, bytes: 50 };
        shared.records().put(&ConversationId::new("chat").unwrap(), object);
        let known = [in_memory(), in_memory(), Known::on_disk(50)];
        shared.objects().extend([referred, other, on_disk].into_iter().zip(known));

        put_many(&shared);
        assert!(shared.objects().len() <= MIN_KNOWN + 8, "{}", shared.objects().len());
        assert!(shared.has_lost(&referred) && !shared.has_lost(&other));
        assert!(shared.holds(&on_disk));
    }
}
