//! Grows the tree of messages.
//!
//! - One transaction per request: the new messages, the open answer, the head and the instructions, or
//!   nothing.
//! - An equal message below the same parent is not stored a second time.
//! - Every request gets its own answer row; an older answer stays as a sibling.

use hob_slots::{ConversationId, Timestamp};
use rusqlite::{Connection, params};

use super::continuation::{Continuation, Continued, open_calls};
use super::read::{check_idle, check_message, child_like, head};
use super::titles::title;
use super::{Status, TranscriptError};
use crate::wire::call_ids::OpenCalls;
use crate::wire::message::{Message, is_made_id};

/// The rows of an open answer and of the message that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerRows {
    pub answer: i64,
    pub parent: i64,
}

/// See [`super::Transcript::sync`].
pub fn sync(
    connection: &mut Connection,
    conversation: &ConversationId,
    messages: &[Message],
    now: Timestamp,
) -> Result<AnswerRows, TranscriptError> {
    let transaction = connection.transaction()?;
    let rows = open_answer(&transaction, conversation, None, messages, &[], now)?;
    transaction.commit()?;
    Ok(rows)
}

/// See [`super::Transcript::shorten`].
pub fn shorten(
    connection: &mut Connection,
    conversation: &ConversationId,
    continuation: &Continuation,
) -> Result<(), TranscriptError> {
    let marks = marks(continuation);
    let transaction = connection.transaction()?;
    for mark in &marks {
        if let Place::Saved(id) = mark.place {
            check_still_there(&transaction, conversation, id)?;
        }
    }
    Mark::write_saved(&marks, &transaction)?;
    transaction.commit()?;
    Ok(())
}

/// Checks a message that was read before the prompt was rendered: users may have deleted it since.
fn check_still_there(
    connection: &Connection,
    conversation: &ConversationId,
    id: i64,
) -> Result<(), TranscriptError> {
    match check_message(connection, conversation, id) {
        Ok(_) => Ok(()),
        Err(TranscriptError::NoSuchMessage { .. }) => Err(TranscriptError::MessageDeleted),
        Err(error) => Err(error),
    }
}

/// See [`super::Transcript::append`].
pub fn append(
    connection: &mut Connection,
    conversation: &ConversationId,
    continuation: &Continuation,
    now: Timestamp,
) -> Result<AnswerRows, TranscriptError> {
    let Continuation { base, new, instructions, continued, .. } = continuation;
    let marks = marks(continuation);
    let transaction = connection.transaction()?;
    let rows = match continued {
        Some(Continued { id, .. }) => reopen(&transaction, conversation, *id, *base, &marks, now)?,
        None => open_answer(&transaction, conversation, *base, new, &marks, now)?,
    };
    if let Some(instructions) = instructions {
        transaction
            .prepare_cached("UPDATE conversations SET instructions = ?2 WHERE id = ?1")?
            .execute((conversation.as_str(), instructions))?;
    }
    transaction.commit()?;
    Ok(rows)
}

/// What later prompts have, where that changes.
fn marks(continuation: &Continuation) -> Vec<Mark<'_>> {
    let Continuation { branch, saved, summary, changed, system_messages, .. } = continuation;
    let Some(window) = changed else { return Vec::new() };
    let place = |place: usize| match saved.get(place) {
        Some(id) => Place::Saved(*id),
        None => Place::New(place + continuation.new.len() - branch.messages.len()),
    };
    let start = (window.start > branch.window.start).then(|| Mark {
        place: place(window.start),
        kind: MarkKind::Starts { summary: summary.as_deref() },
    });
    let brings =
        window.brought.iter().filter(|(at, brings)| branch.window.in_front(**at) != **brings);
    let brings = brings.map(|(at, brings)| {
        let stored: Vec<usize> = brings.iter().map(|place| place + system_messages).collect();
        let stored = serde_json::to_string(&stored).expect("numbers are JSON");
        Mark { place: place(*at), kind: MarkKind::Brings(stored) }
    });
    start.into_iter().chain(brings).collect()
}

/// Says of a message what prompts have in front of it.
struct Mark<'s> {
    place: Place,
    kind: MarkKind<'s>,
}

enum MarkKind<'s> {
    /// Later prompts begin with it, behind the instructions and a summary of the older messages.
    Starts { summary: Option<&'s str> },
    /// Older messages stand in front of it: their places on its branch, as JSON.
    Brings(String),
}

