//! Changes single messages: another text for one, its pin, deletion with what follows it, a copy of a beginning.
//!
//! - Another text is a sibling: the old one stays.
//! - Deleted messages are out of every answer, list and search at once. For an hour they can be
//!   restored; then [`purge`] deletes them.
//! - Nothing changes while the conversation is being answered.

use hob_slots::{ConversationId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::change::latest_below;
use super::import::unused_id;
use super::read::{check_idle, check_message, child_like, head};
use super::tree::{insert, millis, set_head};
use super::writer::Pending;
use super::{Status, Transcript, TranscriptError, answer_ends, write_ahead_log};
use crate::wire::label::Label;
use crate::wire::message::Message;

/// What a deletion or its undoing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// How many messages.
    pub messages: usize,
    /// The last message of the branch that is shown now.
    pub head: Option<i64>,
}

/// Messages that were deleted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedMessages {
    pub conversation: ConversationId,
    pub deletion: i64,
    pub since: Timestamp,
}

/// A copy of the beginning of a conversation.
#[derive(Clone, Debug)]
pub struct Fork {
    pub from: ConversationId,
    /// The last message of the copy.
    pub message: i64,
    /// The id of the copy, or the beginning of it.
    pub wanted: ConversationId,
    /// `None`: the title of the original.
    pub title: Option<String>,
}

/// The messages from ?1 on.
const BELOW: &str = "WITH RECURSIVE below (id, conversation) AS (
         SELECT id, conversation FROM messages WHERE id = ?1
         UNION ALL
         SELECT messages.id, messages.conversation FROM below JOIN messages
             ON messages.conversation = below.conversation AND messages.parent = below.id
     )";

const COLUMNS: &str = "id, conversation, parent, role, content, status, created_at, finish, starts_prompt, summary, brings";

impl Transcript {
    /// Gives a message another text, as a sibling. Returns its id.
    pub fn edit_message(
        &self,
        conversation: &ConversationId,
        message: i64,
        text: String,
        now: Timestamp,
    ) -> Pending<i64> {
        let (id, writer) = (conversation.clone(), self.writer_of(conversation));
        writer.write_change(move |connection| edit(connection, &id, message, &text, now))
    }

    /// Sets the pin of a message's label.
    pub fn pin_message(
        &self,
        conversation: &ConversationId,
        message: i64,
        pinned: bool,
    ) -> Pending<()> {
        let (id, writer) = (conversation.clone(), self.writer_of(conversation));
        writer.write_change(move |connection| pin(connection, &id, message, pinned))
    }

    /// Deletes a message and all that follow it; they can be restored until they are purged.
    pub fn delete_message(
        &self,
        conversation: &ConversationId,
        message: i64,
        now: Timestamp,
    ) -> Pending<Moved> {
        let (id, writer) = (conversation.clone(), self.writer_of(conversation));
        writer.write_change(move |connection| delete(connection, &id, message, now))
    }

    pub fn restore_message(&self, conversation: &ConversationId, message: i64) -> Pending<Moved> {
        let (id, writer) = (conversation.clone(), self.writer_of(conversation));
        writer.write_change(move |connection| restore(connection, &id, message))
    }

    /// The messages that were deleted and can be restored.
    pub fn deleted_messages(&self) -> Pending<Vec<DeletedMessages>> {
        self.read_both(|connection| deleted(connection))
    }

    /// Deletes the text and the timelines of deleted messages.
    pub fn purge_messages(&self, deleted: &DeletedMessages) -> Pending<()> {
        let DeletedMessages { conversation, deletion, .. } = deleted.clone();
        let writer = self.writer_of(&conversation).clone();
        writer.write(move |connection| purge(connection, &conversation, deletion))
    }

    /// Copies the beginning of a conversation that is on disk.
    pub fn fork(&self, fork: Fork, now: Timestamp) -> Pending<ConversationId> {
        let private = self.private.clone();
        self.writer.write_change(move |connection| {
            self::fork(connection, &fork, |id| private.has(id), now)
        })
    }
}

