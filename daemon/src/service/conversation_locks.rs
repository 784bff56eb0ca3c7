//! Turns of one conversation, one after the other.
//!
//! An append continues the last answer, so it waits until that is whole. A request with the full
//! history needs no answer but its own and waits for nothing; it only makes others wait.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use hob_runtime::turn::TurnError;
use hob_slots::ConversationId;
use tokio::sync::{Mutex as Gate, OwnedMutexGuard};

/// One gate a conversation, while anybody is there.
#[derive(Debug)]
pub struct ConversationLocks {
    open: Mutex<BTreeMap<ConversationId, Weak<Gate<()>>>>,
    waiting: AtomicUsize,
    most_waiting: usize,
}

/// The conversation is ours until this is dropped.
#[derive(Debug)]
pub struct ConversationGuard(#[allow(dead_code, reason = "held, not read")] OwnedMutexGuard<()>);

impl ConversationLocks {
    /// At most `most_waiting` requests wait; others are told to come back.
    pub fn new(most_waiting: usize) -> Self {
        Self { open: Mutex::default(), waiting: AtomicUsize::new(0), most_waiting }
    }

    /// Waits until nobody else has the conversation.
    ///
    /// # Errors
    /// [`TurnError::Busy`] when too many wait already.
    pub async fn enter(
        &self,
        conversation: &ConversationId,
    ) -> Result<ConversationGuard, TurnError> {
        if let Some(guard) = self.try_enter(conversation) {
            return Ok(guard);
        }
        let place = Place::take(&self.waiting);
        if place.before >= self.most_waiting {
            return Err(TurnError::Busy { waiting: place.before });
        }
        Ok(ConversationGuard(self.gate(conversation).lock_owned().await))
    }

    /// The conversation, if nobody else has it.
    pub fn try_enter(&self, conversation: &ConversationId) -> Option<ConversationGuard> {
        self.gate(conversation).try_lock_owned().ok().map(ConversationGuard)
    }

    fn gate(&self, conversation: &ConversationId) -> Arc<Gate<()>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = open.get(conversation).and_then(Weak::upgrade) {
            return gate;
        }
        open.retain(|_, gate| gate.strong_count() > 0);
        let gate = Arc::default();
        open.insert(conversation.clone(), Arc::downgrade(&gate));
        gate
    }
}

/// A place among those that wait, given back even when the wait is given up.
struct Place<'a> {
    waiting: &'a AtomicUsize,
    before: usize,
}

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize) -> Self {
        Self { waiting, before: waiting.fetch_add(1, Ordering::AcqRel) }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ConversationId {
        ConversationId::new(text).unwrap()
    }

    #[tokio::test]
    async fn a_conversation_has_one_turn_at_a_time_and_others_are_free() {
        let conversation_locks = ConversationLocks::new(1);
        let guard = conversation_locks.enter(&id("a")).await.unwrap();
        assert!(conversation_locks.try_enter(&id("a")).is_none());
        assert!(conversation_locks.try_enter(&id("b")).is_some());
        drop(guard);
        assert!(conversation_locks.try_enter(&id("a")).is_some());
    }

    #[tokio::test]
    async fn a_wait_that_is_given_up_leaves_its_place() {
        let conversation_locks = ConversationLocks::new(1);
        let _pass = conversation_locks.enter(&id("a")).await.unwrap();
        for _ in 0..3 {
            let conversation = id("a");
            let wait = conversation_locks.enter(&conversation);
            let soon = std::time::Duration::from_millis(1);
            assert!(tokio::time::timeout(soon, wait).await.is_err());
        }
        let full = ConversationLocks::new(0);
        let _pass = full.enter(&id("a")).await.unwrap();
        assert_eq!(full.enter(&id("a")).await.unwrap_err(), TurnError::Busy { waiting: 0 });
    }
}
