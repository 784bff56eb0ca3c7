//! The latest answers over all conversations, and how each of them came about.

use rusqlite::Connection;
use serde_json::Value;

use super::TranscriptError;

/// An answer that is complete.
#[derive(Clone, Debug, PartialEq)]
pub struct RecentTurn {
    /// Whose it is.
    pub conversation: String,
    /// And what that is called.
    pub title: Option<String>,
    /// The row of the answer.
    pub message: i64,
    /// What it answers.
    pub parent: Option<i64>,
    /// When it was asked for: milliseconds since 1970.
    pub at: i64,
    /// How it ended, as it was stored.
    pub finish: Value,
}

/// The latest first; none of what lies in the trash.
pub fn list(connection: &Connection, most: usize) -> Result<Vec<RecentTurn>, TranscriptError> {
    let mut select = connection.prepare_cached(
        "SELECT conversation, title, messages.id, parent, messages.created_at, finish
         FROM messages JOIN conversations ON conversations.id = conversation
         WHERE finish IS NOT NULL AND trashed_at IS NULL
         ORDER BY messages.created_at DESC, messages.id DESC LIMIT ?1",
    )?;
    let rows = select.query_map([most], |row| {
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
