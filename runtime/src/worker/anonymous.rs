//! Anonymous conversations: requests without a cache key belong to the conversation whose prompt they continue.
//!
//! - A conversation that fits its cells needs only these: the next request shares them. A conversation of which
//!   blocks are away stays in its slot between two turns, with its id, these blocks and their words, as a
//!   conversation with a name does. The engine neither exports nor records it. A slot has at most one.
//! - A request continues the conversation if its prompt begins with all that the conversation's last prompt said.
//!   Any other request gets nothing impure of it: no slot shares its impure cells, and no name leads to its impure
//!   blocks.
//! - The engine drops it before a conversation with a name: for a turn that needs its slot, its cells or the memory
//!   of its blocks; for each deletion of a conversation, whose objects it may refer to; and when the weights are
//!   dropped. Then the tiers have nothing of it.
//! - A private or cold turn neither continues such a conversation nor leaves one.

use hob_slots::ConversationId;

use super::Worker;
use super::running::{Owner, Running};
use super::slot::Slot;
use super::waiting::Waiting;
use crate::map::EvictionReason;
use crate::turn::TurnRequest;

impl Worker<'_> {
    /// The id of a turn without a conversation: that of the conversation which it continues, or a new one.
    pub(super) fn anonymous_id(&self, waiting: &Waiting) -> ConversationId {
        let continued = match waiting {
            Waiting::New(turn) => self.continued_by(&turn.request),
            Waiting::Preempted { .. } => None,
        };
        continued.unwrap_or_else(|| ConversationId::anonymous(self.core.turns))
    }

    /// The idle conversation that shares most with the request's prompt, of those that it continues.
    fn continued_by(&self, request: &TurnRequest) -> Option<ConversationId> {
        if request.cold || is_private(request) || request.purpose.is_background() {
            return None;
        }
        let shared = |slot: &Slot| {
            let begins = slot.goes_on_behind.filter(|_| slot.turn.is_none())?;
            let shared = slot.shared_with(&request.adapters, &request.prompt);
            (shared >= begins).then_some(shared)
        };
        let slots = self.slots.iter();
        let continued = slots.filter_map(|slot| Some((shared(slot)?, slot.owner.as_ref()?.id())));
        continued.max_by_key(|(shared, _)| *shared).map(|(_, id)| id.clone())
    }

    /// The slot's anonymous turn has ended. A conversation that has outgrown its cells stays; of any other,
    /// only the cells stay, for other slots to share.
    pub(super) fn end_anonymous(&mut self, index: usize, turn: &Running) {
        let slot = &mut self.slots[index];
        let continued = slot.goes_on_behind.take();
        // The answer's last token would need a cell while no turn has one to give: the next prompt computes that token.
        slot.tail.clear();
        let has_outgrown = (turn.has_left || continued.is_some()) && !slot.is_whole();
        if has_outgrown && !turn.request.cold && !is_private(&turn.request) {
            let begins = turn.said().or(continued);
            slot.goes_on_behind = begins.filter(|&end| end <= slot.timeline.len());
        }
        if slot.goes_on_behind.is_some() {
            return;
        }
        slot.owner = None;
        self.open_changed = true;
        let id = turn.owner.id();
        self.registry.unpin(id);
        if is_private(&turn.request) || turn.has_left || continued.is_some() {
            self.vacate(index);
        }
        self.core.tiers.forget_anonymous(id);
    }

    /// Drops the idle anonymous conversation in the slot, if there is one, and what the tiers have of it.
    pub(super) fn drop_anonymous(&mut self, index: usize) {
        let slot = &self.slots[index];
        if let Some(Owner::Anonymous(id)) = &slot.owner
            && slot.turn.is_none()
        {
            let id = id.clone();
            self.registry.unpin(&id);
            self.vacate(index);
            self.core.tiers.forget_anonymous(&id);
        }
    }

    /// Drops the anonymous conversation that is idle for the longest time. Returns whether there was one.
    pub(super) fn drop_idle_anonymous(&mut self) -> bool {
        let longest = self.registry.idle(self.now()).next().map(|(id, _)| id.clone());
        let Some(id) = longest.filter(ConversationId::is_anonymous) else { return false };
        self.park(&id, EvictionReason::Room);
        true
    }
}

/// Whether nothing of the request's KV may stay once it has ended.
fn is_private(request: &TurnRequest) -> bool {
    request.keep.in_memory == Some(true)
}
