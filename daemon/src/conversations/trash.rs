//! Deletes conversations from the trash after an hour, and timelines of hints after a day without use.
//!
//! - Until then a conversation is complete, its KV included.
//! - A private conversation is never in the trash; it is deleted after a day without a message.
//! - Time that the clock jumped over, or that the machine slept, does not count. The loop compares the clocks itself:
//!   after a sleep it may wake before the loop of the sweep, which writes jumps down.

use std::slice;
use std::time::Duration;

use hob_slots::{AdjustedTime, ConversationId, Timestamp};

use super::Conversations;
use super::transcript::{DeletedMessages, Trashed};
use crate::clock::ProcessTime;
use crate::error::ApiError;

pub const RETENTION: Duration = Duration::from_secs(60 * 60);

/// Since the last message of a private conversation.
pub const PRIVATE_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Between two deletions of timelines without text, which read through all rows.
const STALE_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// The conversations whose hour is over.
fn due<'t>(trash: &'t [Trashed], now: &AdjustedTime) -> impl Iterator<Item = &'t Trashed> {
    trash.iter().filter(|trashed| now.age(trashed.since) >= RETENTION)
}

impl Conversations {
    /// Deletes the conversations whose hour in the trash is over, private ones after a day without a
    /// message, and documents of messages that were not sent within an hour. A conversation that is
    /// restored meanwhile stays. What cannot be deleted now keeps nothing else from being deleted.
    ///
    /// # Errors
    /// When the database cannot be written, a file of the KV cannot be removed, the shared tier does not
    /// answer, or the engine has stopped.
    pub async fn empty_trash(&self, now: &AdjustedTime) -> Result<(), ApiError> {
        let mut emptied = Ok(());
        let trash = self.transcript.trash().done().await?;
        for trashed in due(&trash, now) {
            emptied = self.delete_trashed(trashed).await.and(emptied);
        }
        for deleted in self.transcript.deleted_messages().done().await? {
            if now.age(deleted.since) >= RETENTION {
                emptied = self.purge_messages(&deleted).await.and(emptied);
            }
        }
        for id in self.transcript.private() {
            emptied = self.delete_old_private(&id, now).await.and(emptied);
        }
        self.delete_unsent_documents(now).await.and(emptied)
    }

    /// While a turn of the conversation runs, which restores it, nothing. The list of the trash may be minutes old: each
    /// deletion waits for the shared tier.
    async fn delete_trashed(&self, trashed: &Trashed) -> Result<(), ApiError> {
        let id = &trashed.conversation;
        let Some(_deletion) = self.transcript.begin_deletion_if_idle(id) else { return Ok(()) };
        if !self.transcript.is_still_trashed(trashed).done().await? {
            return Ok(());
        }
        let _unshared = self.unshare(slice::from_ref(id)).await?;
        // A conversation that is restored at this moment loses its KV, which costs time.
        let _documents = self.delete_kv_of_documents(id).await?;
        self.delete_kv(id).await?;
        self.transcript.delete_trashed(trashed).done().await?;
        Ok(())
    }

    async fn delete_old_private(
        &self,
        id: &ConversationId,
        now: &AdjustedTime,
    ) -> Result<(), ApiError> {
        let Some(text) = self.transcript.get(id).done().await? else { return Ok(()) };
        let updated = Timestamp(u64::try_from(text.summary.updated_at).unwrap_or(0));
        if now.age(updated) >= PRIVATE_RETENTION {
            self.delete(id).await?;
        }
        Ok(())
    }

    async fn delete_unsent_documents(&self, now: &AdjustedTime) -> Result<(), ApiError> {
        let mut deleted = Ok(());
        for text in self.transcript.delete_unused_documents(now, RETENTION).await? {
            deleted = self.delete_kv_of_text(&text).await.and(deleted);
        }
        Ok(deleted?)
    }

    /// Deletes deleted messages for good, and all KV of their conversation: it spells them. While the
    /// conversation is being answered, nothing.
    async fn purge_messages(&self, deleted: &DeletedMessages) -> Result<(), ApiError> {
        let id = &deleted.conversation;
        if !self.transcript.is_idle(id).done().await? {
            return Ok(());
        }
        let unshared = self.unshare(slice::from_ref(id)).await?;
        // A turn may have begun while the shared tier answered: it goes on, and a later call deletes.
        let deletion = self.transcript.begin_deletion_if_idle(id);
        if deletion.is_some() {
            self.delete_kv(id).await?;
            self.transcript.purge_messages(deleted).done().await?;
        }
        drop((deletion, unshared));
        self.republish(id);
        Ok(())
    }
}

/// Empties the trash every minute, and deletes stale timelines every hour, while the daemon runs.
pub async fn run(conversations: Conversations, time: ProcessTime) {
    let mut clocks = conversations.storage.clock_tracker();
    // Opening the transcript deletes stale timelines, too.
    let mut stale_since = time.read().1;
    loop {
        let (wall, ran) = time.read();
        let now = clocks.observe(wall, ran);
        if ran.saturating_sub(stale_since) >= STALE_INTERVAL {
            stale_since = ran;
            conversations.transcript.delete_stale(conversations.now());
        }
        if let Err(error) = conversations.empty_trash(&now).await {
            tracing::warn!(%error, "the trash was not emptied");
        }
        tokio::time::sleep(time.sleep(CHECK_INTERVAL)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hob_slots::ClockTracker;

    const HOUR_MS: u64 = 3_600_000;

    fn trashed_since(since: u64) -> Vec<Trashed> {
        let conversation = ConversationId::new("a").unwrap();
        vec![Trashed { conversation, since: Timestamp(since) }]
    }

    #[test]
    fn a_conversation_is_due_after_an_hour_and_not_before() {
        let trash = trashed_since(HOUR_MS);
        let at = |now: u64| due(&trash, &AdjustedTime::from(Timestamp(now))).count();
        assert_eq!((at(0), at(2 * HOUR_MS - 1), at(2 * HOUR_MS)), (0, 0, 1));
    }

    #[test]
    fn an_hour_that_the_clock_jumped_over_deletes_nothing() {
        let mut clock = ClockTracker::default();
        clock.observe(Timestamp(HOUR_MS), Duration::ZERO);
        let trash = trashed_since(HOUR_MS);
        let now = clock.observe(Timestamp(3 * HOUR_MS), Duration::from_secs(1));
        assert_eq!(due(&trash, &now).count(), 0);
        let now = clock.observe(Timestamp(4 * HOUR_MS), Duration::from_secs(3601));
        assert_eq!(due(&trash, &now).count(), 1);
    }
}
