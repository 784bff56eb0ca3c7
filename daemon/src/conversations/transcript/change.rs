//! Changes a conversation's title, pin, trash, head and sampling, and deletes conversations.
//!
//! - A change is not a use: `updated_at`, and so the order of the list, stays the same.
//! - A conversation in the trash is complete. [`delete_trashed`] deletes it, unless it was restored
//!   meanwhile.

use std::collections::BTreeSet;

use hob_slots::{ConversationId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

use super::read::check_message;
use super::tree::millis;
use super::{TranscriptError, library, write_ahead_log};
use crate::wire::document::DocumentId;

/// The new values; `None` keeps the old one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    pub title: Option<String>,
    pub pinned: Option<bool>,
    pub trashed: Option<bool>,
    /// The branch through this message becomes the one that was used last.
    pub head: Option<i64>,
    /// Parameters of its answers, as a JSON object; without fields, none are set.
    pub sampling: Option<Value>,
    /// What stands in front of the conversation, in place of its own system messages.
    pub instructions: Option<String>,
}

/// A conversation in the trash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trashed {
    pub conversation: ConversationId,
    /// When it was put there.
    pub since: Timestamp,
}

impl Change {
    /// Whether another daemon that takes the conversation over needs it.
    pub fn changes_text(&self) -> bool {
        let Self { title, head, sampling, instructions, pinned: _, trashed: _ } = self;
        title.is_some() || head.is_some() || sampling.is_some() || instructions.is_some()
    }
}

/// See [`super::Transcript::change`].
pub fn apply(
    connection: &mut Connection,
    conversation: &ConversationId,
    change: &Change,
    now: Timestamp,
) -> Result<bool, TranscriptError> {
    let transaction = connection.transaction()?;
    let exists: Option<i64> = transaction
        .prepare_cached("SELECT 1 FROM conversations WHERE id = ?1")?
        .query_row([conversation.as_str()], |row| row.get(0))
        .optional()?;
    if exists.is_none() {
        return Ok(false);
    }
    let head = match change.head {
        Some(id) => {
            Some(latest_below(&transaction, check_message(&transaction, conversation, id)?)?)
        }
        None => None,
    };
    transaction
        .prepare_cached(
            "UPDATE conversations SET
                 title = coalesce(?2, title),
                 pinned = coalesce(?3, pinned),
                 trashed_at = CASE ?4 WHEN 1 THEN coalesce(trashed_at, ?5)
                                      WHEN 0 THEN NULL
                                      ELSE trashed_at END,
                 head = coalesce(?6, head),
                 sampling = CASE WHEN ?7 IS NULL THEN sampling ELSE nullif(?7, '{}') END,
                 instructions = coalesce(?8, instructions)
             WHERE id = ?1",
        )?
        .execute(params![
            conversation.as_str(),
            change.title,
            change.pinned,
            change.trashed,
            millis(now),
            head,
            change.sampling.as_ref().map(Value::to_string),
            change.instructions,
        ])?;
    transaction.commit()?;
    Ok(true)
}

/// The newest of `id` and its descendants: where the branch was used last.
pub(super) fn latest_below(connection: &Connection, id: i64) -> Result<i64, TranscriptError> {
    let latest = connection
        .prepare_cached(
            "WITH RECURSIVE below (id, conversation) AS (
                 SELECT id, conversation FROM messages WHERE id = ?1
                 UNION ALL
                 SELECT messages.id, messages.conversation FROM below JOIN messages
                     ON messages.conversation = below.conversation AND messages.parent = below.id
             ) SELECT max(id) FROM below",
        )?
        .query_row([id], |row| row.get(0))?;
    Ok(latest)
}

/// The trash, the oldest first.
pub fn trash(connection: &Connection) -> Result<Vec<Trashed>, TranscriptError> {
    let mut select = connection.prepare_cached(
        "SELECT id, trashed_at FROM conversations WHERE trashed_at IS NOT NULL ORDER BY trashed_at",
    )?;
    let rows = select.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
    let rows = rows.collect::<Result<Vec<_>, _>>()?.into_iter();
    let trashed = |(id, at): (String, i64)| {
        let since = Timestamp(u64::try_from(at).unwrap_or(0));
        Some(Trashed { conversation: ConversationId::new(&id).ok()?, since })
    };
    Ok(rows.filter_map(trashed).collect())
}

/// Deletes a conversation unless it was restored meanwhile. `elsewhere`: as for [`delete`].
pub fn delete_trashed(
    connection: &mut Connection,
    trashed: &Trashed,
    elsewhere: &BTreeSet<DocumentId>,
) -> Result<bool, TranscriptError> {
    // Only this thread changes the database: the row is the same in the next statement.
    if is_still_trashed(connection, trashed)? {
        delete(connection, &trashed.conversation, elsewhere)
    } else {
        Ok(false)
    }
}

/// Whether the conversation was not restored since.
pub fn is_still_trashed(
    connection: &Connection,
    trashed: &Trashed,
) -> Result<bool, TranscriptError> {
    let mut select = connection
        .prepare_cached("SELECT 1 FROM conversations WHERE id = ?1 AND trashed_at = ?2")?;
    Ok(select.exists((trashed.conversation.as_str(), millis(trashed.since)))?)
}

/// Deletes a conversation with every branch; `false` if the id is unknown. `elsewhere`: documents that the other
/// database names, which stay.
pub fn delete(
    connection: &mut Connection,
    conversation: &ConversationId,
    elsewhere: &BTreeSet<DocumentId>,
) -> Result<bool, TranscriptError> {
    let transaction = connection.transaction()?;
    let id = conversation.as_str();
    transaction.execute("DELETE FROM tokens WHERE conversation = ?1", [id])?;
    transaction.execute("DELETE FROM branches WHERE conversation = ?1", [id])?;
    transaction.execute("DELETE FROM explanations WHERE conversation = ?1", [id])?;
    transaction.execute(
        "DELETE FROM words WHERE rowid IN (SELECT id FROM messages WHERE conversation = ?1)",
        [id],
    )?;
    library::delete_all(&transaction, &library::only_of(&transaction, conversation, elsewhere)?)?;
    // Deleting cascades from parent to child, and SQLite limits the depth to 1,000.
    transaction.execute("UPDATE messages SET parent = NULL WHERE conversation = ?1", [id])?;
    let deleted = transaction.execute("DELETE FROM conversations WHERE id = ?1", [id])?;
    transaction.commit()?;
    write_ahead_log::empty(connection);
    Ok(deleted == 1)
}
