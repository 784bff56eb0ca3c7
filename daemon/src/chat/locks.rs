//! One lock a conversation: its turns run one after the other.
//!
//! - An append waits for the lock, because it continues the previous answer.
//! - A request with the full history takes the lock only if it is free.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use hob_runtime::turn::TurnError;
use hob_slots::ConversationId;
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// The locks that a request holds or waits for.
#[derive(Debug)]
pub struct ConversationLocks {
    locks: Mutex<BTreeMap<ConversationId, Weak<AsyncMutex<()>>>>,
    waiting: AtomicUsize,
    max_waiting: usize,
}

/// Holds the lock of a conversation.
#[derive(Debug)]
pub struct ConversationGuard(#[allow(dead_code, reason = "held, not read")] OwnedMutexGuard<()>);

impl ConversationLocks {
    /// At most `max_waiting` requests wait; further ones are refused.
    pub fn new(max_waiting: usize) -> Self {
        Self { locks: Mutex::default(), waiting: AtomicUsize::new(0), max_waiting }
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// [`TurnError::Busy`] when `max_waiting` requests wait already.
    pub async fn enter(
        &self,
        conversation: &ConversationId,
    ) -> Result<ConversationGuard, TurnError> {
        if let Some(guard) = self.try_enter(conversation) {
            return Ok(guard);
        }
        let place = Waiting::count(&self.waiting);
        if place.before >= self.max_waiting {
            return Err(TurnError::Busy { waiting: place.before });
        }
        Ok(ConversationGuard(self.lock_of(conversation).lock_owned().await))
    }

    /// The lock, if it is free.
    pub fn try_enter(&self, conversation: &ConversationId) -> Option<ConversationGuard> {
        self.lock_of(conversation).try_lock_owned().ok().map(ConversationGuard)
    }

    /// Whether a request holds the lock. Does not take it: a request with the full history would run without it.
    pub fn is_taken(&self, conversation: &ConversationId) -> bool {
        self.locks.lock().get(conversation).is_some_and(|lock| lock.strong_count() > 0)
    }

    fn lock_of(&self, conversation: &ConversationId) -> Arc<AsyncMutex<()>> {
        let mut locks = self.locks.lock();
        if let Some(lock) = locks.get(conversation).and_then(Weak::upgrade) {
            return lock;
        }
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::default();
        locks.insert(conversation.clone(), Arc::downgrade(&lock));
        lock
    }
}

/// Counts a waiting request, until it is dropped.
struct Waiting<'a> {
    waiting: &'a AtomicUsize,
    before: usize,
}

impl<'a> Waiting<'a> {
    fn count(waiting: &'a AtomicUsize) -> Self {
        Self { waiting, before: waiting.fetch_add(1, Ordering::AcqRel) }
    }
}

impl Drop for Waiting<'_> {
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
    async fn a_conversation_has_one_turn_at_a_time_and_others_are_not_blocked() {
        let locks = ConversationLocks::new(1);
        let guard = locks.enter(&id("a")).await.unwrap();
        assert!(locks.try_enter(&id("a")).is_none());
        assert!(locks.try_enter(&id("b")).is_some());
        assert!(locks.is_taken(&id("a")) && !locks.is_taken(&id("b")));
        drop(guard);
        assert!(!locks.is_taken(&id("a")));
        assert!(locks.try_enter(&id("a")).is_some());
    }

    #[tokio::test]
    async fn a_cancelled_wait_is_no_longer_counted() {
        let locks = ConversationLocks::new(1);
        let _guard = locks.enter(&id("a")).await.unwrap();
        for _ in 0..3 {
            let conversation = id("a");
            let wait = locks.enter(&conversation);
            let soon = std::time::Duration::from_millis(1);
            assert!(tokio::time::timeout(soon, wait).await.is_err());
        }
        let full = ConversationLocks::new(0);
        let _guard = full.enter(&id("a")).await.unwrap();
        assert_eq!(full.enter(&id("a")).await.unwrap_err(), TurnError::Busy { waiting: 0 });
    }
}