impl Mark<'_> {
    fn write(&self, connection: &Connection, id: i64) -> Result<(), TranscriptError> {
        match &self.kind {
            MarkKind::Starts { summary } => start_prompts(connection, id, *summary)?,
            MarkKind::Brings(places) => {
                let sql = "UPDATE messages SET brings = ?2 WHERE id = ?1";
                connection.prepare_cached(sql)?.execute((id, places))?;
            }
        }
        Ok(())
    }

    /// Writes those of messages that are saved.
    fn write_saved(marks: &[Self], connection: &Connection) -> Result<(), TranscriptError> {
        for mark in marks {
            if let Place::Saved(id) = mark.place {
                mark.write(connection, id)?;
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Place {
    Saved(i64),
    /// By its place among the new messages.
    New(usize),
}

/// Adds the messages behind `base` that are not there yet, and an empty answer behind them.
fn open_answer(
    connection: &Connection,
    conversation: &ConversationId,
    base: Option<i64>,
    messages: &[Message],
    marks: &[Mark<'_>],
    now: Timestamp,
) -> Result<AnswerRows, TranscriptError> {
    if let Some(base) = base {
        check_still_there(connection, conversation, base)?;
    }
    begin(connection, conversation, now)?;
    let mut at = base;
    Mark::write_saved(marks, connection)?;
    let mut calls = CallsBefore::default();
    for (n, message) in messages.iter().enumerate() {
        let id = match child_like(connection, conversation, at, message)? {
            Some(id) => id,
            None => {
                let message = calls.add(connection, at, message)?;
                insert(connection, conversation, at, &message, Status::Complete, now)?
            }
        };
        for mark in marks {
            if matches!(mark.place, Place::New(place) if place == n) {
                mark.write(connection, id)?;
            }
        }
        at = Some(id);
    }
    let parent = at.ok_or(TranscriptError::NothingToAnswer)?;
    let empty = Message::answer("", "", &[]);
    let answer = insert(connection, conversation, at, &empty, Status::Streaming, now)?;
    set_head_and_title(connection, conversation, Some(answer), messages)?;
    Ok(AnswerRows { answer, parent })
}

/// The open calls in front of new messages, once one of these needs them.
#[derive(Default)]
struct CallsBefore(Option<OpenCalls>);

impl CallsBefore {
    /// The next new message, behind `at`, with the id of the stored call that it answers.
    fn add(
        &mut self,
        connection: &Connection,
        at: Option<i64>,
        message: &Message,
    ) -> Result<Message, TranscriptError> {
        if self.0.is_none() && message.answered_call().is_some_and(is_made_id) {
            self.0 = Some(open_calls(connection, at)?);
        }
        let message = message.clone();
        Ok(match &mut self.0 {
            Some(calls) => calls.add(message),
            None => message,
        })
    }
}

/// Adds messages behind those of the branch that is shown, with no answer. Returns their ids.
pub fn add(
    connection: &mut Connection,
    conversation: &ConversationId,
    messages: &[Message],
    now: Timestamp,
) -> Result<Vec<i64>, TranscriptError> {
    let transaction = connection.transaction()?;
    check_idle(&transaction, conversation)?;
    begin(&transaction, conversation, now)?;
    let mut head = head(&transaction, conversation)?;
    let mut added = Vec::with_capacity(messages.len());
    for message in messages {
        let id = insert(&transaction, conversation, head, message, Status::Complete, now)?;
        head = Some(id);
        added.push(id);
    }
    set_head_and_title(&transaction, conversation, head, messages)?;
    transaction.commit()?;
    Ok(added)
}

/// The branch to `head` becomes the one that was used last.
pub(super) fn set_head(
    connection: &Connection,
    conversation: &ConversationId,
    head: Option<i64>,
) -> Result<(), TranscriptError> {
    connection
        .prepare_cached("UPDATE conversations SET head = ?2 WHERE id = ?1")?
        .execute((conversation.as_str(), head))?;
    Ok(())
}

/// [`set_head`]; a conversation without a title gets that of `messages`.
fn set_head_and_title(
    connection: &Connection,
    conversation: &ConversationId,
    head: Option<i64>,
    messages: &[Message],
) -> Result<(), TranscriptError> {
    connection
        .prepare_cached(
            "UPDATE conversations SET head = ?2, title = coalesce(title, ?3) WHERE id = ?1",
        )?
        .execute((conversation.as_str(), head, title(messages)))?;
    Ok(())
}

/// Stores a conversation that is not stored yet, or takes it out of the trash.
fn begin(
    connection: &Connection,
    conversation: &ConversationId,
    now: Timestamp,
) -> Result<(), TranscriptError> {
    connection
        .prepare_cached(
            "INSERT INTO conversations (id, created_at, updated_at) VALUES (?1, ?2, ?2)
             ON CONFLICT DO UPDATE SET updated_at = excluded.updated_at, trashed_at = NULL",
        )?
        .execute((conversation.as_str(), millis(now)))?;
    Ok(())
}

/// Opens an answer once more. What a response or a thread has stored with it stays.
fn reopen(
    connection: &Connection,
    conversation: &ConversationId,
    answer: i64,
    parent: Option<i64>,
    marks: &[Mark<'_>],
    now: Timestamp,
) -> Result<AnswerRows, TranscriptError> {
    let parent = parent.ok_or(TranscriptError::NothingToContinue)?;
    check_still_there(connection, conversation, answer)?;
    Mark::write_saved(marks, connection)?;
    connection
        .prepare_cached(
            "UPDATE messages SET status = 'streaming', finish = CASE
                 WHEN json_extract(finish, '$.response') IS NOT NULL
                 THEN json_object('response', json_extract(finish, '$.response')) END
             WHERE id = ?1",
        )?
        .execute([answer])?;
    connection
        .prepare_cached(
            "UPDATE conversations SET head = ?2, updated_at = max(updated_at, ?3),
                 trashed_at = NULL WHERE id = ?1",
        )?
        .execute((conversation.as_str(), answer, millis(now)))?;
    Ok(AnswerRows { answer, parent })
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
