//! Gives a conversation in a slot or in the queue another TTL class.
//!
//! - What is recorded gets the class at once where no record is certain to follow; each record of a turn that runs or
//!   waits has it too, whatever class its request asked for before.
//! - What the draft model has of the conversation gets the same class.

use hob_slots::{ConversationId, TtlClass};

use super::Worker;

impl Worker<'_> {
    /// The next record of the conversation has this class. `false`: the conversation is in no slot and no turn of it
    /// waits, or none of its KV can be recorded.
    pub(super) fn set_class(&mut self, conversation: &ConversationId, class: TtlClass) -> bool {
        let is_set = self.set_class_of_model(conversation, class);
        if is_set {
            self.set_class_of_draft_model(conversation, class);
        }
        is_set
    }

    fn set_class_of_draft_model(&mut self, conversation: &ConversationId, class: TtlClass) {
        if let Some(drafter) = &mut self.drafter {
            drafter.set_class(conversation, class);
        }
        if let Some(tiers) = &self.core.draft_tiers {
            tiers.reclass(conversation, class);
        }
    }

    fn set_class_of_model(&mut self, conversation: &ConversationId, class: TtlClass) -> bool {
        let waits = self.set_class_of_waiting(conversation, class);
        let Some(slot) = self.registry.slot_of(conversation) else {
            return waits && self.core.tiers.reclass(conversation, class);
        };
        let index = slot.0 as usize;
        let slot = &self.slots[index];
        // No answer may follow a speculation. A turn may be cancelled while it restores, and leaves no record then.
        let may_record_none =
            slot.save.is_speculative() || slot.is_restoring() || !slot.is_savable();
        if may_record_none
            && !self.core.tiers.reclass(conversation, class)
            && (slot.save.is_speculative() || slot.turn.is_none())
        {
            return false;
        }
        self.slots[index].save.reclass(class);
        true
    }

    /// Returns whether turns of the conversation wait.
    fn set_class_of_waiting(&mut self, conversation: &ConversationId, class: TtlClass) -> bool {
        let mut waits = false;
        for waiting in self.queue.iter_mut().filter(|it| it.conversation() == Some(conversation)) {
            waiting.keep_mut().class = Some(class);
            waits = true;
        }
        waits
    }
}
