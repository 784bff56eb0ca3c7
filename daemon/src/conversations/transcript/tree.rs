//! Walks and grows the tree of messages.
//!
//! - One transaction per request: the new messages, the open answer and the head, or nothing.
//! - An equal message below the same parent is not stored a second time.
//! - Every request gets its own answer row; an older answer stays as a sibling.

use hob_prewarm::profile::joined;
use hob_slots::{ConversationId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::{After, Append, Status, TranscriptError};
use crate::wire::message::{Message, Role};

const MAX_DERIVED_TITLE_CHARS: usize = 60;

/// In front of a summary, for the model.
const SUMMARY_TITLE: &str = "Summary of the earlier part of this conversation:";

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
    /// The ids of the messages at the beginning of `history`; `None`: not a saved message.
    saved: Vec<Option<i64>>,
    base: Option<i64>,
    new: Vec<Message>,
    start: Option<usize>,
    /// Of the messages that are left out.
    summary: Option<String>,
    /// The conversation's from now on; `None`: as before.
    instructions: Option<String>,
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
    /// The id of a saved message of the history.
    pub fn saved(&self, at: usize) -> Option<i64> {
        self.saved.get(at).copied().flatten()
    }

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
    let Continuation { saved, base, new, start, summary, instructions, continued, .. } =
        continuation;
    let place = |start: usize| match continuation.saved(start) {
        Some(id) => Place::Saved(id),
        None => Place::New(start - saved.len()),
    };
    let start = start.map(|start| Start { place: place(start), summary: summary.as_deref() });
    let grown = match continued {
        Some(Continued { id, .. }) => reopen(connection, conversation, *id, *base, start, now)?,
        None => grow(connection, conversation, *base, new, start, now)?,
    };
    if let Some(instructions) = instructions {
        connection
            .prepare_cached("UPDATE conversations SET instructions = ?2 WHERE id = ?1")?
            .execute((conversation.as_str(), instructions))?;
    }
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

/// What an append continues. Without new messages: the last answer again, or, with `after`, one to
/// that message.
pub fn continuation(
    connection: &Connection,
    append: Append,
) -> Result<Continuation, TranscriptError> {
    let Append { conversation, after, new, instructions, continues } = append;
    let conversation = &conversation;
    if continues {
        return continued(connection, conversation, after, instructions);
    }
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
    continuation_of(connection, conversation, path, new, instructions, None)
}

/// What goes on with an answer: the last one, or the one `after`.
fn continued(
    connection: &Connection,
    conversation: &ConversationId,
    after: Option<After>,
    instructions: Option<String>,
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
    let answer = Some(Continued { id, message });
    continuation_of(connection, conversation, path, Vec::new(), instructions, answer)
}

fn has_children(connection: &Connection, id: i64) -> Result<bool, TranscriptError> {
    let mut select = connection.prepare_cached("SELECT 1 FROM messages WHERE parent = ?1")?;
    Ok(select.exists([id])?)
}

fn continuation_of(
    connection: &Connection,
    conversation: &ConversationId,
    mut path: Vec<Node>,
    new: Vec<Message>,
    instructions: Option<String>,
    continued: Option<Continued>,
) -> Result<Continuation, TranscriptError> {
    let base = path.last().map(|node| node.id);
    let (left_out, summary) = leave_out_old(&mut path);
    let text = match &instructions {
        Some(text) => Some(text.clone()),
        None => stored_instructions(connection, conversation)?,
    };
    let in_front = in_front(&mut path, text, summary.as_deref());
    let saved = in_front.iter().map(|_| None).chain(path.iter().map(|node| Some(node.id)));
    let saved = saved.collect();
    let path = path.into_iter().map(|node| node.message);
    let history = in_front.into_iter().chain(path).chain(new.iter().cloned()).collect();
    let start = None;
    Ok(Continuation {
        history,
        left_out,
        saved,
        base,
        new,
        start,
        summary,
        instructions,
        continued,
    })
}

/// Removes the messages between the instructions and the last one that starts prompts. Their
/// documents stay, in front of that one. Returns how many messages there were, and their summary.
fn leave_out_old(path: &mut Vec<Node>) -> (usize, Option<String>) {
    let instructions = instructions(path.iter().map(|node| &node.message));
    let start = path.iter().rposition(|node| node.starts_prompt);
    let Some(start) = start.filter(|start| *start > instructions) else { return (0, None) };
    let summary = path[start].summary.take();
    let left_out: Vec<Node> = path.drain(instructions..start).collect();
    let messages = left_out.iter().map(|node| &node.message);
    path[instructions].message.take_documents_of(messages);
    (left_out.len(), summary)
}

/// The system message that replaces those at the beginning of the path, where the conversation has
/// instructions of its own or a summary. One message: not every chat template takes two.
fn in_front(path: &mut Vec<Node>, own: Option<String>, summary: Option<&str>) -> Option<Message> {
    if own.is_none() && summary.is_none() {
        return None;
    }
    let replaced = instructions(path.iter().map(|node| &node.message));
    let replaced: Vec<Node> = path.drain(..replaced).collect();
    let text = own.unwrap_or_else(|| joined(replaced.iter().map(|node| node.message.text())));
    let summary = summary.map(|summary| format!("{SUMMARY_TITLE}\n{summary}"));
    let text = joined([text.as_str(), summary.as_deref().unwrap_or_default()]);
    (!text.is_empty()).then(|| Message::plain(Role::System, &text))
}

fn stored_instructions(
    connection: &Connection,
    conversation: &ConversationId,
) -> Result<Option<String>, TranscriptError> {
    let text = connection
        .prepare_cached("SELECT instructions FROM conversations WHERE id = ?1")?
        .query_row([conversation.as_str()], |row| row.get(0))
        .optional()?;
    Ok(text.flatten())
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
    start: Option<Start<'_>>,
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
    if let Some(Start { place: Place::Saved(id), summary }) = start {
        start_prompts(&transaction, id, summary)?;
    }
    for (n, message) in messages.iter().enumerate() {
        at = Some(match child_like(&transaction, conversation, at, message)? {
            Some(id) => id,
            None => insert(&transaction, conversation, at, message, Status::Complete, now)?,
        });
        if let (Some(Start { place: Place::New(place), summary }), Some(id)) = (start, at)
            && place == n
        {
            start_prompts(&transaction, id, summary)?;
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
    start: Option<Start<'_>>,
    now: Timestamp,
) -> Result<Grown, TranscriptError> {
    let parent = parent.ok_or(TranscriptError::NothingToContinue)?;
    let transaction = connection.transaction()?;
    check_message(&transaction, conversation, answer)?;
    if let Some(Start { place: Place::Saved(id), summary }) = start {
        start_prompts(&transaction, id, summary)?;
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

/// A message of a path.
struct Node {
    id: i64,
    status: Status,
    message: Message,
    starts_prompt: bool,
    summary: Option<String>,
}

/// The messages from the root to `end`.
fn path(connection: &Connection, end: Option<i64>) -> Result<Vec<Node>, TranscriptError> {
    let mut path = Vec::new();
    let mut next = end;
    let mut select = connection.prepare_cached(
        "SELECT parent, content, status, starts_prompt, summary FROM messages WHERE id = ?1",
    )?;
    while let Some(id) = next {
        let (parent, node) = select.query_row([id], |row| {
            let (content, status): (String, String) = (row.get(1)?, row.get(2)?);
            let node = Message::from_stored(&content).map(|message| {
                let (starts_prompt, summary) = (row.get(3)?, row.get(4)?);
                let status = Status::parse(&status);
                Ok::<_, rusqlite::Error>(Node { id, status, message, starts_prompt, summary })
            });
            Ok((row.get::<_, Option<i64>>(0)?, node.transpose()?))
        })?;
        path.extend(node);
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
