//! Snapshots of memories that are not plain: of the rest beside blocks, or, without blocks, of the
//! whole state.
//!
//! - The snapshot of a turn's end is put into the tiers when the slot is saved.
//! - The snapshot from which "regenerate" continues is held in memory, and put only when the conversation leaves its
//!   slot, or words that are typed ahead change. Nothing is exported for it before the first token is sent: a window
//!   still has what is needed behind that token, a running state is marked before.

use std::time::Instant;

use hob_slots::format::{Object, ObjectKind, SnapshotRef};
use hob_slots::{BlockId, Payload};
use tracing::warn;

use super::Worker;
use super::save_state::Held;
use crate::backend::StateError;
use crate::position::narrow;
use crate::splice;
use crate::tiers::Exported;

impl Worker<'_> {
    /// The first token of the slot's answer is sent: holds the rest from which "regenerate" continues.
    /// A window still has it before the last token, a running state where it was marked.
    pub(super) fn hold_rest(&mut self, index: usize) {
        let memory = self.core.model.facts().memory;
        let slot = &self.slots[index];
        // A turn that was preempted continues behind its prompt.
        if memory.is_plain() || slot.turn.as_ref().is_none_or(|turn| turn.generated > 1) {
            return;
        }
        let (sequence, last) = (slot.sequence, slot.timeline.len().saturating_sub(1));
        if memory.can_drop_newest() {
            let scratch = self.scratch();
            self.hold(index, last, |it| splice::export_rest(it.backend, scratch, sequence, last));
        } else if let Some((_, position)) = self.marked.filter(|(slot, _)| *slot == index) {
            let mark = self.mark();
            self.hold(index, position, |it| it.backend.export_rest(mark));
        }
    }

    fn hold(
        &mut self,
        index: usize,
        position: usize,
        export: impl FnOnce(&mut Self) -> Result<Vec<u8>, StateError>,
    ) {
        let slot = &self.slots[index];
        let is_held = slot.save.held.as_ref().is_some_and(|held| held.position == position);
        if position == 0 || is_held || !slot.is_savable() || slot.save.is_speculative() {
            return;
        }
        let began = Instant::now();
        match export(self) {
            Ok(rest) => self.slots[index].save.held = Some(Held { position, rest: rest.into() }),
            Err(error) => warn!(%error, position, "\"regenerate\" will compute more"),
        }
        self.count_keeping(began);
    }

    /// Continues from what is held within the first `len` tokens. Returns whether it could.
    pub(super) fn rewind_to_held(&mut self, index: usize, len: usize) -> bool {
        let held = self.slots[index].save.held.as_ref().filter(|held| held.position <= len);
        let Some((rest, position)) = held.map(|held| (held.rest.clone(), held.position)) else {
            return false;
        };
        self.rewind(index, &rest, position).is_ok()
    }

    /// Puts what is held into the tiers, where the conversation finds it after it has left the slot.
    pub(super) fn put_held(&mut self, index: usize) {
        let Some(Held { position, rest }) = self.slots[index].save.held.clone() else { return };
        let save = &self.slots[index].save;
        let is_speculative = save.is_speculative();
        let is_put = save.snapshots.iter().any(|snapshot| snapshot.position as usize == position);
        if is_speculative && is_put {
            return; // The words change with each key; the record names it.
        }
        if !self.slots[index].is_savable() || !self.put_snapshot(index, position, |_| Some(rest)) {
            return;
        }
        if is_speculative {
            // The record has more tokens, and keeps them: those that are stored.
            self.write_record(index, position);
        } else {
            self.slots[index].save.snapshot_added();
        }
    }

    pub(super) fn take_snapshot(&mut self, index: usize) {
        let sequence = self.slots[index].sequence;
        let position = self.slots[index].timeline.len();
        self.put_snapshot(index, position, |worker| match worker.backend.export_rest(sequence) {
            Ok(rest) => Some(rest.into()),
            Err(error) => {
                warn!(%error, "snapshot not taken");
                None
            }
        });
    }

    /// Puts a snapshot into the tiers, unless they have it. `state`: that of the slot's timeline up to
    /// `position`. Returns whether the next record may name it.
    fn put_snapshot(
        &mut self,
        index: usize,
        position: usize,
        state: impl FnOnce(&mut Self) -> Option<Payload>,
    ) -> bool {
        let usage = self.usage(index);
        let has_blocks = self.backend.has_ranges();
        let slot = &mut self.slots[index];
        // A rest beside too few cells would be restored for nothing.
        if has_blocks && slot.save.export_end.is_some_and(|end| end < position) {
            return false;
        }
        let at = slot.timeline.id_at(position);
        let (kind, id) = if has_blocks {
            (ObjectKind::Partial, BlockId::partial(at))
        } else {
            (ObjectKind::Snapshot, BlockId::snapshot(at))
        };
        slot.save.snapshots.retain(|snapshot| snapshot.position as usize != position);
        if !self.core.tiers.has(&id, slot.save.in_memory) {
            if self.core.tiers.is_full() {
                let before = slot.save.snapshots.last().map_or(0, |last| last.position as usize);
                self.core.counters.dropped_tokens += position.saturating_sub(before) as u64;
                warn!(position, "the disk is too slow: a snapshot is not saved");
                return false;
            }
            let Some(payload) = state(self) else { return false };
            let object = Object {
                kind,
                model: self.core.fingerprint,
                parent: at,
                start: narrow(position),
                tokens: Vec::new(),
                payload,
            };
            let slot = &self.slots[index];
            if let Some(conversation) = slot.conversation() {
                // A snapshot covers all tokens before it, whatever blocks they are in.
                let after = None;
                let exported = Exported { conversation, id, after, object, usage };
                self.core.tiers.put(exported, slot.save.in_memory);
            }
        }
        let bytes = self.core.tiers.file_bytes(&id);
        let snapshot = SnapshotRef { position: narrow(position), id, bytes };
        self.slots[index].save.add_snapshot(snapshot);
        true
    }
}
