//! A slot's request, as the eviction policy of the memory tier sees it.
//!
//! - Every answer reports all KV that it uses: once its reusable KV is hot, what it reuses, in the
//!   order of the prompt; when it has ended, everything, with how it ended. Exports report in
//!   between. The policy counts each block once.
//! - Background turns report nothing: they are no use of the conversation.

use std::hash::{DefaultHasher, Hash, Hasher};

use hob_slots::evict::{AnswerEnd, Run};
use hob_slots::{BLOCK_TOKENS, ConversationId, Use};

use super::Worker;
use super::running::{Owner, Running};
use super::slot::Slot;
use crate::tiers::UsedObject;

impl Worker<'_> {
    /// The request that runs in the slot; between two requests, the last one answered there.
    pub(super) fn usage(&self, index: usize) -> Use {
        let slot = &self.slots[index];
        let run = slot.turn.as_ref().map_or(slot.answered, |turn| self.run_of(slot, turn));
        Use { run, now: self.now() }
    }

    /// Reports the reused KV of an answer whose prompt is about to be computed.
    pub(super) fn report_reuse(&self, index: usize) {
        if !self.is_background(index) {
            self.core.tiers.used(self.used_objects(index), self.usage(index));
        }
    }

    /// Reports all KV of the slot's answer. `ended`: how it has ended.
    pub(super) fn report_answer(&mut self, index: usize, ended: AnswerEnd) {
        let mut usage = self.usage(index);
        usage.run.ended = ended;
        self.slots[index].answered = usage.run;
        // KV of an anonymous turn is not saved: only what it reused was a use.
        if self.slots[index].conversation().is_some() {
            self.core.tiers.used(self.used_objects(index), usage);
        }
    }

    /// The last answer of the conversation calls tools, which respond sooner than people.
    pub(super) fn called_tools(&mut self, conversation: &ConversationId) {
        let Some(slot) = self.registry.slot_of(conversation) else { return };
        let index = slot.0 as usize;
        let slot = &self.slots[index];
        if slot.turn.is_none() && slot.answered.conversation == hash(conversation) {
            self.report_answer(index, AnswerEnd::ToolCall);
        }
    }

    fn run_of(&self, slot: &Slot, turn: &Running) -> Run {
        // The conversation counts its turns, whichever slots they ran in.
        let recorded = self.core.tiers.summary(turn.owner.id()).map_or(0, |known| known.turns);
        let narrow = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let prompt = turn.request.prompt.len();
        Run {
            number: turn.number,
            conversation: match &turn.owner {
                Owner::Conversation(id) => hash(id),
                Owner::Anonymous(_) => 0,
            },
            turn: recorded.saturating_add(slot.save.turns).saturating_add(1),
            tokens: narrow(prompt),
            blocks: narrow(prompt.div_ceil(BLOCK_TOKENS)),
            ended: AnswerEnd::Unknown,
        }
    }

    /// The whole blocks in the slot's cells, if it is saved in blocks; where memory is not plain, the
    /// furthest snapshot.
    fn used_objects(&self, index: usize) -> Vec<UsedObject> {
        let slot = &self.slots[index];
        let mut snapshot = Vec::new();
        if !self.is_plain() {
            let end = slot.timeline.len();
            let last = slot.save.last_snapshot_within(end);
            let used = |last: &hob_slots::format::SnapshotRef| UsedObject {
                id: last.id,
                parent: None,
                tokens: last.position as usize,
            };
            snapshot = last.map(used).into_iter().collect();
        }
        if !self.backend.has_ranges() {
            return snapshot;
        }
        let used = |block: &hob_slots::Block| UsedObject {
            id: block.id,
            parent: block.before(),
            tokens: block.range.len(),
        };
        let resident = |block: &&hob_slots::Block| slot.cells.has(&block.range);
        slot.timeline.whole_blocks().iter().filter(resident).map(used).chain(snapshot).collect()
    }
}

fn hash(conversation: &ConversationId) -> u64 {
    let mut hasher = DefaultHasher::new();
    conversation.hash(&mut hasher);
    hasher.finish().max(1) // 0: no conversation.
}
