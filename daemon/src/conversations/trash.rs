//! When what lies in the trash is gone for good.
//!
//! - One rule: an hour after it was put there. Until then it is as it was, its KV included.
//! - Time that did not pass, because the clock was set or the machine slept, does not count.

use std::time::Duration;

use hob_slots::{AdjustedTime, ConversationId, Timestamp};

use crate::service::Service;

/// How long the trash keeps a conversation.
pub const KEPT_FOR: Duration = Duration::from_secs(60 * 60);

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Which of those that lie in the trash are to go.
pub fn due<'t>(
    trash: &'t [(ConversationId, Timestamp)],
    moment: &AdjustedTime,
) -> impl Iterator<Item = &'t (ConversationId, Timestamp)> {
    trash.iter().filter(|(_, since)| moment.age(*since) >= KEPT_FOR)
}

/// Empties the trash of what is due, as long as the daemon runs.
pub async fn run(service: Service) {
    loop {
        if let Err(error) = service.empty_trash(&service.this_moment()).await {
            tracing::warn!(%error, "the trash was not emptied");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hob_slots::ClockTracker;

    const HOUR_MS: u64 = 3_600_000;

    fn lies_there(since: u64) -> Vec<(ConversationId, Timestamp)> {
        vec![(ConversationId::new("a").unwrap(), Timestamp(since))]
    }

    #[test]
    fn it_goes_after_an_hour_and_not_before() {
        let trash = lies_there(HOUR_MS);
        let at = |now: u64| due(&trash, &AdjustedTime::from(Timestamp(now))).count();
        assert_eq!((at(0), at(2 * HOUR_MS - 1), at(2 * HOUR_MS)), (0, 0, 1));
    }

    #[test]
    fn an_hour_that_the_clock_jumped_over_deletes_nothing() {
        let mut timekeeper = ClockTracker::default();
        timekeeper.look(Timestamp(HOUR_MS), Duration::ZERO);
        let trash = lies_there(HOUR_MS);
        let moment = timekeeper.look(Timestamp(3 * HOUR_MS), Duration::from_secs(1));
        assert_eq!(due(&trash, &moment).count(), 0);
        let moment = timekeeper.look(Timestamp(4 * HOUR_MS), Duration::from_secs(3601));
        assert_eq!(due(&trash, &moment).count(), 1);
    }
}
