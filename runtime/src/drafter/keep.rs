//! Saves the draft model's KV beside the model's, and restores it.
//!
//! - The blocks and records are those of the draft model's own directory. A conversation that comes back
//!   restores them when it answers; what is missing is computed, as if it had never been saved.
//! - Only what the model has in its timeline is saved: guesses that were wrong are cut off before.

use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::{Duration, Instant};

use hob_slots::format::{BlockRef, Object, ObjectKind, SlotRecord};
use hob_slots::{
    AdapterSet, BLOCK_TOKENS, Block, ConversationId, Payload, Timeline, Timestamp, Token, TtlClass,
    Use, common_prefix,
};
use tracing::warn;

use super::{Drafter, Followed, Owner};
use crate::position::narrow;
use crate::splice;
use crate::tiers::{
    Exported, FetchEvent, FetchHandle, FetchRequest, KvTiers, Piece, RecordOptions,
};

/// How long answers wait for imports between two micro-batches.
const MAX_IMPORT_TIME: Duration = Duration::from_millis(10);

/// A fetch on its way into a track.
pub(super) struct Restoring {
    number: u64,
    conversation: Option<ConversationId>,
    /// The timeline at its beginning.
    tokens: Vec<Token>,
    events: Receiver<FetchEvent>,
    handle: FetchHandle,
}

impl Restoring {
    /// Whether its pieces are of a text that has grown to `timeline`.
    pub fn is_of(&self, timeline: &[Token]) -> bool {
        timeline.starts_with(&self.tokens)
    }
}

