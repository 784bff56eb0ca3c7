//! Deletions beside turns: a turn that began before a deletion changes nothing after it.
//!
//! - Each turn of a conversation holds a ticket from before it reads the history. A deletion cancels
//!   the tickets first, then removes KV and text. Whatever a cancelled turn does later is refused; where its row
//!   stays, the answer is interrupted.
//! - While a deletion runs, no turn of the conversation begins.
//! - A turn holds a ticket of each document that its request names, too, under the key of the document's KV. The
//!   ticket names the turn's conversation: until the turn's messages are stored, nothing else says that its KV has the
//!   document.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use hob_slots::ConversationId;
use parking_lot::Mutex;

use super::TranscriptError;

/// Clones share everything.
#[derive(Clone, Debug, Default)]
pub struct Deletions(Arc<Mutex<BTreeMap<ConversationId, Tickets>>>);

#[derive(Debug, Default)]
struct Tickets {
    /// Deletions under way.
    deletions: usize,
    turns: Vec<TicketedTurn>,
}

#[derive(Debug)]
struct TicketedTurn {
    is_cancelled: Weak<Mutex<bool>>,
    /// Its conversation or hint, where the ticket is of a document.
    of: Option<ConversationId>,
}

/// Permission of one turn to write to its conversation. Clones share it.
#[derive(Clone, Debug)]
pub struct TurnTicket(Vec<Arc<Mutex<bool>>>);

/// A deletion under way; dropping it ends it.
#[derive(Debug)]
#[must_use]
pub struct Deletion {
    deletions: Deletions,
    conversation: ConversationId,
    cancelled: Vec<ConversationId>,
}

impl Deletions {
    /// # Errors
    /// [`TranscriptError::Deleted`] while the conversation is being deleted.
    pub fn ticket(&self, conversation: &ConversationId) -> Result<TurnTicket, TranscriptError> {
        self.ticket_of(conversation, None)
    }

    /// `of`: the conversation or hint of the turn, where `key` is that of a document.
    ///
    /// # Errors
    /// [`TranscriptError::Deleted`] while it is being deleted.
    pub fn ticket_of(
        &self,
        key: &ConversationId,
        of: Option<&ConversationId>,
    ) -> Result<TurnTicket, TranscriptError> {
        let mut all = self.0.lock();
        all.retain(|_, tickets| tickets.is_needed());
        let tickets = all.entry(key.clone()).or_default();
        if tickets.deletions > 0 {
            return Err(TranscriptError::Deleted);
        }
        let ticket = Arc::new(Mutex::new(false));
        let is_cancelled = Arc::downgrade(&ticket);
        tickets.turns.push(TicketedTurn { is_cancelled, of: of.cloned() });
        Ok(TurnTicket(vec![ticket]))
    }

    /// Cancels the tickets of the conversation, and issues none until the deletion ends.
    pub fn begin(&self, conversation: &ConversationId) -> Deletion {
        let turns = {
            let mut all = self.0.lock();
            let tickets = all.entry(conversation.clone()).or_default();
            tickets.deletions += 1;
            std::mem::take(&mut tickets.turns)
        };
        let mut cancelled = Vec::new();
        for TicketedTurn { is_cancelled, of } in turns {
            let Some(turn) = is_cancelled.upgrade() else { continue };
            *turn.lock() = true; // Waits for a turn that is being handed to the engine.
            cancelled.extend(of.filter(|of| of != conversation));
        }
        Deletion { deletions: self.clone(), conversation: conversation.clone(), cancelled }
    }

    /// [`Self::begin`]; `None` while a turn holds a ticket of the conversation.
    pub fn begin_if_idle(&self, conversation: &ConversationId) -> Option<Deletion> {
        let mut all = self.0.lock();
        let tickets = all.entry(conversation.clone()).or_default();
        if tickets.has_turns() {
            return None;
        }
        tickets.deletions += 1;
        let (deletions, conversation) = (self.clone(), conversation.clone());
        Some(Deletion { deletions, conversation, cancelled: Vec::new() })
    }
}

