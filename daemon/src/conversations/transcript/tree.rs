//! Walks and grows the tree of messages.
//!
//! - One transaction per request: the new messages, the open answer and the head, or nothing.
//! - An equal message below the same parent is not stored a second time.
//! - Every request gets its own answer row; an older answer stays as a sibling.

use hob_slots::{ConversationId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::{After, Status, TranscriptError};
use crate::wire::message::{Message, Role};

const MAX_DERIVED_TITLE_CHARS: usize = 60;

/// The open answer of a request, and the message that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grown {
    pub answer: i64,
    pub parent: i64,
}

/// Where an append continues.
#[derive(Clone, Debug)]
pub struct Continuation {
    /// All messages of the prompt, the oldest first, the new ones included.
    pub history: Vec<Message>,
    /// Older messages of this branch that the prompt leaves out.
    pub left_out: usize,
    /// The saved messages at the beginning of `history`.
    saved: Vec<i64>,
    base: Option<i64>,
    new: Vec<Message>,
    start: Option<usize>,
    /// The answer that goes on behind `history`.
    pub continued: Option<Continued>,
}

/// An answer that goes on.
#[derive(Clone, Debug)]
pub struct Continued {
    id: i64,
    pub message: Message,
}

impl Continuation {
    /// Lets this prompt and later ones begin with `history[start]`, behind the instructions. The
    /// append saves it.
    pub fn start_at(&mut self, start: usize) {
        let instructions = instructions(&self.history);
        self.left_out += start - instructions;
        self.start = Some(start);
    }
}

/// The number of system messages in front.
pub fn instructions<'m>(messages: impl IntoIterator<Item = &'m Message>) -> usize {
    let is_instruction =
        |message: &&Message| matches!(message.role, Role::System | Role::Developer);
    messages.into_iter().take_while(is_instruction).count()
}

/// See [`super::Transcript::sync`].
pub fn sync(
    connection: &mut Connection,
    conversation: &ConversationId,
    messages: &[Message],
    now: Timestamp,
) -> Result<Grown, TranscriptError> {
    grow(connection, conversation, None, messages, None, now)
}

/// See [`super::Transcript::append`].
pub fn append(
    connection: &mut Connection,
    conversation: &ConversationId,
    continuation: &Continuation,
    now: Timestamp,
) -> Result<Grown, TranscriptError> {
    let Continuation { saved, base, new, start, continued, .. } = continuation;
    let start = start.map(|start| match saved.get(start) {
        Some(id) => Start::Saved(*id),
        None => Start::New(start - saved.len()),
    });
    match continued {
        Some(Continued { id, .. }) => reopen(connection, conversation, *id, *base, start, now),
        None => grow(connection, conversation, *base, new, start, now),
    }
}

/// The message with which later prompts begin.
#[derive(Clone, Copy)]
enum Start {
    Saved(i64),
    /// By its place among the new messages.
    New(usize),
}

/// What an append continues. Without new messages: the last answer again, or, with `after`, one to
/// that message.
pub fn continuation(
    connection: &Connection,
    conversation: &ConversationId,
    after: Option<After>,
    new: Vec<Message>,
) -> Result<Continuation, TranscriptError> {
    let end = match after {
        None => head(connection, conversation)?,
        Some(After::Nothing) => None,
        Some(After::Message(id)) => Some(check_message(connection, conversation, id)?),
    };
    let mut path = path(connection, end)?;
    if after.is_some() {
        let answered = path.last().is_some_and(|node| node.message.role != Role::Assistant);
        if new.is_empty() && !answered {
            return Err(TranscriptError::NothingToAnswer);
        }
    } else if new.is_empty() {
        while path.pop_if(|node| node.message.role == Role::Assistant).is_some() {}
        if path.is_empty() {
            return Err(TranscriptError::NothingToAnswer);
        }
    } else {
        drop_failed_attempt(&mut path, &new[0]);
    }
    Ok(continuation_of(path, new, None))
}

