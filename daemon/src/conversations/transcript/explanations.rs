//! Why each conversation last computed tokens that had been computed before.
//!
//! A row is deleted with its conversation's text; that of a conversation without text, with its
//! timeline.

use hob_slots::{ConversationId, Timestamp};
use rusqlite::{Connection, OptionalExtension};
use serde_json::Value;

use super::tree::millis;
use super::writer::Pending;
use super::{SaveIf, Transcript, TranscriptError};

#[derive(Clone, Debug, PartialEq)]
pub struct SavedExplanation {
    /// As it was sent to the client.
    pub explanation: Value,
    /// Milliseconds since 1970.
    pub at: i64,
}

pub fn save(
    connection: &Connection,
    conversation: &ConversationId,
    explanation: &str,
    save_if: SaveIf,
    now: Timestamp,
) -> Result<(), TranscriptError> {
    connection
        .prepare_cached(
            "INSERT INTO explanations (conversation, explanation, at)
             SELECT ?1, ?2, ?3
             WHERE NOT ?4 OR EXISTS (SELECT 1 FROM conversations WHERE id = ?1)
             ON CONFLICT DO UPDATE SET explanation = excluded.explanation, at = excluded.at",
        )?
        .execute((conversation.as_str(), explanation, millis(now), save_if.needs_text()))?;
    Ok(())
}

impl Transcript {
    /// Why the conversation last computed tokens again.
    pub fn explanation(&self, conversation: &ConversationId) -> Pending<Option<SavedExplanation>> {
        let (id, writer) = (conversation.clone(), self.writer_of(conversation));
        writer.read(move |connection| load(connection, &id))
    }
}

fn load(
    connection: &Connection,
    conversation: &ConversationId,
) -> Result<Option<SavedExplanation>, TranscriptError> {
    let row: Option<(String, i64)> = connection
        .prepare_cached("SELECT explanation, at FROM explanations WHERE conversation = ?1")?
        .query_row([conversation.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    // An unreadable explanation is none.
    let read = |(text, at): (String, i64)| {
        Some(SavedExplanation { explanation: serde_json::from_str(&text).ok()?, at })
    };
    Ok(row.and_then(read))
}

pub fn delete_stale(connection: &Connection) -> Result<(), TranscriptError> {
    connection.execute(
        "DELETE FROM explanations
         WHERE conversation NOT IN (SELECT id FROM conversations UNION SELECT conversation FROM tokens)",
        [],
    )?;
    Ok(())
}
