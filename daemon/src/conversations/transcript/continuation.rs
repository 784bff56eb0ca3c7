//! What an append continues: the messages of a branch, from its end to the root.
//!
//! - It only reads. [`super::tree`] writes what follows.
//! - Messages in front of the last one that starts prompts are left out; their summary, if there is one,
//!   and the conversation's own instructions become one system message.

use hob_prewarm::profile::joined;
use hob_slots::ConversationId;
use rusqlite::{Connection, OptionalExtension};

use super::read::check_message;
use super::{After, Append, Status, TranscriptError};
use crate::wire::message::{Message, Role};

/// In front of a summary, for the model.
const SUMMARY_TITLE: &str = "Summary of the earlier part of this conversation:";

/// Where an append continues.
#[derive(Clone, Debug)]
pub struct Continuation {
    /// All messages of the prompt, the oldest first, the new ones included.
    pub history: Vec<Message>,
    /// Older messages of this branch that the prompt leaves out.
    pub left_out: usize,
    /// The ids of the messages of `history`; `None`: not a saved message.
    pub(super) saved: Vec<Option<i64>>,
    pub(super) base: Option<i64>,
    pub(super) new: Vec<Message>,
    pub(super) start: Option<usize>,
    /// Of the messages that are left out.
    pub(super) summary: Option<String>,
    /// The conversation's from now on; `None`: as before.
    pub(super) instructions: Option<String>,
    /// The answer that goes on behind `history`.
    pub continued: Option<Continued>,
}

/// An answer that goes on.
#[derive(Clone, Debug)]
pub struct Continued {
    pub(super) id: i64,
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
    let is_instruction = |message: &&Message| message.role.instructs();
    messages.into_iter().take_while(is_instruction).count()
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
    let mut path = path_after(connection, conversation, after)?;
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

/// The messages up to the one that `after` names; without, of the branch used last.
fn path_after(
    connection: &Connection,
    conversation: &ConversationId,
    after: Option<After>,
) -> Result<Vec<Node>, TranscriptError> {
    let end = match after {
        None => head(connection, conversation)?,
        Some(After::Nothing) => None,
        Some(After::Message(id)) => Some(check_message(connection, conversation, id)?),
    };
    path(connection, end)
}

/// What goes on with an answer: the last one, or the one `after`.
fn continued(
    connection: &Connection,
    conversation: &ConversationId,
    after: Option<After>,
    instructions: Option<String>,
) -> Result<Continuation, TranscriptError> {
    let mut path = path_after(connection, conversation, after)?;
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
    let saved = path.into_iter().map(|node| (Some(node.id), node.message));
    let mut messages: Vec<_> = saved.chain(new.iter().map(|new| (None, new.clone()))).collect();
    replace_instructions(&mut messages, text, summary.as_deref());
    let (saved, history) = messages.into_iter().unzip();
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

/// Replaces the system messages in front by one, where the conversation has instructions of its own or a
/// summary: not every chat template takes two.
fn replace_instructions(
    messages: &mut Vec<(Option<i64>, Message)>,
    own: Option<String>,
    summary: Option<&str>,
) {
    if own.is_none() && summary.is_none() {
        return;
    }
    let replaced = instructions(messages.iter().map(|(_, message)| message));
    let replaced: Vec<_> = messages.drain(..replaced).collect();
    let text = own.unwrap_or_else(|| joined(replaced.iter().map(|(_, message)| message.text())));
    let summary = summary.map(|summary| format!("{SUMMARY_TITLE}\n{summary}"));
    let text = joined([text.as_str(), summary.as_deref().unwrap_or_default()]);
    if !text.is_empty() {
        messages.insert(0, (None, Message::plain(Role::System, &text)));
    }
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
