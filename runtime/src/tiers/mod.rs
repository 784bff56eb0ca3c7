//! Offloads KV from the cache to host memory and disk, and fetches it back. The engine's thread
//! never waits for either.
//!
//! - The *writer* writes behind, in the order of the calls. *Readers* fetch, verify and assemble,
//!   and deliver in groups. The engine's thread only takes a lock around a map. Another thread reads
//!   the words of what is away, see `passages`, and one more makes vectors of them, see `meaning`.
//! - An object that is not on disk yet stays in memory, even beyond the memory budget.
//! - A record names only objects that were handed to the writer before the record and that a tier still holds.
//! - An object that must stay in memory is not written, and no record on disk names it. The policy evicts it like
//!   bytes that are on disk.
//! - A forgotten conversation is gone for the next fetch, although its files are removed later.
//! - An object that cannot be read is a miss with a reason; the engine computes its tokens.
//! - A panic ends one job and no thread: an object that was to be written stays in memory, the tokens of one that was
//!   to be read are computed.
//! - The writer tries objects and records again, behind later jobs, that the disk refused or a panic left unwritten.
//!
//! Reading order: this file (the threads, and what the tiers hold), `offload` (what the engine hands over),
//! `fetch` (what the engine gets back).

mod chunks;
mod contents;
mod counters;
#[cfg(test)]
mod empty_record;
mod fetch;
mod find;
mod group;
mod index;
mod job;
mod locked;
mod maintenance;
mod marks;
mod meaning;
mod offload;
mod other_model;
mod passages;
mod plan;
mod read;
mod read_ahead;
mod recall;
mod recorded;
mod records;
mod residence;
mod retries;
mod shared;
mod successor;
mod usage;
mod writer;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

use hob_slots::content::Import;
use hob_slots::format::SlotRecord;
use hob_slots::store::Store;
use hob_slots::{AdapterSet, BlockId, ConversationId, ModelHash, Payload, Token, Use};

use crate::backend::Model;
use crate::embedder::Embedder;
use crate::map::Tier;

pub use chunks::ChunkRequest;
pub use counters::Counters;
pub use fetch::{FetchEvent, FetchHandle, FetchSummary};
use fetch::{Queue, Request};
pub(crate) use group::MaxGroup;
pub use index::TierIndex;
use job::Job;
use locked::LockedSteps;
pub use maintenance::Maintainer;
use marks::{NumberedChange, UseChange};
pub use offload::{Exported, RecordOptions};
pub use passages::Labelled;
pub use plan::FetchRequest;
pub use read::{Part, Piece};
use read_ahead::ReadAhead;
pub use read_ahead::ReadAheadHandle;
pub use recall::{RecallRequest, Recalled};
use records::Summary;
pub use shared::MemoryBudget;
use shared::Shared;
pub use usage::UsedObject;
use writer::Writer;

/// The memory and disk tiers of one model.
pub struct KvTiers {
    shared: Arc<Shared>,
    jobs: mpsc::Sender<Job>,
    fetches: Arc<Queue>,
    read_aheads: Option<mpsc::Sender<ReadAhead>>,
    uses: Option<mpsc::Sender<NumberedChange>>,
    threads: Vec<JoinHandle<()>>,
}

