//! Which parts of a prompt are saved at another place. Runs on a reader thread.
//!
//! - The index has the records that are in memory, and, from the first question on, those that were on disk
//!   then: the latest ones, as far as they fit.
//! - A later question reads the records that have left memory since, and those that were replaced on disk, as by
//!   an import.
//! - Questions that read the disk at the same time share the records to read, and wait for none of the others.
//! - A record whose block is missing is found no more. The engine computes KV that was dropped since.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use hob_slots::content::{ChunkQuery, ContentIndex, Import, Repair, Source, imports, movable};
use hob_slots::format::{SegmentRef, SlotRecord};
use hob_slots::store::Store;
use hob_slots::{AdapterSet, ConversationId, Token};
use tracing::debug;

use super::contents::Known;
use super::records::MAX_LEFT;
use super::shared::Shared;

/// Slot files that a question reads.
const MAX_FILES: usize = MAX_LEFT;

/// Asks for chunks of a prompt.
#[derive(Clone, Debug)]
pub struct ChunkRequest {
    /// The conversation whose private and impure KV may be moved; `None` for an anonymous turn.
    pub own: Option<ConversationId>,
    pub adapters: AdapterSet,
    pub prompt: Vec<Token>,
    /// Segments of the prompt.
    pub segments: Vec<SegmentRef>,
    /// Where chunks may be.
    pub within: Range<usize>,
    pub repair: Repair,
    /// Whether chunks of other conversations may be used.
    pub others: bool,
    /// Whether impure KV of `own` may be moved.
    pub own_impure: bool,
}

/// What is imported of a prompt, in order. `is_wanted`: the request was not cancelled.
pub(super) fn find(
    shared: &Shared,
    request: &ChunkRequest,
    is_wanted: impl Fn() -> bool,
) -> Vec<Import> {
    let began = Instant::now();
    read_disk(shared, is_wanted);
    let mut known = shared.contents.known();
    add_records(shared, &mut known.index);
    shared.contents.catch_up(&mut known); // Conversations may have been forgotten meanwhile.
    let within = movable(request.within.clone(), &request.segments);
    let chunks = known.index.find(ChunkQuery {
        prompt: &request.prompt,
        within: &within,
        adapters: &request.adapters,
        conversation: request.own.as_ref(),
        others: request.others,
        own_impure: request.own_impure,
        least: request.repair.min_chunk(),
        whole_turns: request.repair.ends_with_turns(),
    });
    let indexed = known.index.tokens();
    drop(known);
    let imports = imports(&chunks, &request.prompt, request.repair);
    let tokens = imports.iter().map(|import| import.at.len()).sum::<usize>();
    debug!(indexed, chunks = imports.len(), tokens, took = ?began.elapsed(), "looked for chunks");
    imports
}

/// Adds the records that have changed since the last question.
fn add_records(shared: &Shared, index: &mut ContentIndex) {
    let records: Vec<(Arc<SlotRecord>, bool)> = shared.records().in_memory().collect();
    for (record, is_private) in records {
        if !index.has(&record) {
            index.add(Source { record, is_private });
        }
    }
}

/// Adds the records on disk that this process has not read, those used last at the end. The next question goes on
/// where a cancelled one stopped. Reads without the lock of the contents.
fn read_disk(shared: &Shared, is_wanted: impl Fn() -> bool) {
    let Some(store) = &shared.store else { return };
    list_unread(shared, store);
    let next = || shared.contents.known().begin_reading();
    while is_wanted()
        && let Some((number, conversation)) = next()
    {
        let read = read_present(shared, store, &conversation);
        let mut known = shared.contents.known();
        let is_known = known.end_reading(number);
        if let Some(record) = read
            && is_known
        {
            known.index.add(Source { record: Arc::new(record), is_private: false });
        }
    }
}

/// The record in a slot file; `None` also for a conversation that was forgotten before its file is removed.
fn read_present(
    shared: &Shared,
    store: &Store,
    conversation: &ConversationId,
) -> Option<SlotRecord> {
    // Until the end: the writer, which removes the files, would then drop the mark that the conversation is forgotten.
    let _present = shared.reading();
    let record = store.get_slot(shared.fingerprint, conversation).ok()?;
    if matches!(shared.records().lookup(conversation), Some(None)) {
        return None;
    }
    shared.learn_names(record.objects().map(|(id, _)| id));
    Some(record)
}

/// Queues the conversations whose records are to be read.
fn list_unread(shared: &Shared, store: &Store) {
    // Before the directory is listed, which has all that left memory earlier.
    let left = shared.records().take_left();
    let is_listed = shared.contents.known().unread.is_some();
    let found = if is_listed { VecDeque::new() } else { listed(shared, store) };
    let mut known = shared.contents.known();
    let Known { index, unread, .. } = &mut *known;
    let unread = unread.get_or_insert(found);
    for (conversation, record) in left {
        if record.upgrade().is_none_or(|record| !index.has(&record)) {
            unread.retain(|known| *known != conversation);
            unread.push_back(conversation);
        }
    }
    unread.drain(..unread.len().saturating_sub(MAX_FILES));
}

