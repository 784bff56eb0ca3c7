//! Deletes timelines and explanations of hints, which have no text that they would be deleted with.

use hob_slots::Timestamp;
use rusqlite::Connection;

use super::{Transcript, TranscriptError, explanations, tokens};

impl Transcript {
    /// Deletes those that were not used for a day, in the background.
    pub fn delete_stale(&self, now: Timestamp) {
        for is_private in [true, false] {
            self.writer_for(is_private).post(move |connection| delete(connection, now));
        }
    }
}

/// See [`Transcript::delete_stale`].
pub fn delete(connection: &Connection, now: Timestamp) -> Result<(), TranscriptError> {
    tokens::delete_stale(connection, now)?;
    explanations::delete_stale(connection)
}