impl Tickets {
    /// Whether a turn holds a ticket.
    fn has_turns(&mut self) -> bool {
        self.turns.retain(|turn| turn.is_cancelled.strong_count() > 0);
        !self.turns.is_empty()
    }

    fn is_needed(&mut self) -> bool {
        self.has_turns() || self.deletions > 0
    }
}

impl Deletion {
    /// The conversations and hints of the turns about the deleted document that it has cancelled. The engine may have
    /// these turns.
    pub fn cancelled(&self) -> &[ConversationId] {
        &self.cancelled
    }
}

impl TurnTicket {
    /// One that is cancelled with either of the two.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Runs `act` unless the conversation was deleted; a deletion waits for its end.
    pub fn unless_deleted<T>(&self, act: impl FnOnce() -> T) -> Result<T, TranscriptError> {
        let cancelled: Vec<_> = self.0.iter().map(|one| one.lock()).collect();
        if cancelled.iter().any(|one| **one) { Err(TranscriptError::Deleted) } else { Ok(act()) }
    }

    /// # Errors
    /// [`TranscriptError::Deleted`].
    pub fn check(&self) -> Result<(), TranscriptError> {
        self.unless_deleted(|| ())
    }
}

impl Drop for Deletion {
    fn drop(&mut self) {
        let mut all = self.deletions.0.lock();
        if let Some(tickets) = all.get_mut(&self.conversation) {
            tickets.deletions -= 1;
        }
        all.retain(|_, tickets| tickets.is_needed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_cancels_the_turns_before_it_and_delays_none_after_it() {
        let deletions = Deletions::default();
        let [a, b] = ["a", "b"].map(|name| ConversationId::new(name).unwrap());
        let [before, other] = [&a, &b].map(|name| deletions.ticket(name).unwrap());
        let deletion = deletions.begin(&a);
        assert!(matches!(before.check(), Err(TranscriptError::Deleted)));
        assert!(matches!(deletions.ticket(&a), Err(TranscriptError::Deleted)));
        other.check().unwrap();
        drop(deletion);
        deletions.ticket(&a).unwrap().check().unwrap();
        before.check().unwrap_err();
        drop(other);
        drop(deletions.begin(&a));
        assert!(deletions.0.lock().is_empty(), "nothing stays of turns that have ended");
    }

    #[test]
    fn a_deletion_that_cancels_no_turn_waits_for_none() {
        let deletions = Deletions::default();
        let id = ConversationId::new("a").unwrap();
        let turn = deletions.ticket(&id).unwrap();
        assert!(deletions.begin_if_idle(&id).is_none());
        turn.check().unwrap();
        drop(turn);
        let deletion = deletions.begin_if_idle(&id).unwrap();
        assert!(matches!(deletions.ticket(&id), Err(TranscriptError::Deleted)));
        drop(deletion);
        assert!(deletions.0.lock().is_empty());
    }

    #[test]
    fn the_deletion_of_a_document_names_the_conversations_of_its_turns() {
        let deletions = Deletions::default();
        let [key, a, b] = ["key", "a", "b"].map(|name| ConversationId::new(name).unwrap());
        let ended = deletions.ticket_of(&key, Some(&b)).unwrap();
        let own = deletions.ticket_of(&key, Some(&key)).unwrap();
        let turn = deletions.ticket_of(&key, Some(&a)).unwrap();
        drop(ended);
        assert_eq!(deletions.begin(&key).cancelled(), [a]);
        own.check().unwrap_err();
        turn.check().unwrap_err();
    }

    #[test]
    fn two_tickets_in_one_are_cancelled_with_either() {
        let deletions = Deletions::default();
        let [a, b] = ["a", "b"].map(|name| ConversationId::new(name).unwrap());
        for deleted in [&a, &b] {
            let [one, other] = [&a, &b].map(|name| deletions.ticket(name).unwrap());
            let both = one.and(other);
            both.check().unwrap();
            drop(deletions.begin(deleted));
            both.check().unwrap_err();
        }
    }
}
