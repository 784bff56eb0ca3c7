//! The latest answers over all conversations, and what each of them cost.

use rusqlite::Connection;
use serde_json::Value;

use super::TranscriptError;

/// A complete answer.
#[derive(Clone, Debug, PartialEq)]
pub struct RecentTurn {
    pub conversation: String,
    pub title: Option<String>,
    /// The id of the answer.
    pub message: i64,
    /// The id of the message that it answers.
    pub parent: Option<i64>,
    /// The time of the request, in milliseconds since 1970.
    pub at: i64,
    pub finish: Value,
}

/// The latest first, without those of conversations in the trash, and without imported and copied ones.
pub fn list(connection: &Connection, max_turns: usize) -> Result<Vec<RecentTurn>, TranscriptError> {
    let mut select = connection.prepare_cached(
        "SELECT conversation, title, messages.id, parent, messages.created_at, finish
         FROM messages JOIN conversations ON conversations.id = conversation
         WHERE finish IS NOT NULL AND status = 'complete' AND finish ->> '$.imported' IS NULL
             AND trashed_at IS NULL
         ORDER BY messages.created_at DESC, messages.id DESC LIMIT ?1",
    )?;
    let rows = select.query_map([max_turns], |row| {
        Ok(RecentTurn {
            conversation: row.get(0)?,
            title: row.get(1)?,
            message: row.get(2)?,
            parent: row.get(3)?,
            at: row.get(4)?,
            finish: serde_json::from_str(&row.get::<_, String>(5)?).unwrap_or_default(),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
