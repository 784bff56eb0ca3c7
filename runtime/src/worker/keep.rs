//! Export behind the answer.
//!
//! - A piece of housekeeping is one block or one snapshot: it never holds up a micro-batch longer.
//! - A slow disk holds up nobody: exports wait in their cells, and where cells are needed what the
//!   disk does not take in time is computed again.
//! - A record is written after the objects that it names were handed over.

use std::time::Instant;

use hob_slots::format::{BlockRef, Object, ObjectKind, SegmentRef, SlotRecord, SnapshotRef};
use hob_slots::{Block, BlockId, Layer, Payload};
use tracing::warn;

use super::Worker;
use crate::splice;

/// Whole states kept of one conversation: the last two turns, each before and after its answer.
const SNAPSHOTS_KEPT: usize = 4;

impl Worker<'_> {
    /// One bounded piece of work that nobody waits for. None while too much waits for the disk: KV
    /// that is not kept yet stays in its cells.
    pub(super) fn housekeep(&mut self) {
        for index in 0..self.slots.len() {
            if self.slots[index].is_kept() && !self.tiers.is_full() && self.keep_one(index) {
                return;
            }
        }
    }

    /// Exports the next thing of a slot that is not kept yet, or writes its record. Returns whether
    /// there was anything to do.
    fn keep_one(&mut self, index: usize) -> bool {
        let began = Instant::now();
        let kept = self.keep_next(index);
        if kept {
            let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.counters.keeping_micros += micros;
        }
        kept
    }

    fn keep_next(&mut self, index: usize) -> bool {
        if self.is_plain()
            && let Some(block) = self.next_block(index)
        {
            if self.tiers.is_full() {
                // The cells are needed now, and memory has its bounds: this is computed again.
                warn!(
                    from = block.range.start,
                    "the disk is too slow to keep a conversation whole"
                );
                self.slots[index].unkept = Some(block.range.start);
            } else {
                self.export_block(index, &block);
            }
            return true;
        }
        if !self.slots[index].wants_keeping() {
            return false;
        }
        if !self.is_plain() {
            self.take_snapshot(index);
        }
        self.write_record(index);
        true
    }

    /// Everything of the slot that is worth keeping, at once: before its cells are given up, or
    /// before a memory that cannot go back goes on.
    pub(super) fn save(&mut self, index: usize) {
        if !self.slots[index].is_kept() {
            return;
        }
        self.compute_tail(index);
        while self.keep_one(index) {}
    }

    /// The same, when the engine stops: nobody minds if the disk takes its time.
    pub(super) fn save_patiently(&mut self, index: usize) {
        if !self.slots[index].is_kept() {
            return;
        }
        self.compute_tail(index);
        while self.keep_one(index) {
            if self.tiers.is_full() {
                self.tiers.flush();
            }
        }
    }

    /// The first block that is held nowhere else. A block that still grows is exported only when
    /// the timeline stands still.
    fn next_block(&mut self, index: usize) -> Option<Block> {
        let slot = &mut self.slots[index];
        if slot.speculates {
            return None;
        }
        let still = slot.turn.is_none() && slot.tail.is_empty();
        let blocks = if still { slot.timeline.blocks() } else { slot.timeline.whole_blocks() };
        let first = blocks.partition_point(|block| block.range.end <= slot.exported);
        let can_be_kept = |block: &&Block| slot.unkept.is_none_or(|start| block.range.end <= start);
        for block in blocks[first..].iter().take_while(can_be_kept) {
            if !self.tiers.holds(&block.id) {
                return Some(block.clone());
            }
            slot.exported = block.range.end;
        }
        None
    }

    fn export_block(&mut self, index: usize, block: &Block) {
        let (scratch, sequence) = (self.scratch(), self.slots[index].sequence);
        let (range, buffer) = (block.range.clone(), self.tiers.spare_buffer());
        let state = splice::export(self.backend, scratch, sequence, range, buffer);
        match state {
            Ok(state) => {
                let tokens = &self.slots[index].timeline.tokens()[block.range.clone()];
                let object = Object {
                    kind: ObjectKind::Block,
                    model: self.fingerprint,
                    parent: block.parent,
                    start: narrow(block.range.start),
                    tokens: tokens.to_vec(),
                    payload: Payload::from(state),
                };
                self.tiers.keep(block.id, object, self.used(index));
                self.slots[index].exported = block.range.end;
            }
            Err(error) => {
                warn!(%error, "block not exported");
                self.slots[index].unkept = Some(block.range.start);
            }
        }
    }

    /// Before the last token of a prompt: "regenerate" comes back to here.
    pub(super) fn snapshot_before_last(&mut self, index: usize) {
        let slot = &self.slots[index];
        let prompt = slot.turn.as_ref().map_or(0, |turn| turn.request.prompt.len());
        let is_kept = slot.is_kept() && !slot.speculates;
        if !self.is_plain() && is_kept && slot.timeline.len() + 1 == prompt {
            self.take_snapshot(index);
        }
    }

    fn take_snapshot(&mut self, index: usize) {
        let used = self.used(index);
        let slot = &mut self.slots[index];
        let position = slot.timeline.len();
        let at = slot.timeline.id_at(position);
        let id = BlockId::snapshot(at);
        slot.snapshots.retain(|snapshot| snapshot.position as usize != position);
        if !self.tiers.holds(&id) {
            if self.tiers.is_full() {
                return warn!(position, "the disk is too slow to keep a snapshot");
            }
            let state = match self.backend.export(slot.sequence, Vec::new()) {
                Ok(state) => state,
                Err(error) => return warn!(%error, "snapshot not taken"),
            };
            let object = Object {
                kind: ObjectKind::Snapshot,
                model: self.fingerprint,
                parent: at,
                start: narrow(position),
                tokens: Vec::new(),
                payload: Payload::from(state),
            };
            self.tiers.keep(id, object, used);
        }
        let bytes = self.tiers.file_bytes(&id);
        slot.snapshots.push(SnapshotRef { position: narrow(position), id, bytes });
        let surplus = slot.snapshots.len().saturating_sub(SNAPSHOTS_KEPT);
        slot.snapshots.drain(..surplus);
    }

    fn write_record(&mut self, index: usize) {
        let now = self.now();
        let plain = self.is_plain();
        let slot = &mut self.slots[index];
        slot.recorded = true;
        let Some(conversation) = slot.owner.clone() else { return };
        let known = self.tiers.summary(&conversation);
        let len = slot.unkept.unwrap_or(slot.timeline.len());
        if len == 0 {
            return;
        }
        let blocks = slot.timeline.blocks().iter().filter(|block| plain && block.range.end <= len);
        let blocks = blocks.map(|block| BlockRef {
            end: narrow(block.range.end),
            id: block.id,
            bytes: self.tiers.file_bytes(&block.id),
        });
        let known_class = known.as_ref().map(|known| known.class);
        let record = SlotRecord {
            conversation,
            class: slot.keep.class.or(known_class).unwrap_or_default(),
            created_at: known.as_ref().map_or(now, |known| known.created_at),
            used_at: now,
            turns: known.as_ref().map_or(0, |known| known.turns).saturating_add(slot.turns),
            tokens: slot.timeline.tokens()[..len].to_vec(),
            blocks: blocks.collect(),
            snapshots: slot.snapshots.clone(),
            segments: segments(&slot.keep.segments, narrow(len)),
        };
        let Err(missing) = self.tiers.record(record) else {
            slot.turns = 0; // They are counted.
            return;
        };
        let first = slot.timeline.blocks().iter().find(|block| missing.contains(&block.id));
        let first = first.map(|block| block.range.start);
        slot.snapshots.retain(|snapshot| !missing.contains(&snapshot.id));
        if std::mem::replace(&mut slot.kept_again, true) {
            // A disk that takes nothing, and too little memory: keep what comes before.
            slot.unkept = first;
            slot.recorded = !plain;
        } else {
            // They went with another conversation that was forgotten: export them once more.
            slot.exported = first.unwrap_or(slot.exported);
            slot.recorded = false;
        }
    }
}

/// The segments of the first `len` tokens: those of the prompt, and the answer.
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
        segments.push(SegmentRef { end: len, layer: Layer::Assistant, key: "answer".to_owned() });
    }
    segments
}

/// Positions and lengths fit 32 bits: llama.cpp's are `i32`.
fn narrow(value: usize) -> u32 {
    u32::try_from(value).expect("positions fit 32 bits")
}
