//! Imports a conversation from elsewhere.
//!
//! - No saved conversation is changed: an id that is in use gets a number appended.
//! - A conversation whose messages are all here already, under its id or one with a number, is not imported a second
//!   time.
//! - [`merge`] is for the same conversation, grown elsewhere: it gets the messages that it lacks, and loses
//!   none.

use std::collections::HashMap;
use std::iter;

use hob_slots::{ConversationId, Timestamp};
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::read::{IMPORTED, check_idle, exists};
use super::titles::title;
use super::tree::{millis, set_head};
use super::{ConversationExport, DocumentHome, Node, TranscriptError, library};
use crate::wire::label::Label;
use crate::wire::message::Message;

/// The names that an import tries for one conversation. Without a bound, a file of conversations of one name, all
/// different, would take time of their number squared.
const MAX_COMPARED: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedConversation {
    pub id: ConversationId,
    /// Every message of it was here before.
    pub was_here: bool,
}

/// See [`super::Transcript::import`].
pub fn import(
    connection: &mut Connection,
    wanted: &ConversationId,
    export: &ConversationExport,
    is_private: impl Fn(&ConversationId) -> bool,
    now: Timestamp,
) -> Result<ImportedConversation, TranscriptError> {
    let transaction = connection.transaction()?;
    for id in names(wanted).take(MAX_COMPARED) {
        let is_here = exists(&transaction, &id)?;
        if is_here && holds(&transaction, &id, &export.messages)? {
            // Importing a conversation from the trash restores it.
            transaction.execute(
                "UPDATE conversations SET trashed_at = NULL WHERE id = ?1",
                [id.as_str()],
            )?;
            transaction.commit()?;
            return Ok(ImportedConversation { id, was_here: true });
        }
        if !is_here && !is_private(&id) {
            break;
        }
    }
    for stored in &export.documents {
        library::put(&transaction, stored, DocumentHome::Chat, now)?;
    }
    let id = unused_id(&transaction, wanted, is_private)?;
    write(&transaction, &id, export, millis(now))?;
    transaction.commit()?;
    Ok(ImportedConversation { id, was_here: false })
}

/// Whose head, instructions and beginnings of prompts a merged conversation has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergedHead {
    Stored,
    /// The export's, unless an answer grows here, which stays the head.
    Exported,
}

/// See [`super::Transcript::merge`].
pub fn merge(
    connection: &mut Connection,
    id: &ConversationId,
    export: &ConversationExport,
    head: MergedHead,
    now: Timestamp,
) -> Result<(), TranscriptError> {
    let transaction = connection.transaction()?;
    for stored in &export.documents {
        library::put(&transaction, stored, DocumentHome::Chat, now)?;
    }
    if exists(&transaction, id)? {
        let here = rows_by_path(&transaction, id)?;
        let moves_head = head == MergedHead::Exported && check_idle(&transaction, id).is_ok();
        let head = add(&transaction, id, export, &here, millis(now))?;
        if moves_head {
            mark(&transaction, export, &here)?;
            transaction.execute(
                "UPDATE conversations SET head = ?2, instructions = ?3, sampling = nullif(?4, '{}'),
                     updated_at = max(updated_at, ?5), title = coalesce(?6, title)
                 WHERE id = ?1",
                params![
                    id.as_str(),
                    head,
                    export.instructions,
                    export.sampling.as_ref().map(Value::to_string),
                    export.updated_at.unwrap_or(0).min(millis(now)),
                    export.title,
                ],
            )?;
        }
    } else {
        write(&transaction, id, export, millis(now))?;
    }
    transaction.commit()?;
    Ok(())
}

fn write(
    connection: &Connection,
    id: &ConversationId,
    export: &ConversationExport,
    now: i64,
) -> Result<(), TranscriptError> {
    let messages = export.messages.iter().map(|node| &node.message);
    let title = export.title.clone().or_else(|| title(messages));
    let before_now = |at: Option<i64>| at.unwrap_or(now).min(now);
    connection.execute(
        "INSERT INTO conversations (id, title, created_at, updated_at, pinned, instructions, sampling)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, nullif(?7, '{}'))",
        params![
            id.as_str(),
            title,
            before_now(export.created_at),
            before_now(export.updated_at),
            export.pinned,
            export.instructions,
            export.sampling.as_ref().map(Value::to_string),
        ],
    )?;
    let head = add(connection, id, export, &HashMap::new(), now)?;
    set_head(connection, id, head)
}

