//! Deletes conversations from the trash after an hour, and timelines of hints after a day without use.
//!
//! - Until then a conversation is complete, its KV included.
//! - A private conversation is never in the trash; it is deleted after a day without a message.
//! - Time that the clock jumped over, or that the machine slept, does not count.

use std::time::Duration;

use hob_slots::AdjustedTime;

use super::Conversations;
use super::transcript::Trashed;
use crate::clock::ProcessTime;

pub const RETENTION: Duration = Duration::from_secs(60 * 60);

/// Since the last message of a private conversation.
pub const PRIVATE_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Between two deletions of timelines without text, which read through all rows.
const STALE_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// The conversations whose hour is over.
pub fn due<'t>(trash: &'t [Trashed], now: &AdjustedTime) -> impl Iterator<Item = &'t Trashed> {
    trash.iter().filter(|trashed| now.age(trashed.since) >= RETENTION)
}

/// Empties the trash every minute, and deletes stale timelines every hour, while the daemon runs.
pub async fn run(conversations: Conversations, time: ProcessTime) {
    // Opening the transcript deletes stale timelines, too.
    let mut stale_since = time.read().1;
    loop {
        let ran = time.read().1;
        if ran.saturating_sub(stale_since) >= STALE_INTERVAL {
            stale_since = ran;
            conversations.transcript.delete_stale(conversations.now());
        }
        let now = conversations.storage.adjusted_now();
        if let Err(error) = conversations.empty_trash(&now).await {
            tracing::warn!(%error, "the trash was not emptied");
        }
        tokio::time::sleep(time.sleep(CHECK_INTERVAL)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hob_slots::{ClockTracker, ConversationId, Timestamp};

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