impl KvTiers {
    /// Starts the threads. Without a store there is only memory; `embedder` makes vectors of what leaves
    /// conversations. `on_room` is called when
    /// [`KvTiers::is_full`] has become false.
    pub fn new(
        model: Arc<dyn Model>,
        fingerprint: ModelHash,
        store: Option<Arc<Store>>,
        budget: MemoryBudget,
        embedder: Option<Embedder>,
        on_room: impl Fn() + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared::new(model, fingerprint, store, budget, embedder));
        let (jobs, mut job_inbox) = mpsc::channel();
        let fetches = Arc::new(Queue::of_threads(fetch::max_threads_per_restore()));
        let (steps, step_inbox) = LockedSteps::channel();
        let (writer, locked) = (shared.clone(), shared.clone());
        let mut threads = vec![
            spawn("hob-locked", move || locked::serve(&locked, &step_inbox)),
            spawn("hob-writer", move || {
                Writer::new(&writer, &steps, Box::new(on_room)).run(&mut job_inbox);
            }),
        ];
        for _ in 0..fetch::threads() {
            let (queue, shared) = (fetches.clone(), shared.clone());
            threads.push(spawn("hob-reader", move || queue.serve(&shared)));
        }
        let words = shared.clone();
        threads.push(spawn("hob-words", move || {
            let embeds = |indexed: &_| {
                if words.embedder.is_some() {
                    words.unembedded.push(indexed);
                }
            };
            words.passages.serve(words.model.vocabulary(), &words.counters, embeds);
        }));
        if let Some(embedder) = shared.embedder.clone() {
            let shared = shared.clone();
            threads.push(spawn("hob-meaning", move || {
                shared.unembedded.serve(&embedder, &shared.counters);
            }));
        }
        let (read_aheads, inbox) = mpsc::channel();
        let reads = shared.clone();
        threads.push(spawn("hob-read-ahead", move || read_ahead::serve(&reads, &inbox)));
        let (uses, changes) = mpsc::channel();
        let marks = shared.clone();
        threads.push(spawn("hob-marks", move || {
            if let Some(store) = &marks.store {
                marks.marks.change(store, marks.fingerprint, &changes);
            }
        }));
        Self { shared, jobs, fetches, read_aheads: Some(read_aheads), uses: Some(uses), threads }
    }

    /// Maintenance of these tiers protects the KV of `others` too, of another model over the same store.
    pub fn protect(&self, others: &Self) {
        others.shared.is_beside.store(true, Ordering::Relaxed);
        self.shared.beside.set(others.shared.clone()).ok().expect("there is one draft model");
    }

    /// Whether the bytes of `id` need not be exported again: a tier has them, and, unless they may
    /// stay in memory alone, they are on disk or on their way to it.
    pub fn has(&self, id: &BlockId, in_memory: bool) -> bool {
        self.shared.has(id, in_memory)
    }

    /// Whether a tier has the object, which may stay in memory alone.
    pub fn holds(&self, id: &BlockId) -> bool {
        self.shared.holds(id)
    }

    /// The bytes of an object that is in memory.
    pub fn in_memory(&self, id: &BlockId) -> Option<Payload> {
        self.shared.pool().get(id)
    }

    /// The tier that will have the object once all earlier calls are on disk.
    pub fn tier_once_written(&self, id: &BlockId) -> Tier {
        self.shared.tier_once_written(id)
    }

    /// Bytes of the object's file; 0 for one that this process has neither put nor read.
    pub fn file_bytes(&self, id: &BlockId) -> u64 {
        self.shared.objects().get(id).map_or(0, |known| known.file_bytes)
    }

    /// Maintenance, without a way through the engine's thread. After [`Self::protect`].
    pub fn maintainer(&self) -> Maintainer {
        Maintainer::new(self.jobs.clone(), &self.shared)
    }

    /// Replaces the set of conversations whose files maintenance leaves alone.
    pub fn set_open(&self, open: BTreeSet<ConversationId>) {
        *self.shared.open.lock() = open;
    }

    /// Whether `open` is the set that maintenance leaves alone.
    pub fn is_open(&self, open: &BTreeSet<ConversationId>) -> bool {
        *self.shared.open.lock() == *open
    }

    /// Fetches the saved KV of a prompt. `deliver` is called on other threads, until the handle is
    /// dropped or the end was delivered.
    pub fn fetch(
        &self,
        request: FetchRequest,
        deliver: impl Fn(FetchEvent) + Send + 'static,
    ) -> FetchHandle {
        Queue::submit(&self.fetches, Request::Sequel(request), Box::new(deliver))
    }

    /// Fetches those blocks of a conversation that its new text asks for, as [`KvTiers::fetch`] does.
    pub fn recall(
        &self,
        request: RecallRequest,
        deliver: impl Fn(FetchEvent) + Send + 'static,
    ) -> FetchHandle {
        Queue::submit(&self.fetches, Request::Recall(request), Box::new(deliver))
    }

    /// Looks for parts of a prompt that are saved at another place: delivers [`FetchEvent::Chunks`], and the
    /// end.
    pub fn find_chunks(
        &self,
        request: ChunkRequest,
        deliver: impl Fn(FetchEvent) + Send + 'static,
    ) -> FetchHandle {
        Queue::submit(&self.fetches, Request::Find(request), Box::new(deliver))
    }

    /// Fetches the KV of such a part, moved to its place in the prompt.
    pub fn fetch_chunk(
        &self,
        import: Import,
        deliver: impl Fn(FetchEvent) + Send + 'static,
    ) -> FetchHandle {
        Queue::submit(&self.fetches, Request::Chunk(import), Box::new(deliver))
    }

    /// Reads blocks from disk to memory, so that a later recall finds them there, until the handle is dropped.
    pub fn read_ahead(&self, blocks: Vec<BlockId>, usage: Use) -> ReadAheadHandle {
        let (read_ahead, handle) = ReadAhead::new(blocks, usage);
        let inbox = self.read_aheads.as_ref().expect("only drop takes it");
        inbox.send(read_ahead).expect("the thread runs until drop");
        handle
    }

    /// Reads the words of a conversation that has blocks away, so that [`KvTiers::recall`] finds them.
    pub fn learn_words(&self, timeline: Labelled) {
        self.shared.passages.learn(timeline);
    }

    /// The turn of restore `number` has computed its first token.
    pub fn answering(&self, conversation: &ConversationId, number: u64) {
        self.change_use(conversation, number, UseChange::Answering);
    }

    /// The turn of restore `number` has ended without a crash.
    pub fn use_ended(&self, conversation: &ConversationId, number: u64) {
        self.change_use(conversation, number, UseChange::Ended);
    }

    fn change_use(&self, conversation: &ConversationId, number: u64, change: UseChange) {
        let uses = self.uses.as_ref().expect("only drop takes it");
        uses.send((conversation.clone(), number, change)).ok(); // An error: there is no store.
    }

    /// Whether the conversation's newest record was looked up once, found or not.
    pub fn knows(&self, conversation: &ConversationId) -> bool {
        self.shared.records().knows(conversation)
    }

    /// Whether the conversation's record is known to cover, or may cover, more of `prompt` than
    /// its first `hot` tokens.
    pub fn may_hold_more(
        &self,
        conversation: &ConversationId,
        adapters: &AdapterSet,
        prompt: &[Token],
        hot: usize,
    ) -> bool {
        let mut records = self.shared.records();
        match records.lookup(conversation) {
            Some(record) => record.is_some_and(|r| r.shared_with(adapters, prompt) > hot),
            None => records.summary(conversation).is_some_and(|summary| summary.tokens > hot),
        }
    }

    /// The newest record of a conversation, if it is in memory.
    pub fn known_record(&self, conversation: &ConversationId) -> Option<Arc<SlotRecord>> {
        self.shared.records().lookup(conversation).flatten()
    }

    /// The summary of a conversation's record, without reading it.
    pub fn summary(&self, conversation: &ConversationId) -> Option<Summary> {
        self.shared.records().summary(conversation).cloned()
    }

    /// Whether there is a disk to write to.
    pub fn has_disk(&self) -> bool {
        self.shared.store.is_some()
    }

    /// Whether the budget of unsaved bytes is spent. `on_room` is called when it no longer is.
    pub fn is_full(&self) -> bool {
        // Set before the check, so that a write that ends in between calls `on_room`.
        self.shared.engine_waits.store(true, Ordering::SeqCst);
        let full = self.shared.is_full();
        if !full {
            self.shared.engine_waits.store(false, Ordering::SeqCst);
        }
        full
    }

    /// Waits until [`KvTiers::is_full`] is false, the writer has nothing left to write, or the time
    /// is over.
    pub fn await_room(&self, until: Instant) {
        self.shared.await_room(until);
    }

    /// Memory for the next export, already cleared by the system.
    pub fn spare_buffer(&self) -> Vec<u8> {
        self.shared.spares.lock().pop().unwrap_or_default()
    }

    /// Waits until all earlier calls are on disk.
    pub fn flush(&self) {
        let (done, wait) = mpsc::channel();
        self.when_flushed(move || done.send(()).unwrap_or(()));
        wait.recv().ok(); // An error: the writer has ended, with nothing left to write.
    }

    /// Calls `done` on the writer thread once all earlier calls are on disk.
    pub fn when_flushed(&self, done: impl FnOnce() + Send + 'static) {
        self.send(Job::Flush(Box::new(done)));
    }

    /// Bytes in memory, and their budget.
    pub fn memory_bytes(&self) -> (u64, u64) {
        let pool = self.shared.pool();
        (pool.bytes(), pool.budget())
    }

    /// Bytes that wait for the disk, and their budget.
    pub fn unsaved_bytes(&self) -> (u64, u64) {
        self.shared.unsaved_bytes()
    }

    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    fn send(&self, job: Job) {
        // The writer catches the panics of its jobs, and ends with `Close` alone.
        self.jobs.send(job).expect("the writer runs until drop");
    }
}

impl Drop for KvTiers {
    /// Waits for the threads: afterwards everything is on disk.
    fn drop(&mut self) {
        self.jobs.send(Job::Close).ok(); // An error: the writer has panicked.
        self.fetches.close();
        self.shared.passages.close();
        self.shared.unembedded.close();
        self.read_aheads = None;
        self.uses = None;
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(body).expect("the system can start a thread")
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
