//! Which parts of a prompt are saved at another place. Runs on a reader thread.
//!
//! - The index has the records that are in memory, and, from the first question on, those that were on disk
//!   then: the latest ones, as far as they fit.
//! - A record whose block is missing is found no more. KV that was dropped since is computed.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use hob_slots::content::{ContentIndex, Import, Repair, Source, Wanted, imports, movable};
use hob_slots::format::{SegmentRef, SlotRecord};
use hob_slots::store::Store;
use hob_slots::{AdapterSet, ConversationId, Token};
use tracing::debug;

use super::contents::Known;
use super::shared::Shared;

/// Slot files that the first question reads.
const MAX_FILES: usize = 512;

/// Asks for chunks of a prompt.
#[derive(Clone, Debug)]
pub struct ChunkRequest {
    /// The conversation whose private and impure KV may be moved; `None` for an anonymous turn.
    pub own: Option<ConversationId>,
    pub adapters: AdapterSet,
    pub prompt: Vec<Token>,
    /// Of the prompt.
    pub segments: Vec<SegmentRef>,
    /// Where chunks may be.
    pub within: Range<usize>,
    pub repair: Repair,
    /// Whether they may be those of other conversations.
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
    shared.contents.catch_up(&mut known); // With what was forgotten meanwhile.
    let within = movable(request.within.clone(), &request.segments);
    let chunks = known.index.find(Wanted {
        prompt: &request.prompt,
        within: &within,
        adapters: &request.adapters,
        conversation: request.own.as_ref(),
        others: request.others,
        own_impure: request.own_impure,
        least: request.repair.min_chunk(),
    });
    let indexed = known.index.tokens();
    drop(known);
    let imports = imports(&chunks, request.repair);
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
    let Known { index, unread } = known;
    let unread = unread.get_or_insert_with(|| listed(shared, store));
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