/// The conversations with a file, the [`MAX_FILES`] that were used last, the last one at the end.
fn listed(shared: &Shared, store: &Store) -> VecDeque<ConversationId> {
    let Ok(mut listing) = store.reader().slots(shared.fingerprint) else { return VecDeque::new() };
    listing.slots.sort_by_key(|entry| entry.used_at);
    let first = listing.slots.len().saturating_sub(MAX_FILES);
    listing.slots.drain(first..).map(|entry| entry.conversation).collect()
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::sync::{OnceLock, Weak};

    use hob_slots::format::BlockRef;
    use hob_slots::store::files::{HookedDisk, Hooks};
    use hob_slots::{Block, ModelHash, Timeline};
    use parking_lot::Mutex;

    use super::super::empty_record::empty_record;
    use super::super::records::Records;
    use super::super::shared::MemoryBudget;
    use super::*;
    use crate::backend::fake::FakeModel;

    const MODEL: ModelHash = ModelHash([1; 8]);
    const TOKENS: usize = 200;

    /// Different for each `number`.
    fn text(number: i32) -> Vec<Token> {
        (0..).map(|at| Token(number * 10_000 + at)).take(TOKENS).collect()
    }

    /// A conversation of the text, in the directory and in memory.
    fn save(shared: &Shared, conversation: &str, number: i32) {
        let tokens = text(number);
        let mut timeline = Timeline::new(MODEL);
        timeline.push(&tokens, |_| false);
        let block = |block: &Block| BlockRef {
            end: u32::try_from(block.range.end).unwrap(),
            id: block.id,
            bytes: 1,
        };
        let blocks = timeline.blocks().iter().map(block).collect();
        let record = SlotRecord { tokens, blocks, ..empty_record(conversation) };
        shared.store.as_ref().unwrap().put_slot(MODEL, &record).unwrap();
        let (record, _) = shared.records().set(record, &timeline, |_| true);
        shared.records().mark_saved(&record);
    }

    /// Tokens of the text that are found behind another one.
    fn found(shared: &Shared, number: i32) -> usize {
        let prompt = [&[Token(7); 5][..], &text(number)].concat();
        let request = ChunkRequest {
            own: None,
            adapters: AdapterSet::default(),
            segments: Vec::new(),
            within: 0..prompt.len(),
            prompt,
            repair: Repair::None,
            others: true,
            own_impure: false,
        };
        find(shared, &request, || true).iter().map(|import| import.at.len()).sum()
    }

    /// Acts whenever a slot file was opened.
    struct OnOpen<F> {
        shared: OnceLock<Weak<Shared>>,
        act: F,
    }

    impl<F> std::fmt::Debug for OnOpen<F> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("OnOpen")
        }
    }

    impl<F: Fn(&Shared) + Send + Sync> Hooks for OnOpen<F> {
        fn opened(&self, path: &Path) -> io::Result<()> {
            let shared = self.shared.get().and_then(Weak::upgrade);
            if let Some(shared) = shared.filter(|_| path.extension().is_some_and(|it| it == "bin"))
            {
                (self.act)(&shared);
            }
            Ok(())
        }
    }

    /// Tiers that keep the latest record in memory alone, and that act whenever a slot file was opened.
    fn tiers(dir: &Path, act: impl Fn(&Shared) + Send + Sync + 'static) -> Arc<Shared> {
        let hooks = Arc::new(OnOpen { shared: OnceLock::new(), act });
        let files = Arc::new(HookedDisk(hooks.clone()));
        let store = Arc::new(Store::open_on(files, dir).unwrap());
        let budget = MemoryBudget { memory_bytes: 0, unsaved_bytes: 0 };
        let shared = Shared::new(Arc::new(FakeModel::new()), MODEL, Some(store), budget, None);
        let shared = Arc::new(shared);
        *shared.records() = Records::with_budget(0);
        hooks.shared.set(Arc::downgrade(&shared)).expect("it is set once");
        shared
    }

    #[test]
    fn slot_files_are_read_without_the_lock_of_the_contents() {
        let directory = tempfile::tempdir().unwrap();
        let locked = Arc::new(Mutex::new(Vec::new()));
        let seen = locked.clone();
        let shared = tiers(directory.path(), move |shared| {
            seen.lock().push(shared.contents.is_locked());
        });
        for (name, number) in [("one", 1), ("two", 2), ("latest", 3)] {
            save(&shared, name, number);
        }
        assert_eq!([1, 2].map(|number| found(&shared, number)), [TOKENS; 2]);
        let locked = locked.lock();
        assert!(locked.len() >= 2 && !locked.contains(&true), "{locked:?}");
    }

    #[test]
    fn a_conversation_that_is_forgotten_while_its_file_is_read_is_not_found() {
        let directory = tempfile::tempdir().unwrap();
        let shared = tiers(directory.path(), |shared| {
            let one = ConversationId::new("one").unwrap();
            shared.records().forget(&one);
            shared.contents.forget(&one);
            // As the writer does when it has removed the files.
            shared.records().forgotten(&one);
        });
        save(&shared, "one", 1);
        save(&shared, "latest", 2);
        assert_eq!([1, 2].map(|number| found(&shared, number)), [0, TOKENS]);
    }

    #[test]
    fn a_record_that_left_memory_between_two_questions_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(directory.path()).unwrap());
        let budget = MemoryBudget { memory_bytes: 0, unsaved_bytes: 0 };
        let shared = Shared::new(Arc::new(FakeModel::new()), MODEL, Some(store), budget, None);
        *shared.records() = Records::with_budget(0); // The latest record stays.
        save(&shared, "before", 1);
        save(&shared, "listed", 2);
        assert_eq!([1, 2, 3].map(|number| found(&shared, number)), [TOKENS, TOKENS, 0]);
        save(&shared, "dropped", 3);
        save(&shared, "latest", 4);
        assert_eq!(shared.records().in_memory().count(), 1);
        assert_eq!([1, 2, 3, 4].map(|number| found(&shared, number)), [TOKENS; 4]);
    }
}
