//! What an append continues: the messages of a branch, from its end to the root.
//!
//! - It only reads. [`super::tree`] writes what follows.
//! - Messages in front of the last one that starts prompts are left out, but for those that later ones bring
//!   back; their summary, if there is one, and the conversation's own instructions become one system message.

use hob_prewarm::profile::joined;
use hob_slots::ConversationId;
use rusqlite::{Connection, OptionalExtension};

use super::branch::{Branch, Window};
use super::read::{check_message, child_like, head};
use super::{After, Append, Status, TranscriptError};
use crate::wire::call_ids::OpenCalls;
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
    /// All messages behind the instructions, the new ones included.
    pub branch: Branch,
    /// The ids of the saved messages of `branch`, which are its first ones.
    pub(super) saved: Vec<i64>,
    pub(super) base: Option<i64>,
    pub(super) new: Vec<Message>,
    /// System messages with which the stored text begins: places count from there on.
    pub(super) system_messages: usize,
    /// What later prompts have.
    pub(super) changed: Option<Window>,
    /// A summary of the messages that are left out.
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
    /// The id of the message at a place of `branch`, where it is saved.
    pub fn saved(&self, place: usize) -> Option<i64> {
        self.saved.get(place).copied()
    }

    /// Whether `history` has not all messages of its branch.
    pub fn is_part(&self) -> bool {
        self.branch.window.start > 0
    }

    /// Lets this prompt and later ones have these messages. The append saves it.
    pub fn go_on_with(&mut self, window: Window) {
        self.left_out = window.left_out();
        self.changed = Some(window);
    }

    /// Takes the last new message out again, if there is one: it stood for one that is not complete.
    pub fn pop_new(&mut self) {
        if self.new.pop().is_some() {
            self.history.pop();
            self.branch.messages.pop();
        }
    }

    /// Puts a summary, or none, in place of the one that prompts have.
    pub fn replace_summary(&mut self, summary: Option<String>) {
        self.summary = summary;
    }
}

/// The number of system messages in front.
fn instructions<'m>(messages: impl IntoIterator<Item = &'m Message>) -> usize {
    let is_instruction = |message: &&Message| message.role.instructs();
    messages.into_iter().take_while(is_instruction).count()
}

/// A message of a path.
struct Node {
    id: i64,
    status: Status,
    message: Message,
    window: StoredWindow,
}

/// What a [`Window`] is made of, as it is stored beside a message.
struct StoredWindow {
    starts_prompt: bool,
    /// Of the messages in front of one that starts prompts.
    summary: Option<String>,
    /// Places on the path.
    brings: Vec<usize>,
}

/// The messages from the root to `end`.
fn path(connection: &Connection, end: Option<i64>) -> Result<Vec<Node>, TranscriptError> {
    let mut path = Vec::new();
    let mut next = end;
    let mut select = connection.prepare_cached(
        "SELECT parent, content, status, starts_prompt, summary, brings FROM messages WHERE id = ?1",
    )?;
    while let Some(id) = next {
        let (parent, node) = select.query_row([id], |row| {
            let (content, status): (String, String) = (row.get(1)?, row.get(2)?);
            let node = Message::from_stored(&content).map(|message| {
                let (starts_prompt, summary) = (row.get(3)?, row.get(4)?);
                let window = StoredWindow { starts_prompt, summary, brings: places(row.get(5)?) };
                let node = Node { id, status: Status::parse(&status), message, window };
                Ok::<_, rusqlite::Error>(node)
            });
            Ok((row.get::<_, Option<i64>>(0)?, node.transpose()?))
        })?;
        path.extend(node);
        next = parent;
    }
    path.reverse();
    Ok(path)
}

/// The calls of the branch to `end` that have no result.
pub(super) fn open_calls(
    connection: &Connection,
    end: Option<i64>,
) -> Result<OpenCalls, TranscriptError> {
    Ok(open_calls_of(&path(connection, end)?))
}

fn open_calls_of(path: &[Node]) -> OpenCalls {
    let mut calls = OpenCalls::default();
    for node in path {
        calls.pass(&node.message);
    }
    calls
}

/// Places as they are stored; none that cannot be read.
fn places(stored: Option<String>) -> Vec<usize> {
    stored.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// What messages that a client has sent as a whole continue: those of them that are saved, the latest branch
/// first.
pub fn of_whole(
    connection: &Connection,
    conversation: &ConversationId,
    messages: &[Message],
) -> Result<Continuation, TranscriptError> {
    let (mut end, mut saved) = (None, 0);
    for message in messages {
        let Some(child) = child_like(connection, conversation, end, message)? else { break };
        (end, saved) = (Some(child), saved + 1);
    }
    let path = path(connection, end)?;
    Ok(continuation_of(path, messages[saved..].to_vec(), None, None, None))
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
        drop_failed_attempt(&mut path, &new);
    }
    let own = own_instructions(connection, conversation, &instructions)?;
    Ok(continuation_of(path, new, own, instructions, None))
}

