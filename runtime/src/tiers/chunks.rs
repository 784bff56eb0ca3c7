//! Which parts of a prompt are saved at another place. Runs on a reader thread.
//!
//! - The index has the records that are in memory, and, from the first question on, those that were on disk
//!   then: the latest ones, as far as they fit.
//! - A later question reads the records that have left memory since, and those that were replaced on disk, as by
//!   an import.
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
    let mut known = shared.contents.known();
    read_disk(shared, &mut known, &is_wanted);
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
/// where a cancelled one stopped.
fn read_disk(shared: &Shared, known: &mut Known, is_wanted: impl Fn() -> bool) {
    let Some(store) = &shared.store else { return };
    // Before the directory is listed, which has all that left memory earlier.
    let left = shared.records().take_left();
    let Known { index, unread } = known;
    let unread = unread.get_or_insert_with(|| listed(shared, store));
    for (conversation, record) in left {
        if record.upgrade().is_none_or(|record| !index.has(&record)) {
            unread.retain(|known| *known != conversation);
            unread.push_back(conversation);
        }
    }
    unread.drain(..unread.len().saturating_sub(MAX_FILES));
    while is_wanted()
        && let Some(conversation) = unread.pop_front()
    {
        let _present = shared.reading();
        let Ok(record) = store.get_slot(shared.fingerprint, &conversation) else { continue };
        // A forgotten conversation has no record, although its file is there yet.
        let is_forgotten = matches!(shared.records().lookup(&conversation), Some(None));
        if !is_forgotten {
            shared.learn_names(record.objects().map(|(id, _)| id));
            index.add(Source { record: Arc::new(record), is_private: false });
        }
    }
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
    use hob_slots::format::BlockRef;
    use hob_slots::{Block, ModelHash, Timeline};

    use super::super::empty_record::empty_record;
    use super::super::records::Records;
    use super::super::shared::Budget;
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

    #[test]
    fn a_record_that_left_memory_between_two_questions_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(directory.path()).unwrap());
        let budget = Budget { memory_bytes: 0, unsaved_bytes: 0 };
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
