//! What is changed about a conversation without speaking in it.
//!
//! - None of it is a use: the order of the list stays as it is.
//! - The trash hides and keeps. What lies there leaves through [`remove_trashed`] alone, which looks
//!   once more, so that nothing goes that was taken out meanwhile.

use hob_slots::{ConversationId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::TranscriptError;
use super::tree::{known, millis};

/// What to change; `None` leaves it as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Its title.
    pub title: Option<String>,
    /// Whether it is held in front of the others.
    pub pinned: Option<bool>,
    /// Whether it lies in the trash.
    pub trashed: Option<bool>,
    /// The branch through this message becomes the one that was used last.
    pub head: Option<i64>,
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
        Some(id) => Some(latest_below(&transaction, known(&transaction, conversation, id)?)?),
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
                 head = coalesce(?6, head)
             WHERE id = ?1",
        )?
        .execute(params![
            conversation.as_str(),
            change.title,
            change.pinned,
            change.trashed,
            millis(now),
            head,
        ])?;
    transaction.commit()?;
    Ok(true)
}

/// The newest of `id` and all that follow on it: where its branch was used last.
fn latest_below(connection: &Connection, id: i64) -> Result<i64, TranscriptError> {
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

/// What lies in the trash, and since when.
pub fn trash(connection: &Connection) -> Result<Vec<(ConversationId, Timestamp)>, TranscriptError> {
    let mut select = connection.prepare_cached(
        "SELECT id, trashed_at FROM conversations WHERE trashed_at IS NOT NULL ORDER BY trashed_at",
    )?;
    let rows = select.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
    let rows = rows.collect::<Result<Vec<_>, _>>()?.into_iter();
    let since = |at: i64| Timestamp(u64::try_from(at).unwrap_or(0));
    Ok(rows.filter_map(|(id, at)| Some((ConversationId::new(&id).ok()?, since(at)))).collect())
}

/// Deletes a conversation, if it has lain in the trash ever since; `false` when it has not.
pub fn remove_trashed(
    connection: &mut Connection,
    conversation: &ConversationId,
    since: Timestamp,
) -> Result<bool, TranscriptError> {
    let still: Option<i64> = connection
        .prepare_cached("SELECT 1 FROM conversations WHERE id = ?1 AND trashed_at = ?2")?
        .query_row((conversation.as_str(), millis(since)), |row| row.get(0))
        .optional()?;
    // Only this thread changes the database, so nothing comes in between.
    if still.is_none() { Ok(false) } else { remove(connection, conversation) }
}

/// Deletes a conversation with every branch; `false` when there is none of that name.
pub fn remove(
    connection: &mut Connection,
    conversation: &ConversationId,
) -> Result<bool, TranscriptError> {
    let transaction = connection.transaction()?;
    let id = conversation.as_str();
    transaction.execute("DELETE FROM tokens WHERE conversation = ?1", [id])?;
    transaction.execute("DELETE FROM explanations WHERE conversation = ?1", [id])?;
    transaction.execute(
        "DELETE FROM words WHERE rowid IN (SELECT id FROM messages WHERE conversation = ?1)",
        [id],
    )?;
    // Else each message takes the next one with it, and SQLite follows no chain of a thousand.
    transaction.execute("UPDATE messages SET parent = NULL WHERE conversation = ?1", [id])?;
    let deleted = transaction.execute("DELETE FROM conversations WHERE id = ?1", [id])?;
    transaction.commit()?;
    Ok(deleted == 1)
}
