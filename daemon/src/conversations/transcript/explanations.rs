//! Why each conversation last computed what was computed before.
//!
//! A row leaves with its conversation's text; those of conversations that are pinned by a key alone
//! leave with their timeline.

use hob_slots::{ConversationId, Timestamp};
use rusqlite::{Connection, OptionalExtension};
use serde_json::Value;

use super::TranscriptError;
use super::tree::millis;

/// An explanation and when it was given.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedExplanation {
    /// As it was told.
    pub explanation: Value,
    /// Milliseconds since 1970.
    pub at: i64,
}

pub fn save(
    connection: &Connection,
    conversation: &ConversationId,
    explanation: &str,
    beside_text: bool,
    now: Timestamp,
) -> Result<(), TranscriptError> {
    connection
        .prepare_cached(
            "INSERT INTO explanations (conversation, explanation, at)
             SELECT ?1, ?2, ?3
             WHERE NOT ?4 OR EXISTS (SELECT 1 FROM conversations WHERE id = ?1)
             ON CONFLICT DO UPDATE SET explanation = excluded.explanation, at = excluded.at",
        )?
        .execute((conversation.as_str(), explanation, millis(now), beside_text))?;
    Ok(())
}

pub fn load(
    connection: &Connection,
    conversation: &ConversationId,
) -> Result<Option<SavedExplanation>, TranscriptError> {
    let row: Option<(String, i64)> = connection
        .prepare_cached("SELECT explanation, at FROM explanations WHERE conversation = ?1")?
        .query_row([conversation.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    // What cannot be read is as good as none: it only explains.
    let read = |(text, at): (String, i64)| {
        Some(SavedExplanation { explanation: serde_json::from_str(&text).ok()?, at })
    };
    Ok(row.and_then(read))
}

pub fn forget_stale(connection: &Connection) -> Result<(), TranscriptError> {
    connection.execute(
        "DELETE FROM explanations
         WHERE conversation NOT IN (SELECT id FROM conversations UNION SELECT conversation FROM tokens)",
        [],
    )?;
    Ok(())
}