/// What goes on with an answer: the last one, or the one `after`.
pub fn continued(
    connection: &Connection,
    conversation: &ConversationId,
    after: Option<After>,
) -> Result<Continuation, TranscriptError> {
    let end = match after {
        None => head(connection, conversation)?,
        Some(After::Nothing) => None,
        Some(After::Message(id)) => Some(check_message(connection, conversation, id)?),
    };
    let mut path = path(connection, end)?;
    let is_answer =
        |node: &mut Node| node.message.role == Role::Assistant && node.status != Status::Streaming;
    let node = path.pop_if(is_answer).ok_or(TranscriptError::NothingToContinue)?;
    if path.is_empty() || has_children(connection, node.id)? {
        return Err(TranscriptError::NothingToContinue);
    }
    let Node { id, message, .. } = node;
    Ok(continuation_of(path, Vec::new(), Some(Continued { id, message })))
}

fn has_children(connection: &Connection, id: i64) -> Result<bool, TranscriptError> {
    let mut select = connection.prepare_cached("SELECT 1 FROM messages WHERE parent = ?1")?;
    Ok(select.exists([id])?)
}

fn continuation_of(
    mut path: Vec<Node>,
    new: Vec<Message>,
    continued: Option<Continued>,
) -> Continuation {
    let base = path.last().map(|node| node.id);
    let left_out = leave_out_old(&mut path);
    let saved = path.iter().map(|node| node.id).collect();
    let history = path.into_iter().map(|node| node.message).chain(new.iter().cloned()).collect();
    Continuation { history, left_out, saved, base, new, start: None, continued }
}

/// Removes the messages between the instructions and the last one that starts prompts. Their
/// documents stay, in front of that one. Returns how many messages there were.
fn leave_out_old(path: &mut Vec<Node>) -> usize {
    let instructions = instructions(path.iter().map(|node| &node.message));
    let start = path.iter().rposition(|node| node.starts_prompt);
    let Some(start) = start.filter(|start| *start > instructions) else { return 0 };
    let left_out: Vec<Node> = path.drain(instructions..start).collect();
    let messages = left_out.iter().map(|node| &node.message);
    path[instructions].message.take_documents_of(messages);
    left_out.len()
}

fn head(
    connection: &Connection,
    conversation: &ConversationId,
) -> Result<Option<i64>, TranscriptError> {
    let head = connection
        .prepare_cached("SELECT head FROM conversations WHERE id = ?1")?
        .query_row([conversation.as_str()], |row| row.get(0))
        .optional()?;
    Ok(head.flatten())
}

/// Returns `id` if it is a message of the conversation.
pub fn check_message(
    connection: &Connection,
    conversation: &ConversationId,
    id: i64,
) -> Result<i64, TranscriptError> {
    connection
        .prepare_cached("SELECT id FROM messages WHERE id = ?1 AND conversation = ?2")?
        .query_row((id, conversation.as_str()), |row| row.get(0))
        .optional()?
        .ok_or(TranscriptError::NoSuchMessage { id })
}

/// A client whose answer broke off before its first word sends the same message again; it is not
/// stored twice.
fn drop_failed_attempt(path: &mut Vec<Node>, again: &Message) {
    if let [.., request, answer] = path.as_slice()
        && answer.status == Status::Interrupted
        && answer.message.text().is_empty()
        && request.message.is_same(again)
    {
        path.truncate(path.len() - 2);
    }
}

