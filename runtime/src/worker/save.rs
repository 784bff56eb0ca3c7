//! Exports KV to the tiers behind the answer.
//!
//! - One piece of housekeeping is one block or one snapshot. Behind a micro-batch there are as many pieces as it had
//!   blocks of rows, and one more, which bounds how long the next one waits. Blocks are exported while prompts are
//!   computed.
//! - A slow disk blocks no answer: KV waits in its cells. When those cells are needed first, the
//!   engine waits for the writer, unless an answer is being generated. What would take longer than
//!   [`MAX_WAIT`] is dropped, counted, and computed again later.
//! - A turn writes its blocks and, where memory is not plain, one snapshot at its end, see `rest`.
//! - A record is written after the objects that it names were handed to the tiers.

use std::time::{Duration, Instant};

use hob_slots::format::{BlockRef, Object, ObjectKind, SegmentRef, SlotRecord};
use hob_slots::{Block, Layer, Payload};
use tracing::warn;

use super::Worker;
use super::running::Running;
use super::slot::Slot;
use crate::heartbeat::Activity;
use crate::position::narrow;
use crate::splice;
use crate::tiers::{Exported, RecordOptions};

/// How long a slot that gives up its cells waits for the writer.
const MAX_WAIT: Duration = Duration::from_secs(5);

