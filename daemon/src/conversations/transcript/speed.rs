//! The last measured prefill speed of each model on this machine.

use hob_slots::ModelHash;
use rusqlite::{Connection, OptionalExtension};

use super::writer::Pending;
use super::{Transcript, TranscriptError};

impl Transcript {
    /// The prefill speed of a model that was measured last, in tokens a second.
    pub fn prefill_speed(&self, fingerprint: ModelHash) -> Pending<Option<f64>> {
        self.writer.read(move |connection| load(connection, fingerprint))
    }

    /// Saves the prefill speed of a model in the background.
    pub fn put_prefill_speed(&self, fingerprint: ModelHash, tokens_per_second: f64) {
        self.writer.post(move |connection| save(connection, fingerprint, tokens_per_second));
    }
}

fn save(
    connection: &Connection,
    fingerprint: ModelHash,
    tokens_per_second: f64,
) -> Result<(), TranscriptError> {
    connection
        .prepare_cached(
            "INSERT INTO speeds (fingerprint, prefill) VALUES (?1, ?2)
             ON CONFLICT DO UPDATE SET prefill = excluded.prefill",
        )?
        .execute((fingerprint.to_string(), tokens_per_second))?;
    Ok(())
}

pub fn load(
    connection: &Connection,
    fingerprint: ModelHash,
) -> Result<Option<f64>, TranscriptError> {
    let speed = connection
        .prepare_cached("SELECT prefill FROM speeds WHERE fingerprint = ?1")?
        .query_row([fingerprint.to_string()], |row| row.get(0))
        .optional()?;
    Ok(speed)
}