fn grow(
    connection: &mut Connection,
    conversation: &ConversationId,
    base: Option<i64>,
    messages: &[Message],
    start: Option<Start>,
    now: Timestamp,
) -> Result<Grown, TranscriptError> {
    let transaction = connection.transaction()?;
    transaction
        .prepare_cached(
            "INSERT INTO conversations (id, created_at, updated_at) VALUES (?1, ?2, ?2)
             ON CONFLICT DO UPDATE SET updated_at = excluded.updated_at, trashed_at = NULL",
        )?
        .execute((conversation.as_str(), millis(now)))?;
    let mut at = base;
    if let Some(Start::Saved(id)) = start {
        start_prompts(&transaction, id)?;
    }
    for (n, message) in messages.iter().enumerate() {
        at = Some(match child_like(&transaction, conversation, at, message)? {
            Some(id) => id,
            None => insert(&transaction, conversation, at, message, Status::Complete, now)?,
        });
        if let (Some(Start::New(place)), Some(id)) = (start, at)
            && place == n
        {
            start_prompts(&transaction, id)?;
        }
    }
    let parent = at.ok_or(TranscriptError::NothingToAnswer)?;
    let empty = Message::answer("", "", &[]);
    let answer = insert(&transaction, conversation, at, &empty, Status::Streaming, now)?;
    transaction
        .prepare_cached(
            "UPDATE conversations SET head = ?2, title = coalesce(title, ?3) WHERE id = ?1",
        )?
        .execute((conversation.as_str(), answer, title(messages)))?;
    transaction.commit()?;
    Ok(Grown { answer, parent })
}

/// Opens an answer once more.
fn reopen(
    connection: &mut Connection,
    conversation: &ConversationId,
    answer: i64,
    parent: Option<i64>,
    start: Option<Start>,
    now: Timestamp,
) -> Result<Grown, TranscriptError> {
    let parent = parent.ok_or(TranscriptError::NothingToContinue)?;
    let transaction = connection.transaction()?;
    check_message(&transaction, conversation, answer)?;
    if let Some(Start::Saved(id)) = start {
        start_prompts(&transaction, id)?;
    }
    transaction
        .prepare_cached("UPDATE messages SET status = 'streaming', finish = NULL WHERE id = ?1")?
        .execute([answer])?;
    transaction
        .prepare_cached(
            "UPDATE conversations SET head = ?2, updated_at = max(updated_at, ?3),
                 trashed_at = NULL WHERE id = ?1",
        )?
        .execute((conversation.as_str(), answer, millis(now)))?;
    transaction.commit()?;
    Ok(Grown { answer, parent })
}

fn start_prompts(connection: &Connection, id: i64) -> Result<(), TranscriptError> {
    let mut update =
        connection.prepare_cached("UPDATE messages SET starts_prompt = 1 WHERE id = ?1")?;
    update.execute([id])?;
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

/// A message of a path.
struct Node {
    id: i64,
    status: Status,
    message: Message,
    starts_prompt: bool,
}

/// The messages from the root to `end`.
fn path(connection: &Connection, end: Option<i64>) -> Result<Vec<Node>, TranscriptError> {
    let mut path = Vec::new();
    let mut next = end;
    let mut select = connection.prepare_cached(
        "SELECT parent, content, status, starts_prompt FROM messages WHERE id = ?1",
    )?;
    while let Some(id) = next {
        let (parent, content, status, starts_prompt): (Option<i64>, String, String, bool) = select
            .query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
        if let Some(message) = Message::from_stored(&content) {
            path.push(Node { id, status: Status::parse(&status), message, starts_prompt });
        }
        next = parent;
    }
    path.reverse();
    Ok(path)
}

/// The first words of the user, on one line; of documents without words, the name of the first.
pub fn title<'m>(messages: impl IntoIterator<Item = &'m Message>) -> Option<String> {
    let of_user = messages.into_iter().filter(|message| message.role == Role::User);
    let texts = of_user.map(|message| match message.documents().first() {
        Some(document) if message.is_documents_alone() => document.name.clone(),
        _ => message.text().to_owned(),
    });
    let line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    texts.map(line).find(|line| !line.is_empty()).map(|line| shorten(&line))
}

fn shorten(line: &str) -> String {
    if line.chars().count() <= MAX_DERIVED_TITLE_CHARS {
        return line.to_owned();
    }
    let cut: String = line.chars().take(MAX_DERIVED_TITLE_CHARS - 1).collect();
    format!("{}…", cut.trim_end())
}

/// SQLite's integers are signed.
pub fn millis(time: Timestamp) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}
