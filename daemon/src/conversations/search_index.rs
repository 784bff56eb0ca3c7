//! Rewrites the index of the search after deletions, so that it has no words of deleted messages.
//!
//! - A rewriting begins within a minute after a deletion, and ten minutes after the one before at the earliest: it
//!   writes the whole index.
//! - The thread of the transcript does one step of it at a time, so a chat waits for one step at most.
//! - What is left when hobd ends is removed after the next start.

use std::time::Duration;

use super::transcript::{Transcript, TranscriptError};
use crate::clock::ProcessTime;

const CHECK_INTERVAL: Duration = Duration::from_secs(60);

const REWRITE_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Between two steps, which take some 10 ms each: a rewriting uses about a tenth of a core.
const PAUSE: Duration = Duration::from_millis(100);

/// Removes the words of deleted messages while the daemon runs.
pub async fn run(transcript: Transcript, time: ProcessTime) {
    let mut rewritten: Option<Duration> = None;
    loop {
        tokio::time::sleep(time.sleep(CHECK_INTERVAL)).await;
        let ran = time.read().1;
        if rewritten.is_some_and(|at| ran.saturating_sub(at) < REWRITE_INTERVAL) {
            continue;
        }
        match remove_deleted_words(&transcript, &time).await {
            Ok(false) => {}
            Ok(true) => rewritten = Some(time.read().1),
            Err(error) => {
                tracing::warn!(%error, "the index of the search still has deleted words");
                rewritten = Some(ran);
            }
        }
    }
}

/// Whether there were any.
async fn remove_deleted_words(
    transcript: &Transcript,
    time: &ProcessTime,
) -> Result<bool, TranscriptError> {
    if !transcript.has_deleted_words().done().await? {
        return Ok(false);
    }
    while transcript.remove_deleted_words().done().await? {
        tokio::time::sleep(time.sleep(PAUSE)).await;
    }
    Ok(true)
}
