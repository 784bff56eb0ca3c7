//! Export behind the answer, park, make room. Everything that changes what a slot holds goes
//! through here or through `step`, so timeline, radix tree and registry never disagree.
//!
//! - A piece of housekeeping is one block or one snapshot: it never holds up a micro-batch longer.
//! - Cells are given up only after what is worth keeping was exported.

use hob_slots::format::{BlockRef, Object, ObjectKind, SlotRecord, SnapshotRef};
use hob_slots::{Block, BlockId, ConversationId, Payload, Token, TtlClass};
use tracing::{debug, warn};

use super::Worker;
use super::admit::Waiting;
use super::slot::Phase;
use crate::splice;
use crate::turn::{FinishReason, TurnError, TurnEvent};

/// Whole states kept of one conversation: the last two turns, each before and after its answer.
const SNAPSHOTS_KEPT: usize = 4;

impl Worker<'_> {
    /// One bounded piece of work that nobody waits for.
    pub(super) fn keep_house(&mut self) {
        for index in 0..self.slots.len() {
            if self.slots[index].is_kept() && self.keep_one(index) {
                return;
            }
        }
    }

    /// Exports the next thing of a slot that is not kept yet, or writes its record. Returns whether
    /// there was anything to do.
    fn keep_one(&mut self, index: usize) -> bool {
        if self.is_plain()
            && let Some(block) = self.next_block(index)
        {
            self.export_block(index, &block);
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

    /// The first block that is held nowhere else. A block that still grows is exported only when
    /// the timeline stands still.
    fn next_block(&mut self, index: usize) -> Option<Block> {
        let slot = &mut self.slots[index];
        let still = slot.turn.is_none() && slot.tail.is_empty();
        let blocks = if still { slot.timeline.blocks() } else { slot.timeline.whole_blocks() };
        let first = blocks.partition_point(|block| block.range.end <= slot.exported);
        let can_be_kept = |block: &&Block| slot.unkept.is_none_or(|start| block.range.end <= start);
        for block in blocks[first..].iter().take_while(can_be_kept) {
            if !self.shelf.holds(&block.id) {
                return Some(block.clone());
            }
            slot.exported = block.range.end;
        }
        None
    }

    fn export_block(&mut self, index: usize, block: &Block) {
        let (scratch, sequence) = (self.scratch(), self.slots[index].sequence);
        let state = splice::export(self.backend, scratch, sequence, block.range.clone());
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
                self.shelf.keep(block.id, object);
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
        if !self.is_plain() && slot.is_kept() && slot.timeline.len() + 1 == prompt {
            self.take_snapshot(index);
        }
    }

    fn take_snapshot(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let position = slot.timeline.len();
        let at = slot.timeline.id_at(position);
        let id = BlockId::snapshot(at);
        slot.snapshots.retain(|snapshot| snapshot.position as usize != position);
        if !self.shelf.holds(&id) {
            let state = match self.backend.export(slot.sequence) {
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
            self.shelf.keep(id, object);
        }
        let bytes = self.shelf.file_bytes(&id);
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
        let known = self.shelf.known_record(&conversation);
        let len = slot.unkept.unwrap_or(slot.timeline.len());
        if len == 0 {
            return;
        }
        let blocks = slot.timeline.blocks().iter().filter(|block| plain && block.range.end <= len);
        let blocks = blocks.map(|block| BlockRef {
            end: narrow(block.range.end),
            id: block.id,
            bytes: self.shelf.file_bytes(&block.id),
        });
        let record = SlotRecord {
            conversation,
            class: known.as_ref().map_or(TtlClass::Long, |record| record.class),
            created_at: known.as_ref().map_or(now, |record| record.created_at),
            used_at: now,
            tokens: slot.timeline.tokens()[..len].to_vec(),
            blocks: blocks.collect(),
            snapshots: slot.snapshots.clone(),
        };
        if let Err(missing) = self.shelf.record(record) {
            // They went with another conversation that was forgotten: export them again.
            let first = slot.timeline.blocks().iter().find(|block| missing.contains(&block.id));
            slot.exported = first.map_or(slot.exported, |block| block.range.start);
            slot.snapshots.retain(|snapshot| !missing.contains(&snapshot.id));
            slot.recorded = false;
        }
    }

    /// Takes an idle conversation out of its slot; its next turn brings it back.
    pub(super) fn park(&mut self, conversation: &ConversationId) {
        let Some(slot) = self.registry.slot_of(conversation) else { return };
        if self.registry.is_running(conversation) {
            return;
        }
        let index = slot.0 as usize;
        debug!(%conversation, tokens = self.slots[index].timeline.len(), "parked");
        self.save(index);
        self.registry.unpin(conversation);
        self.vacate(index);
    }

    /// Drops a conversation's KV everywhere, its turns included, running or waiting.
    pub(super) fn forget(&mut self, conversation: &ConversationId) {
        let failed = || TurnEvent::Failed(TurnError::Forgotten);
        let its_own = |waiting: &Waiting| waiting.conversation() == Some(conversation);
        for waiting in self.queue.iter().filter(|waiting| its_own(waiting)) {
            waiting.events().send(failed()).ok(); // An error: the caller went away.
        }
        self.leave_queue(its_own);
        let mut unrecorded = Vec::new();
        if let Some(slot) = self.registry.slot_of(conversation) {
            let index = slot.0 as usize;
            if let Some(turn) = &self.slots[index].turn {
                turn.events.send(failed()).ok(); // An error: the caller went away.
                self.end_turn(index);
            }
            let slot = &self.slots[index];
            unrecorded.extend(slot.timeline.blocks().iter().map(|block| block.id));
            unrecorded.extend(slot.snapshots.iter().map(|snapshot| snapshot.id));
            self.registry.unpin(conversation);
            self.vacate(index);
        }
        self.shelf.forget(conversation, unrecorded);
    }

    /// The slot's turn is over, however it ended.
    pub(super) fn end_turn(&mut self, index: usize) {
        let now = self.now();
        let slot = &mut self.slots[index];
        let restores = slot.restores();
        let Some(turn) = slot.turn.take() else { return };
        // What is kept is as good as before when the turn did not get past it.
        slot.cut_short = restores;
        slot.recorded &= restores;
        slot.unkept = None;
        self.freed = true;
        self.ended += 1;
        self.registry.end(&turn.conversation, now);
        let slot = &mut self.slots[index];
        if slot.anonymous {
            slot.tail.clear();
            slot.owner = None; // Its cells stay until someone needs the slot.
            self.registry.unpin(&turn.conversation);
        }
    }

    /// The cache is full: idle cells go first, then the youngest of several turns waits.
    pub(super) fn relieve(&mut self) {
        if self.make_room(usize::MAX) {
            return;
        }
        match self.running().as_slice() {
            [] => {}
            [alone] => self.end_for_lack_of_room(*alone),
            [.., youngest] => self.preempt(*youngest),
        }
    }

    /// Slots with a turn, in the order in which the turns came.
    pub(super) fn running(&self) -> Vec<usize> {
        let number = |&index: &usize| self.slots[index].turn.as_ref().map(|turn| turn.number);
        let all = 0..self.slots.len();
        let mut running: Vec<usize> = all.filter(|index| number(index).is_some()).collect();
        running.sort_by_key(number);
        running
    }

    /// Gives up the cells of one slot that nobody works in, other than `spared`: free ones first,
    /// then the longest idle. Returns whether there was one.
    pub(super) fn make_room(&mut self, spared: usize) -> bool {
        let holds = |index: &usize| {
            let slot = &self.slots[*index];
            *index != spared && slot.turn.is_none() && !slot.timeline.is_empty()
        };
        let candidates = (0..self.slots.len()).filter(holds);
        if let Some(free) = candidates.clone().find(|&index| self.slots[index].owner.is_none()) {
            self.vacate(free);
            return true;
        }
        let candidates: Vec<usize> = candidates.collect();
        let now = self.now();
        let idle = self.registry.idle(now).map(|(conversation, _)| conversation.clone());
        let longest = idle.into_iter().find(|conversation| {
            let slot = self.registry.slot_of(conversation);
            slot.is_some_and(|slot| candidates.contains(&(slot.0 as usize)))
        });
        match longest {
            Some(conversation) => {
                self.counters.parked += 1;
                self.park(&conversation);
                true
            }
            None => false,
        }
    }

    fn end_for_lack_of_room(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let context_tokens = self.options.context_tokens;
        let turn = slot.turn.as_mut().expect("the slot runs a turn");
        let event = if let Phase::Decoding(last) = turn.phase {
            TurnEvent::Finished {
                reason: FinishReason::Length,
                text: turn.output.finish(),
                completion_tokens: turn.generated,
                timeline: slot.timeline.tokens().iter().copied().chain([last]).collect(),
            }
        } else {
            let prompt_tokens = turn.request.prompt.len();
            TurnEvent::Failed(TurnError::TooLong { prompt_tokens, context_tokens })
        };
        turn.events.send(event).ok(); // An error: the caller went away.
        self.end_turn(index);
    }

    /// Puts a turn aside, while another runs: its KV is exported, its cells are given up, and it
    /// waits in front of the queue to go on where it stopped.
    pub(super) fn preempt(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.recorded &= slot.restores();
        let mut turn = slot.turn.take().expect("the slot runs a turn");
        if let Phase::Decoding(last) = turn.phase {
            let tokens = slot.timeline.tokens().iter().copied();
            turn.request.prompt = tokens.chain([last]).collect();
        }
        self.counters.preempted += 1;
        let now = self.now();
        self.save(index);
        self.registry.end(&turn.conversation, now);
        self.registry.unpin(&turn.conversation);
        self.vacate(index);
        self.waiting.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
        self.queue.push_front(Waiting::Preempted { turn: Box::new(turn), ended: self.ended });
    }

    /// Empties a slot and frees it from its owner.
    pub(super) fn vacate(&mut self, index: usize) {
        self.clear(index);
        let slot = &mut self.slots[index];
        slot.owner = None;
        slot.anonymous = false;
        slot.recorded = true;
        slot.tail.clear();
    }

    /// Appends tokens whose cells are in place.
    pub(super) fn extend(&mut self, index: usize, tokens: &[Token]) {
        let vocabulary = self.model.vocabulary();
        let slot = &mut self.slots[index];
        slot.timeline.push(tokens, |token| vocabulary.is_eog(token));
        self.radix.extend(slot.id, tokens);
        self.registry.set_load(slot.id, slot.timeline.len());
    }

    /// Drops the cells after the first `len` tokens.
    pub(super) fn cut_back(&mut self, index: usize, len: usize) {
        let slot = &self.slots[index];
        let end = slot.timeline.len();
        if len == 0 {
            return self.clear(index);
        }
        if len < end {
            if self.backend.remove(slot.sequence, len..end).is_err() {
                return self.clear(index); // Not this kind of memory: start over.
            }
            let slot = &mut self.slots[index];
            slot.cut_back(len);
            self.radix.truncate(slot.id, len);
            self.registry.set_load(slot.id, len);
        }
    }

    /// Drops all cells of the slot.
    pub(super) fn clear(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        self.backend.clear(slot.sequence);
        slot.cut_back(0);
        self.radix.remove(slot.id);
        self.registry.set_load(slot.id, 0);
    }
}

/// Positions and lengths fit 32 bits: llama.cpp's are `i32`.
fn narrow(value: usize) -> u32 {
    u32::try_from(value).expect("positions fit 32 bits")
}
