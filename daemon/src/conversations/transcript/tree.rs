//! Grows the tree of messages.
//!
//! - One transaction per request: the new messages, the open answer, the head and the instructions, or
//!   nothing.
//! - An equal message below the same parent is not stored a second time.
//! - Every request gets its own answer row; an older answer stays as a sibling.

use hob_slots::{ConversationId, Timestamp};
use rusqlite::{Connection, params};

use super::continuation::{Continuation, Continued};
use super::read::check_message;
use super::titles::title;
use super::{Status, TranscriptError};
use crate::wire::message::Message;

/// The open answer of a request, and the message that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grown {
    pub answer: i64,
    pub parent: i64,
}

/// See [`super::Transcript::sync`].
pub fn sync(
    connection: &mut Connection,
    conversation: &ConversationId,
    messages: &[Message],
    now: Timestamp,
) -> Result<Grown, TranscriptError> {
    let transaction = connection.transaction()?;
    let grown = grow(&transaction, conversation, None, messages, None, now)?;
    transaction.commit()?;
    Ok(grown)
}

/// Lets later prompts begin with a message, behind the instructions and a summary of the older ones.
pub fn start_saved(
    connection: &Connection,
    conversation: &ConversationId,
    start: i64,
    summary: Option<&str>,
) -> Result<(), TranscriptError> {
    start_prompts(connection, check_message(connection, conversation, start)?, summary)
}

/// See [`super::Transcript::append`].
pub fn append(
    connection: &mut Connection,
    conversation: &ConversationId,
    continuation: &Continuation,
    now: Timestamp,
) -> Result<Grown, TranscriptError> {
    let Continuation { history, base, new, start, summary, instructions, continued, .. } =
        continuation;
    let place = |start: usize| match continuation.saved(start) {
        Some(id) => Place::Saved(id),
        None => Place::New(start + new.len() - history.len()), // They are at its end.
    };
    let start = start.map(|start| Start { place: place(start), summary: summary.as_deref() });
    let transaction = connection.transaction()?;
    let grown = match continued {
        Some(Continued { id, .. }) => reopen(&transaction, conversation, *id, *base, start, now)?,
        None => grow(&transaction, conversation, *base, new, start, now)?,
    };
    if let Some(instructions) = instructions {
        transaction
            .prepare_cached("UPDATE conversations SET instructions = ?2 WHERE id = ?1")?
            .execute((conversation.as_str(), instructions))?;
    }
    transaction.commit()?;
    Ok(grown)
}

/// The message with which later prompts begin, and the summary of those before it.
#[derive(Clone, Copy)]
struct Start<'s> {
    place: Place,
    summary: Option<&'s str>,
}

#[derive(Clone, Copy)]
enum Place {
    Saved(i64),
    /// By its place among the new messages.
    New(usize),
}

fn grow(
    connection: &Connection,
    conversation: &ConversationId,
    base: Option<i64>,
    messages: &[Message],
    start: Option<Start<'_>>,
    now: Timestamp,
) -> Result<Grown, TranscriptError> {
    connection
        .prepare_cached(
            "INSERT INTO conversations (id, created_at, updated_at) VALUES (?1, ?2, ?2)
             ON CONFLICT DO UPDATE SET updated_at = excluded.updated_at, trashed_at = NULL",
        )?
        .execute((conversation.as_str(), millis(now)))?;
    let mut at = base;
    if let Some(Start { place: Place::Saved(id), summary }) = start {
        start_prompts(connection, id, summary)?;
    }
    for (n, message) in messages.iter().enumerate() {
        at = Some(match child_like(connection, conversation, at, message)? {
            Some(id) => id,
            None => insert(connection, conversation, at, message, Status::Complete, now)?,
        });
        if let (Some(Start { place: Place::New(place), summary }), Some(id)) = (start, at)
            && place == n
        {
            start_prompts(connection, id, summary)?;
        }
    }
    let parent = at.ok_or(TranscriptError::NothingToAnswer)?;
    let empty = Message::answer("", "", &[]);
    let answer = insert(connection, conversation, at, &empty, Status::Streaming, now)?;
    connection
        .prepare_cached(
            "UPDATE conversations SET head = ?2, title = coalesce(title, ?3) WHERE id = ?1",
        )?
        .execute((conversation.as_str(), answer, title(messages)))?;
    Ok(Grown { answer, parent })
}

/// Opens an answer once more.
fn reopen(
    connection: &Connection,
    conversation: &ConversationId,
    answer: i64,
    parent: Option<i64>,
    start: Option<Start<'_>>,
    now: Timestamp,
) -> Result<Grown, TranscriptError> {
    let parent = parent.ok_or(TranscriptError::NothingToContinue)?;
    check_message(connection, conversation, answer)?;
    if let Some(Start { place: Place::Saved(id), summary }) = start {
        start_prompts(connection, id, summary)?;
    }
    connection
        .prepare_cached("UPDATE messages SET status = 'streaming', finish = NULL WHERE id = ?1")?
        .execute([answer])?;
    connection
        .prepare_cached(
            "UPDATE conversations SET head = ?2, updated_at = max(updated_at, ?3),
                 trashed_at = NULL WHERE id = ?1",
        )?
        .execute((conversation.as_str(), answer, millis(now)))?;
    Ok(Grown { answer, parent })
}

fn start_prompts(
    connection: &Connection,
    id: i64,
    summary: Option<&str>,
) -> Result<(), TranscriptError> {
    connection
        .prepare_cached("UPDATE messages SET starts_prompt = 1, summary = ?2 WHERE id = ?1")?
        .execute((id, summary))?;
    Ok(())
}

/// The latest child of `parent` that equals `message`.
pub(super) fn child_like(
    connection: &Connection,
    conversation: &ConversationId,
    parent: Option<i64>,
    message: &Message,
) -> Result<Option<i64>, TranscriptError> {
    let mut children = connection.prepare_cached(
        "SELECT id, content FROM messages
         WHERE conversation = ?1 AND parent IS ?2 AND role = ?3 AND status <> 'streaming'
         ORDER BY id DESC",
    )?;
    let mut rows = children.query((conversation.as_str(), parent, message.role.as_str()))?;
    while let Some(row) = rows.next()? {
        let content: String = row.get(1)?;
        if Message::from_stored(&content).is_some_and(|stored| stored.is_same(message)) {
            return Ok(Some(row.get(0)?));
        }
    }
    Ok(None)
}

pub(super) fn insert(
    connection: &Connection,
    conversation: &ConversationId,
    parent: Option<i64>,
    message: &Message,
    status: Status,
    now: Timestamp,
) -> Result<i64, TranscriptError> {
    connection
        .prepare_cached(
            "INSERT INTO messages (conversation, parent, role, content, status, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            conversation.as_str(),
            parent,
            message.role.as_str(),
            message.to_json().to_string(),
            status.as_str(),
            millis(now),
        ])?;
    Ok(connection.last_insert_rowid())
}

/// SQLite's integers are signed.
pub fn millis(time: Timestamp) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}