impl Worker<'_> {
    /// Exports one object or writes one record, of idle slots first: they may be parked next. Does
    /// nothing while too much waits for the disk. A snapshot may take many milliseconds: without
    /// `snapshots` none is taken, and no record of a memory that needs one is written.
    /// `computes`: turns are computed. KV leaves a device while it computes nothing, so those turns are saved
    /// when they have ended.
    pub(super) fn housekeep(&mut self, snapshots: bool, computes: bool) {
        let idle_alone = self.kv_on_devices && computes;
        for idle in [true, false].into_iter().filter(|idle| *idle || !idle_alone) {
            for index in 0..self.slots.len() {
                let slot = &self.slots[index];
                if slot.turn.is_none() == idle
                    && slot.is_savable()
                    && !slot.is_delivering()
                    && !self.core.tiers.is_full()
                    && self.save_next(index, snapshots)
                {
                    return;
                }
            }
        }
        self.save_of_drafter();
    }

    /// Exports the slot's next object, or writes its record. Returns whether there was one.
    fn save_next(&mut self, index: usize, snapshots: bool) -> bool {
        let began = Instant::now();
        let saved = self.export_or_record(index, snapshots);
        self.core.pulse.beat(); // A slot is saved in many pieces.
        if saved {
            self.count_keeping(began);
        }
        saved
    }

    pub(super) fn count_keeping(&mut self, began: Instant) {
        let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.core.counters.keeping_micros += micros;
    }

    fn export_or_record(&mut self, index: usize, snapshots: bool) -> bool {
        if self.backend.has_ranges()
            && let Some(block) = self.next_block(index)
        {
            if self.core.tiers.is_full() {
                // The cells are needed now and the memory budget is spent: drop the KV.
                let (from, len) = (block.range.start, self.slots[index].timeline.len());
                warn!(from, "the disk is too slow: tokens are not saved");
                self.core.counters.dropped_tokens += (len - from) as u64;
                self.slots[index].save.export_end = Some(from);
            } else {
                self.export_block(index, &block);
            }
            return true;
        }
        if !self.slots[index].needs_record() || !(snapshots || self.is_plain()) {
            return false;
        }
        if !self.is_plain() {
            self.take_snapshot(index);
        }
        let save = &self.slots[index].save;
        let end = save.export_end.unwrap_or(self.slots[index].timeline.len());
        self.write_record(index, end);
        true
    }

    /// Replies to callers whose conversation housekeeping has saved, or that runs; also while too much
    /// waits for the disk, which may take no more. The engine does not wait for it.
    pub(super) fn reply_to_saving(&mut self) {
        for (conversation, done) in std::mem::take(&mut self.saving) {
            let slot = self.registry.slot_of(&conversation);
            let waits = slot.is_some_and(|slot| self.slots[slot.0 as usize].will_need_record());
            if waits && !self.core.tiers.is_full() {
                self.saving.push((conversation, done));
            } else {
                self.core.when_flushed(move || done.send(()));
            }
        }
    }

    /// Saves the whole slot now: before its cells are given up, or before a memory that cannot go
    /// back continues.
    pub(super) fn save(&mut self, index: usize) {
        if !self.slots[index].is_savable() {
            return;
        }
        self.compute_tail(index);
        let until = Instant::now() + MAX_WAIT;
        loop {
            self.await_room(until);
            if !self.save_next(index, true) {
                return self.save_drafted(index);
            }
        }
    }

    /// Waits for the writer, unless an answer is being generated: one that waits for the writer itself is not.
    fn await_room(&self, until: Instant) {
        let is_generated = |slot: &Slot| slot.is_decoding() && !slot.is_stalled();
        if self.core.tiers.is_full() && !self.slots.iter().any(is_generated) {
            self.core.pulse.begin(Activity::Flushing);
            self.core.tiers.await_room(until);
            self.core.pulse.begin(Activity::Computing);
        }
    }

    fn flush_if_full(&mut self) {
        if self.core.tiers.is_full() {
            self.core.pulse.begin(Activity::Flushing);
            self.core.tiers.flush();
            self.core.pulse.begin(Activity::Computing);
        }
    }

    /// As [`Self::save`], waiting for the disk: the engine stops, or the weights are about to be
    /// dropped.
    fn save_and_flush(&mut self, index: usize) {
        if !self.slots[index].is_savable() {
            return;
        }
        self.compute_tail(index);
        while self.save_next(index, true) {
            self.flush_if_full();
        }
        self.save_drafted_and_flush(index);
    }

    /// The first block that no tier holds. A block that is not full is exported only when the slot
    /// is idle.
    fn next_block(&mut self, index: usize) -> Option<Block> {
        let slot = &mut self.slots[index];
        if slot.save.is_speculative() {
            return None;
        }
        let is_idle = slot.turn.is_none() && slot.tail.is_empty();
        let blocks = if is_idle { slot.timeline.blocks() } else { slot.timeline.whole_blocks() };
        let first = blocks.partition_point(|block| block.range.end <= slot.save.exported);
        let headless = slot.turn.as_ref().and_then(Running::headless_from);
        let unnamed = headless.unwrap_or(usize::MAX); // Its blocks get other names.
        let end = slot.save.export_end.unwrap_or(usize::MAX).min(unnamed);
        for block in blocks[first..].iter().take_while(|block| block.range.end <= end) {
            // The tiers have a block that is away since before its cells left: in memory alone, if it could not go
            // to the disk then.
            let tiers = &self.core.tiers;
            let is_at_hand =
                || slot.cells.has(&block.range) || tiers.in_memory(&block.id).is_some();
            if !tiers.has(&block.id, slot.save.in_memory) && is_at_hand() {
                return Some(block.clone());
            }
            slot.save.exported = block.range.end;
        }
        None
    }

    /// Returns whether the tiers have the block now.
    pub(super) fn export_block(&mut self, index: usize, block: &Block) -> bool {
        let Some(object) = self.object_of(index, block) else { return false };
        let usage = self.usage(index);
        let slot = &mut self.slots[index];
        if let Some(conversation) = slot.conversation() {
            let (id, after) = (block.id, block.before());
            let exported = Exported { conversation, id, after, object, usage };
            self.core.tiers.put(exported, slot.save.in_memory);
        }
        // A block that leaves its cells out of turn says nothing of the blocks before it.
        if block.range.start <= slot.save.exported {
            slot.save.exported = slot.save.exported.max(block.range.end);
        }
        true
    }

    /// The block's bytes: those of its cells, or of memory where it is away. `None` where there are none, see
    /// [`Self::bytes_of_cells`].
    pub(super) fn object_of(&mut self, index: usize, block: &Block) -> Option<Object> {
        let payload = if self.slots[index].cells.has(&block.range) {
            self.bytes_of_cells(index, block)?
        } else {
            self.core.tiers.in_memory(&block.id)?
        };
        Some(Object {
            kind: ObjectKind::Block,
            model: self.core.fingerprint,
            parent: block.named_after(),
            start: narrow(block.range.start),
            tokens: self.slots[index].timeline.tokens()[block.range.clone()].to_vec(),
            payload,
        })
    }

    /// `None` where llama.cpp does not write them: no later block is exported then.
    fn bytes_of_cells(&mut self, index: usize, block: &Block) -> Option<Payload> {
        let (scratch, sequence) = (self.scratch(), self.slots[index].sequence);
        let (range, buffer) = (block.range.clone(), self.core.tiers.spare_buffer());
        match splice::export(self.backend, scratch, sequence, range, buffer) {
            Ok(state) => Some(Payload::from(state)),
            Err(error) => {
                warn!(%error, "block not exported");
                self.slots[index].save.export_end = Some(block.range.start);
                None
            }
        }
    }

    /// Puts what is held into the tiers, and saves the slot: its conversation leaves it.
    pub(super) fn save_all(&mut self, index: usize) {
        if self.slots[index].save.held.is_some() {
            self.await_room(Instant::now() + MAX_WAIT);
            self.put_held(index);
        }
        self.save(index);
    }

    /// [`Self::save_all`], waiting for the disk as long as it takes.
    pub(super) fn save_all_and_flush(&mut self, index: usize) {
        if self.slots[index].save.held.is_some() {
            self.flush_if_full();
            self.put_held(index);
        }
        self.save_and_flush(index);
    }

    /// Records the first `end` tokens of the slot, as far as they are in cells.
    pub(super) fn write_record(&mut self, index: usize, end: usize) {
        let now = self.now();
        let has_blocks = self.backend.has_ranges();
        let slot = &mut self.slots[index];
        let Some(conversation) = slot.conversation().cloned() else { return };
        let known = self.core.tiers.summary(&conversation);
        let len = slot.resident_end(end);
        if len == 0 {
            return slot.save.record_written(); // Nothing could be exported: there is nothing to record.
        }
        let blocks =
            slot.timeline.blocks().iter().filter(|block| has_blocks && block.range.end <= len);
        let blocks = blocks.map(|block| BlockRef {
            end: narrow(block.range.end),
            id: block.id,
            bytes: self.core.tiers.file_bytes(&block.id),
        });
        // The class of a record that is not on disk yet may be a default where the slot file has another class.
        let asked = known.as_ref().filter(|it| it.unread.is_none_or(|it| !it.is_default_class));
        let known_class = asked.map(|known| known.class);
        let class = slot.save.keep.class.or(known_class);
        let record = SlotRecord {
            conversation,
            adapters: slot.adapters.set().clone(),
            class: class.unwrap_or(slot.save.keep.default_class),
            created_at: known.as_ref().map_or(now, |known| known.created_at),
            used_at: now,
            turns: known.as_ref().map_or(0, |known| known.turns).saturating_add(slot.save.turns),
            tokens: slot.timeline.tokens()[..len].to_vec(),
            blocks: blocks.collect(),
            snapshots: slot.save.snapshots_within(len),
            segments: segments(&slot.save.keep.segments, narrow(len)),
            branches: Vec::new(), // The tiers know them.
            lineage: slot.lineage(len),
        };
        let options =
            RecordOptions { in_memory: slot.save.in_memory, is_default_class: class.is_none() };
        let Err(missing) = self.core.tiers.record(record, &slot.timeline, options) else {
            slot.save.turns = 0; // The record counts them.
            return slot.save.record_written();
        };
        let first = slot.timeline.blocks().iter().find(|block| missing.contains(&block.id));
        let lost = first.map(|block| block.range.start);
        slot.save.snapshots.retain(|snapshot| !missing.contains(&snapshot.id));
        slot.save.record_refused(lost);
    }
}

/// The prompt's segments within the first `len` tokens, and one for the answer.
fn segments(of_prompt: &[SegmentRef], len: u32) -> Vec<SegmentRef> {
    let mut segments: Vec<SegmentRef> = Vec::new();
    for segment in of_prompt {
        let start = segments.last().map_or(0, |last| last.end);
        let end = segment.end.min(len);
        if start < end {
            segments.push(SegmentRef { end, ..segment.clone() });
        }
    }
    if segments.last().is_some_and(|last| last.end < len) {
        segments.push(SegmentRef::new(len, Layer::Assistant, "answer"));
    }
    segments
}