/// Adds the messages that are not `here`. Returns the row of the export's head.
fn add(
    connection: &Connection,
    id: &ConversationId,
    export: &ConversationExport,
    here: &HashMap<Path, i64>,
    now: i64,
) -> Result<Option<i64>, TranscriptError> {
    let before_now = |at: Option<i64>| at.unwrap_or(now).min(now);
    let mut rows: HashMap<i64, i64> = HashMap::new();
    let mut paths: HashMap<i64, Path> = HashMap::new();
    let mut insert = connection.prepare_cached(
        "INSERT INTO messages 
             (conversation, parent, role, content, status, created_at, finish, starts_prompt, summary,
              brings)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    let mut last = None;
    for node in &export.messages {
        let path = path(node.parent.and_then(|parent| paths.get(&parent)), &node.message);
        paths.insert(node.id, path);
        if let Some(row) = here.get(&path) {
            last = Some(*row);
            rows.insert(node.id, *row);
            continue;
        }
        insert.execute(params![
            id.as_str(),
            node.parent.and_then(|parent| rows.get(&parent)),
            node.message.role.as_str(),
            node.message.to_json().to_string(),
            node.status.as_str(),
            before_now(node.created_at),
            node.finish.clone().map(imported_finish),
            node.starts_prompt,
            node.summary,
            brings(node),
        ])?;
        last = Some(connection.last_insert_rowid());
        rows.extend(last.map(|row| (node.id, row)));
    }
    Ok(export.head.and_then(|head| rows.get(&head).copied()).or(last))
}

/// Lets the prompts of messages that are `here` begin where the export's do, and pins what the export pins.
fn mark(
    connection: &Connection,
    export: &ConversationExport,
    here: &HashMap<Path, i64>,
) -> Result<(), TranscriptError> {
    let mut update = connection.prepare_cached(
        "UPDATE messages SET starts_prompt = ?2, summary = ?3, brings = ?4 WHERE id = ?1
         AND NOT (starts_prompt IS ?2 AND summary IS ?3 AND brings IS ?4)",
    )?;
    let mut select = connection.prepare_cached("SELECT content FROM messages WHERE id = ?1")?;
    let mut label = connection.prepare_cached("UPDATE messages SET content = ?2 WHERE id = ?1")?;
    let mut paths: HashMap<i64, Path> = HashMap::new();
    for node in &export.messages {
        let path = path(node.parent.and_then(|parent| paths.get(&parent)), &node.message);
        paths.insert(node.id, path);
        if let Some(row) = here.get(&path) {
            update.execute(params![row, node.starts_prompt, node.summary, brings(node)])?;
            let content: String = select.query_row([row], |row| row.get(0))?;
            let Some(stored) = Message::from_stored(&content) else { continue };
            let pinned = Label { pin: node.message.label().pin, ..stored.label() };
            if pinned != stored.label() {
                label.execute((row, stored.labelled(&pinned).to_json().to_string()))?;
            }
        }
    }
    Ok(())
}

/// As it is stored.
fn brings(node: &Node) -> Option<String> {
    (!node.brings.is_empty()).then(|| json!(node.brings).to_string())
}

/// Marks how an answer ended, elsewhere: it is no turn of this daemon. [`read`](super::read) removes the
/// mark.
fn imported_finish(mut finish: Value) -> String {
    finish[IMPORTED] = true.into();
    finish.to_string()
}

/// Whether every message is saved, after the same ones. The time is linear in both trees, whatever
/// their shape: the file may be hostile.
fn holds(
    connection: &Connection,
    conversation: &ConversationId,
    messages: &[Node],
) -> Result<bool, TranscriptError> {
    let here = rows_by_path(connection, conversation)?;
    let mut paths: HashMap<i64, Path> = HashMap::new();
    for node in messages {
        let path = path(node.parent.and_then(|parent| paths.get(&parent)), &node.message);
        if !here.contains_key(&path) {
            return Ok(false);
        }
        paths.insert(node.id, path);
    }
    Ok(true)
}

/// The messages of a conversation; of those that are equal behind equal ones, the oldest.
fn rows_by_path(
    connection: &Connection,
    conversation: &ConversationId,
) -> Result<HashMap<Path, i64>, TranscriptError> {
    let mut select = connection.prepare_cached(
        "SELECT id, parent, content FROM messages WHERE conversation = ?1 ORDER BY id",
    )?;
    let mut rows = select.query([conversation.as_str()])?;
    let mut paths: HashMap<i64, Path> = HashMap::new();
    let mut found = HashMap::new();
    while let Some(row) = rows.next()? {
        let (id, parent): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
        if let Some(message) = Message::from_stored(row.get_ref(2)?.as_str().unwrap_or_default()) {
            let path = path(parent.and_then(|parent| paths.get(&parent)), &message);
            paths.insert(id, path);
            found.entry(path).or_insert(id);
        }
    }
    Ok(found)
}

/// A hash of a message, of the documents that it names, and of all before it.
type Path = [u8; 32];

fn path(before: Option<&Path>, message: &Message) -> Path {
    let json = message.to_json();
    let fields = ["role", "content", "reasoning_content", "tool_calls", "name", "tool_call_id"];
    let compared: Vec<&Value> = fields.iter().map(|name| &json[*name]).collect();
    let documents = message.documents();
    let documents: Vec<&str> = documents.iter().map(|document| document.id.as_str()).collect();
    let mut hash = Sha256::new();
    hash.update(before.unwrap_or(&[0; 32]));
    hash.update(json!([compared, documents]).to_string());
    hash.finalize().into()
}

/// The id, or the first unused one with a number appended. `is_private`: whether a conversation in memory has it.
pub(super) fn unused_id(
    connection: &Connection,
    wanted: &ConversationId,
    is_private: impl Fn(&ConversationId) -> bool,
) -> Result<ConversationId, TranscriptError> {
    let mut ids = names(wanted);
    loop {
        let id = ids.next().expect("numbers do not end");
        if !is_private(&id) && !exists(connection, &id)? {
            return Ok(id);
        }
    }
}

/// The id, then with each number from two appended.
fn names(wanted: &ConversationId) -> impl Iterator<Item = ConversationId> {
    let numbered = move |number: u64| {
        let suffix = format!("-{number}");
        let mut stem = wanted.as_str();
        while stem.len() + suffix.len() > ConversationId::MAX_BYTES {
            stem = &stem[..stem.char_indices().next_back().map_or(0, |(at, _)| at)];
        }
        ConversationId::new(&format!("{stem}{suffix}")).expect("as valid as the id before")
    };
    iter::once(wanted.clone()).chain((2..).map(numbered))
}