impl Drafter<'_> {
    /// Fetches what is saved of the timeline beyond the cells, unless that is less than a block.
    pub(super) fn restore(&mut self, text: &Followed<'_>) {
        let track = &mut self.tracks[text.slot];
        let hot = track.timeline.len();
        if text.timeline.len() < hot + BLOCK_TOKENS {
            return;
        }
        self.core.fetches += 1;
        let (number, tokens) = (self.core.fetches, text.timeline.to_vec());
        let conversation = track.owner.as_ref().map(|owner| owner.conversation.clone());
        let request = FetchRequest {
            conversation: conversation.clone(),
            number,
            adapters: AdapterSet::default(), // It drafts without them.
            prompt: tokens.clone(),
            segments: Vec::new(),
            hot,
            limit: tokens.len(),
            views: Vec::new(),
            room: usize::MAX, // It evicts no blocks: it follows as far as its cells reach.
            prefix_ends: Vec::new(),
            record_only: false,
            accepts_moved: false, // It computes everything itself.
            accepts_lossy: true,
        };
        let (sender, events) = mpsc::channel();
        let handle = self.core.tiers.fetch(request, move |event| {
            sender.send(event).ok(); // An error: the turn has ended.
        });
        track.restoring = Some(Restoring { number, conversation, tokens, events, handle });
    }

    /// Imports what has arrived. Returns whether more will arrive.
    pub(super) fn is_restoring(&mut self, slot: usize) -> bool {
        let began = Instant::now();
        while let Some(restoring) = &self.tracks[slot].restoring {
            let event = match restoring.events.try_recv() {
                Ok(event) => event,
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => FetchEvent::Failed(String::new()),
            };
            match event {
                FetchEvent::Pieces(pieces) => {
                    if !pieces.iter().all(|piece| self.import(slot, piece)) {
                        self.end_restore(slot);
                    } else if let Some(restoring) = &self.tracks[slot].restoring {
                        restoring.handle.consumed(pieces);
                    }
                }
                // All of its KV is pure.
                FetchEvent::Views(_) | FetchEvent::Recalled(_) | FetchEvent::Chunks(_) => {}
                // The drafter's KV has one lineage: it never goes back.
                FetchEvent::GoesBack(_) | FetchEvent::End(_) | FetchEvent::Failed(_) => {
                    self.end_restore(slot);
                }
            }
            if began.elapsed() > MAX_IMPORT_TIME {
                break;
            }
        }
        self.tracks[slot].restoring.is_some()
    }

    /// Nothing more is imported.
    pub(super) fn end_restore(&mut self, slot: usize) {
        let Some(restoring) = self.tracks[slot].restoring.take() else { return };
        let Restoring { number, conversation, handle, .. } = restoring;
        drop(handle); // Before its use is reported as ended.
        if let Some(conversation) = conversation {
            self.core.tiers.use_ended(&conversation, number);
        }
    }

    /// Returns whether the piece is in place.
    fn import(&mut self, slot: usize, piece: &Piece) -> bool {
        let (scratch, sequence) = (self.scratch(), self.tracks[slot].sequence);
        let (held, wanted) = (piece.held.clone(), piece.wanted.clone());
        if wanted.start != self.tracks[slot].timeline.len() {
            return false; // The answer went another way meanwhile.
        }
        let state = piece.state.as_bytes();
        loop {
            let wanted = wanted.clone();
            match splice::import(self.backend, scratch, sequence, state, &held, wanted) {
                Ok(()) => break,
                Err(_) if self.evict(&[slot]) => {}
                Err(_) => return false,
            }
        }
        if self.backend.end(sequence) != wanted.end {
            self.clear(slot);
            return false;
        }
        self.core.counters.restored_tokens += wanted.len() as u64;
        let vocabulary = self.core.model.model().vocabulary();
        let track = &mut self.tracks[slot];
        let restoring = track.restoring.as_ref().expect("its pieces arrive");
        let tokens = restoring.tokens[wanted].to_vec();
        let was_stale = track.is_stale;
        track.push(&tokens, |token| vocabulary.is_eog(token));
        track.is_stale = was_stale;
        true
    }

    /// Whether the slot, which does not answer, holds what no record covers.
    pub fn needs_record(&self, slot: usize) -> bool {
        let track = &self.tracks[slot];
        track.is_stale && track.owner.is_some()
    }

    /// Exports one block of what the slot shares with `timeline`, or writes its record, if the slot `is_idle`. Returns
    /// whether there was one.
    pub fn save_next(
        &mut self,
        slot: usize,
        timeline: &[Token],
        is_idle: bool,
        now: Timestamp,
    ) -> bool {
        let track = &self.tracks[slot];
        let Some(owner) = track.owner.clone().filter(|_| track.is_stale) else { return false };
        if self.core.tiers.is_full() {
            return false;
        }
        if is_idle {
            self.cut_back(slot, common_prefix(self.tracks[slot].timeline.tokens(), timeline));
        }
        let track = &mut self.tracks[slot];
        let blocks = if is_idle { track.timeline.blocks() } else { track.timeline.whole_blocks() };
        let first = blocks.partition_point(|block| block.range.end <= track.exported);
        // While it answers, guesses may stand behind the timeline.
        let known = |block: &&Block| block.range.end <= timeline.len();
        let unsaved = blocks[first..].iter().take_while(known);
        for block in unsaved.cloned().collect::<Vec<_>>() {
            if !self.core.tiers.has(&block.id, owner.in_memory) {
                return self.export(slot, &owner, &block, now);
            }
            self.tracks[slot].exported = block.range.end;
        }
        if is_idle {
            self.record(slot, &owner, now);
        }
        is_idle
    }

    /// Exports and records everything but guesses, before the cells are dropped.
    pub fn save(&mut self, slot: usize) {
        let track = &self.tracks[slot];
        let end = track.guessed_from.min(track.timeline.len());
        let timeline = track.timeline.tokens()[..end].to_vec();
        let now = (self.core.options.clock)();
        while self.save_next(slot, &timeline, true, now) {}
    }

    fn export(&mut self, slot: usize, owner: &Owner, block: &Block, now: Timestamp) -> bool {
        let (scratch, sequence) = (self.scratch(), self.tracks[slot].sequence);
        let (range, buffer) = (block.range.clone(), self.core.tiers.spare_buffer());
        let state = match splice::export(self.backend, scratch, sequence, range.clone(), buffer) {
            Ok(state) => state,
            Err(error) => {
                warn!(%error, "a block of the draft model is not exported");
                self.tracks[slot].is_stale = false;
                return false;
            }
        };
        let object = Object {
            kind: ObjectKind::Block,
            model: self.core.model.fingerprint(),
            parent: block.named_after(),
            start: narrow(range.start),
            tokens: self.tracks[slot].timeline.tokens()[range.clone()].to_vec(),
            payload: Payload::from(state),
        };
        let usage = Use { now, ..Use::default() };
        let (id, after) = (block.id, block.before());
        let exported = Exported { conversation: &owner.conversation, id, after, object, usage };
        self.core.tiers.put(exported, owner.in_memory);
        self.tracks[slot].exported = range.end;
        true
    }

    fn record(&mut self, slot: usize, owner: &Owner, now: Timestamp) {
        let track = &mut self.tracks[slot];
        track.is_stale = false;
        if track.timeline.is_empty() {
            return;
        }
        let record = record(&self.core.tiers, owner, &track.timeline, now);
        let options = RecordOptions { in_memory: owner.in_memory, is_default_class: false };
        // Refused: the tiers have lost blocks meanwhile. They are computed again when they are missed.
        if let Err(lost) = self.core.tiers.record(record, &track.timeline, options) {
            warn!(blocks = lost.len(), "KV of the draft model is not recorded");
        }
    }

    /// Later records of the conversation have this class.
    pub fn set_class(&mut self, conversation: &ConversationId, class: TtlClass) {
        let owners = self.tracks.iter_mut().filter_map(|track| track.owner.as_mut());
        for owner in owners.filter(|owner| owner.conversation == *conversation) {
            owner.class = class;
        }
    }

    /// The conversation was deleted: drops its cells. The caller drops what is saved.
    pub fn forget(&mut self, conversation: &ConversationId) {
        for slot in 0..self.tracks.len() {
            let owner = self.tracks[slot].owner.as_ref();
            if owner.is_some_and(|owner| owner.conversation == *conversation) {
                self.vacate(slot);
                self.tracks[slot].set_owner(None);
            }
        }
    }
}

fn record(tiers: &KvTiers, owner: &Owner, timeline: &Timeline, now: Timestamp) -> SlotRecord {
    let known = tiers.summary(&owner.conversation);
    let blocks = timeline.blocks().iter().map(|block| BlockRef {
        end: narrow(block.range.end),
        id: block.id,
        bytes: tiers.file_bytes(&block.id),
    });
    SlotRecord {
        created_at: known.as_ref().map_or(now, |known| known.created_at),
        turns: known.map_or(0, |known| known.turns).saturating_add(1),
        tokens: timeline.tokens().to_vec(),
        blocks: blocks.collect(),
        // The tiers know its branches.
        ..SlotRecord::empty(owner.conversation.clone(), owner.class, now)
    }
}