/// See [`super::Transcript::prompt_to`].
pub fn prompt_to(
    connection: &Connection,
    conversation: &ConversationId,
    message: i64,
    instructions: &Option<String>,
) -> Result<Vec<Message>, TranscriptError> {
    let path = path_after(connection, conversation, Some(After::Message(message)))?;
    let own = own_instructions(connection, conversation, instructions)?;
    Ok(continuation_of(path, Vec::new(), own, None, None).history)
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
    let own = own_instructions(connection, conversation, &instructions)?;
    Ok(continuation_of(path, Vec::new(), own, instructions, answer))
}

fn has_children(connection: &Connection, id: i64) -> Result<bool, TranscriptError> {
    let mut select = connection.prepare_cached("SELECT 1 FROM messages WHERE parent = ?1")?;
    Ok(select.exists([id])?)
}

/// `own`: what stands in place of the system messages in front. `instructions`: what does from now on.
fn continuation_of(
    path: Vec<Node>,
    new: Vec<Message>,
    own: Option<String>,
    instructions: Option<String>,
    continued: Option<Continued>,
) -> Continuation {
    let mut calls = open_calls_of(&path);
    let new: Vec<Message> = new.into_iter().map(|message| calls.add(message)).collect();
    let base = path.last().map(|node| node.id);
    let mut saved: Vec<i64> = path.iter().map(|node| node.id).collect();
    let (mut messages, mut windows): (Vec<Message>, Vec<StoredWindow>) =
        path.into_iter().map(|node| (node.message, node.window)).unzip();
    messages.extend(new.iter().cloned());
    let system_messages = self::instructions(&messages);
    let window = window_of(&windows, system_messages);
    let first = windows.get_mut(window.start + system_messages).filter(|_| window.start > 0);
    let summary = first.and_then(|first| first.summary.take());
    let behind_them = messages.split_off(system_messages);
    replace_instructions(&mut messages, own, summary.as_deref());
    let branch = Branch { front: messages, messages: behind_them, window };
    let history = branch.prompt(&branch.window);
    let left_out = branch.window.left_out();
    let saved = saved.split_off(system_messages.min(saved.len()));
    Continuation {
        history,
        left_out,
        branch,
        saved,
        base,
        new,
        system_messages,
        changed: None,
        summary,
        instructions,
        continued,
    }
}

/// What prompts have of a path. Its places count behind the system messages in front.
fn window_of(stored: &[StoredWindow], system_messages: usize) -> Window {
    let behind = |place: usize| place.checked_sub(system_messages);
    let start = stored.iter().rposition(|stored| stored.starts_prompt).and_then(behind);
    let brought = |(place, stored): (usize, &StoredWindow)| {
        let brings = stored.brings.iter().filter_map(|&place| behind(place));
        let mut brings: Vec<usize> = brings.collect();
        brings.sort_unstable();
        brings.dedup();
        (!brings.is_empty()).then_some((behind(place)?, brings))
    };
    let brought = stored.iter().enumerate().filter_map(brought).collect();
    Window { start: start.unwrap_or(0), brought }
}

/// Replaces the system messages in front by one, where the conversation has instructions of its own or a
/// summary: not every chat template takes two.
fn replace_instructions(messages: &mut Vec<Message>, own: Option<String>, summary: Option<&str>) {
    if own.is_none() && summary.is_none() {
        return;
    }
    let text = own.unwrap_or_else(|| joined(messages.iter().map(Message::text)));
    let summary = summary.map(|summary| format!("{SUMMARY_TITLE}\n{summary}"));
    let text = joined([text.as_str(), summary.as_deref().unwrap_or_default()]);
    messages.clear();
    if !text.is_empty() {
        messages.push(Message::plain(Role::System, &text));
    }
}

/// What stands in place of the system messages in front.
fn own_instructions(
    connection: &Connection,
    conversation: &ConversationId,
    from_now_on: &Option<String>,
) -> Result<Option<String>, TranscriptError> {
    match from_now_on {
        Some(text) => Ok(Some(text.clone())),
        None => stored_instructions(connection, conversation),
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

/// A client whose answer broke off before its first word sends the same messages again; they are not stored twice, and
/// the prompt has them once. Further ones may follow them.
fn drop_failed_attempt(path: &mut Vec<Node>, again: &[Message]) {
    let Some((answer, before)) = path.split_last() else { return };
    if answer.status != Status::Interrupted || !answer.message.text().is_empty() {
        return;
    }
    let ends_with = |sent: &[Message]| {
        let end = &before[before.len() - sent.len()..];
        end.iter().zip(sent).all(|(stored, sent)| stored.message.is_same(sent))
    };
    let longest = again.len().min(before.len());
    let repeated = (1..=longest).rev().find(|&count| ends_with(&again[..count]));
    if let Some(count) = repeated {
        let kept = before.len() - count;
        path.truncate(kept);
    }
}