/// Gives a message another text, as a sibling that becomes the head. Returns its id.
fn edit(
    connection: &mut Connection,
    conversation: &ConversationId,
    id: i64,
    text: &str,
    now: Timestamp,
) -> Result<i64, TranscriptError> {
    let transaction = connection.transaction()?;
    check_message(&transaction, conversation, id)?;
    check_idle(&transaction, conversation)?;
    let (parent, content): (Option<i64>, String) = transaction
        .prepare_cached("SELECT parent, content FROM messages WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let message = Message::from_stored(&content).ok_or(TranscriptError::NoSuchMessage { id })?;
    let message = message.with_text(text);
    let edited = match child_like(&transaction, conversation, parent, &message)? {
        Some(same) => same,
        None => insert(&transaction, conversation, parent, &message, Status::Complete, now)?,
    };
    let head = latest_below(&transaction, edited)?;
    set_head(&transaction, conversation, Some(head))?;
    transaction.commit()?;
    Ok(edited)
}

/// Sets the pin of a message's label, in place: the label is no part of the text.
fn pin(
    connection: &mut Connection,
    conversation: &ConversationId,
    id: i64,
    pinned: bool,
) -> Result<(), TranscriptError> {
    let transaction = connection.transaction()?;
    check_message(&transaction, conversation, id)?;
    check_idle(&transaction, conversation)?;
    let content: String = transaction
        .prepare_cached("SELECT content FROM messages WHERE id = ?1")?
        .query_row([id], |row| row.get(0))?;
    let message = Message::from_stored(&content).ok_or(TranscriptError::NoSuchMessage { id })?;
    let label = Label { pin: pinned.then_some(true), ..message.label() };
    let content = message.labelled(&label).to_json().to_string();
    transaction.execute("UPDATE messages SET content = ?2 WHERE id = ?1", (id, content))?;
    transaction.commit()?;
    Ok(())
}

/// Deletes a message and all that follow it, on every branch.
fn delete(
    connection: &mut Connection,
    conversation: &ConversationId,
    id: i64,
    now: Timestamp,
) -> Result<Moved, TranscriptError> {
    let transaction = connection.transaction()?;
    check_message(&transaction, conversation, id)?;
    check_idle(&transaction, conversation)?;
    let messages = transaction.execute(
        &format!(
            "INSERT INTO deleted_messages ({COLUMNS}, deletion, deleted_at)
             {BELOW} SELECT {COLUMNS}, ?1, ?2 FROM messages WHERE id IN (SELECT id FROM below)"
        ),
        (id, millis(now)),
    )?;
    const DELETED: &str = "(SELECT id FROM deleted_messages WHERE deletion = ?1)";
    let parent: Option<i64> =
        transaction
            .query_row("SELECT parent FROM messages WHERE id = ?1", [id], |row| row.get(0))?;
    let shown = head(&transaction, conversation)?;
    let is_shown: bool =
        transaction.query_row(&format!("SELECT ?2 IN {DELETED}"), params![id, shown], |row| {
            row.get::<_, Option<bool>>(0).map(Option::unwrap_or_default)
        })?;
    let head = if is_shown { other_head(&transaction, conversation, parent, id)? } else { shown };
    transaction.execute(
        "UPDATE conversations SET head = ?2, message_count = message_count - ?3 WHERE id = ?1",
        params![conversation.as_str(), head, i64::try_from(messages).unwrap_or(0)],
    )?;
    transaction.execute(&format!("DELETE FROM words WHERE rowid IN {DELETED}"), [id])?;
    // Deleting cascades from parent to child, and SQLite limits the depth to 1,000.
    transaction
        .execute(&format!("UPDATE messages SET parent = NULL WHERE id IN {DELETED}"), [id])?;
    transaction.execute(&format!("DELETE FROM messages WHERE id IN {DELETED}"), [id])?;
    transaction.commit()?;
    Ok(Moved { messages, head })
}

/// Brings back what was deleted with the message `id`.
fn restore(
    connection: &mut Connection,
    conversation: &ConversationId,
    id: i64,
) -> Result<Moved, TranscriptError> {
    let transaction = connection.transaction()?;
    check_idle(&transaction, conversation)?;
    // Its parent may have been deleted since.
    let has_place: Option<bool> = transaction
        .prepare_cached(
            "SELECT parent IS NULL OR parent IN (SELECT id FROM messages)
             FROM deleted_messages WHERE id = ?1 AND conversation = ?2 AND deletion = ?1",
        )?
        .query_row((id, conversation.as_str()), |row| row.get(0))
        .optional()?;
    if has_place != Some(true) {
        return Err(TranscriptError::NoSuchMessage { id });
    }
    let messages = transaction.execute(
        &format!(
            "INSERT INTO messages ({COLUMNS})
             SELECT {COLUMNS} FROM deleted_messages WHERE deletion = ?1 ORDER BY id"
        ),
        [id],
    )?;
    transaction.execute("DELETE FROM deleted_messages WHERE deletion = ?1", [id])?;
    let head = latest_below(&transaction, id)?;
    set_head(&transaction, conversation, Some(head))?;
    transaction.commit()?;
    Ok(Moved { messages, head: Some(head) })
}

/// What was deleted, the oldest first.
fn deleted(connection: &Connection) -> Result<Vec<DeletedMessages>, TranscriptError> {
    let mut select = connection.prepare_cached(
        "SELECT conversation, deletion, max(deleted_at) FROM deleted_messages
         GROUP BY conversation, deletion ORDER BY 3",
    )?;
    let rows = select
        .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get::<_, i64>(2)?)))?;
    let rows = rows.collect::<Result<Vec<_>, _>>()?.into_iter();
    let deleted = rows.filter_map(|(conversation, deletion, at)| {
        let conversation = ConversationId::new(&conversation).ok()?;
        let since = Timestamp(u64::try_from(at).unwrap_or(0));
        Some(DeletedMessages { conversation, deletion, since })
    });
    Ok(deleted.collect())
}

/// Deletes what can no longer be restored, and the timelines that spell it.
fn purge(
    connection: &mut Connection,
    conversation: &ConversationId,
    deletion: i64,
) -> Result<(), TranscriptError> {
    let transaction = connection.transaction()?;
    let id = conversation.as_str();
    transaction.execute(
        "DELETE FROM deleted_messages WHERE conversation = ?1 AND deletion = ?2",
        (id, deletion),
    )?;
    transaction.execute("DELETE FROM tokens WHERE conversation = ?1", [id])?;
    transaction.execute("DELETE FROM branches WHERE conversation = ?1", [id])?;
    transaction.execute("DELETE FROM explanations WHERE conversation = ?1", [id])?;
    transaction.commit()?;
    write_ahead_log::empty(connection);
    Ok(())
}

/// Copies a conversation up to a message, with the part of its timelines that its KV is found by.
fn fork(
    connection: &mut Connection,
    fork: &Fork,
    is_private: impl Fn(&ConversationId) -> bool,
    now: Timestamp,
) -> Result<ConversationId, TranscriptError> {
    let transaction = connection.transaction()?;
    check_message(&transaction, &fork.from, fork.message)?;
    let id = unused_id(&transaction, &fork.wanted, is_private)?;
    transaction.execute(
        "INSERT INTO conversations (id, title, created_at, updated_at, sampling, instructions)
         SELECT ?1, coalesce(?2, title), ?3, ?3, sampling, instructions FROM conversations WHERE id = ?4",
        params![id.as_str(), fork.title, millis(now), fork.from.as_str()],
    )?;
    let (mut head, mut path): (Option<i64>, Vec<(i64, i64)>) = (None, Vec::new());
    for message in path_to(&transaction, fork.message)? {
        transaction
            .prepare_cached(
                "INSERT INTO messages
                     (conversation, parent, role, content, status, created_at, finish,
                      starts_prompt, summary, brings)
                 SELECT ?1, ?2, role, content,
                     CASE status WHEN 'streaming' THEN 'interrupted' ELSE status END,
                     created_at, json_set(finish, '$.imported', json('true')), starts_prompt, summary, brings
                 FROM messages WHERE id = ?3",
            )?
            .execute(params![id.as_str(), head, message])?;
        path.push((message, transaction.last_insert_rowid()));
        head = Some(transaction.last_insert_rowid());
    }
    set_head(&transaction, &id, head)?;
    answer_ends::copy(&transaction, &fork.from, &id, &path, now)?;
    transaction.commit()?;
    Ok(id)
}

/// The ids from the first message to this one.
fn path_to(connection: &Connection, message: i64) -> Result<Vec<i64>, TranscriptError> {
    let mut select = connection.prepare_cached("SELECT parent FROM messages WHERE id = ?1")?;
    let mut path = vec![message];
    while let Some(parent) = select.query_row([path[path.len() - 1]], |row| row.get(0))? {
        path.push(parent);
    }
    path.reverse();
    Ok(path)
}

/// What is shown when the branch through a message is gone: the newest branch beside it, or what
/// was before it.
fn other_head(
    connection: &Connection,
    conversation: &ConversationId,
    parent: Option<i64>,
    gone: i64,
) -> Result<Option<i64>, TranscriptError> {
    let beside: Option<i64> = connection
        .prepare_cached(
            "SELECT max(id) FROM messages
             WHERE conversation = ?1 AND parent IS ?2 AND id <> ?3",
        )?
        .query_row(params![conversation.as_str(), parent, gone], |row| row.get(0))?;
    match beside {
        Some(beside) => Ok(Some(latest_below(connection, beside)?)),
        None => Ok(parent),
    }
}
