//! Reads conversations: the list, and one with all its branches.

use hob_slots::ConversationId;
use rusqlite::{Connection, OptionalExtension, Row};
use serde_json::Value;

use super::TranscriptError;
use crate::wire::message::Message;

/// A conversation in the list. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub id: String,
    /// Set by the user, or derived from the first user message.
    pub title: Option<String>,
    pub created_at: i64,
    pub updated_at: i64,
    /// Messages of all branches.
    pub messages: i64,
    pub pinned: bool,
    pub trashed_at: Option<i64>,
    /// It is in memory only.
    pub private: bool,
}

/// A conversation with all its branches.
#[derive(Clone, Debug, PartialEq)]
pub struct ConversationText {
    pub summary: Summary,
    /// The latest message of the branch that was used last.
    pub head: Option<i64>,
    /// Parameters of its answers, as they were set.
    pub sampling: Option<Value>,
    /// What stands in front of prompts in place of its own system messages.
    pub instructions: Option<String>,
    /// The oldest first.
    pub messages: Vec<SavedMessage>,
}

impl ConversationText {
    /// The messages from the first one to the head.
    pub fn path(&self) -> Vec<&SavedMessage> {
        self.head.map_or_else(Vec::new, |head| self.path_to(head))
    }

    /// The messages from the first one to the one with the id `end`.
    pub fn path_to(&self, end: i64) -> Vec<&SavedMessage> {
        let mut path = Vec::new();
        let mut next = Some(end);
        // Rows are ordered by id, and a parent has a smaller id than its children.
        for message in self.messages.iter().rev() {
            if Some(message.id) == next {
                next = message.parent;
                path.push(message);
            }
        }
        path.reverse();
        path
    }
}

/// A message of the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedMessage {
    pub id: i64,
    pub parent: Option<i64>,
    /// In OpenAI's shape.
    pub message: Value,
    pub status: Status,
    /// Milliseconds since 1970.
    pub created_at: i64,
    /// How an answer ended, and what it cost.
    pub finish: Option<Value>,
    /// Later prompts begin with it, behind the instructions.
    pub starts_prompt: bool,
    /// What those prompts have in place of the older messages.
    pub summary: Option<String>,
    /// Older messages that stand in front of it in prompts that leave them out: their places on the branch.
    pub brings: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Complete,
    /// An answer that is growing.
    Streaming,
    /// An answer that broke off.
    Interrupted,
}

impl Status {
    /// The word in the database and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Streaming => "streaming",
            Self::Interrupted => "interrupted",
        }
    }

    pub(super) fn parse(text: &str) -> Self {
        match text {
            "streaming" => Self::Streaming,
            "interrupted" => Self::Interrupted,
            _ => Self::Complete, // The table's CHECK allows no other word.
        }
    }
}

/// The columns of a [`Summary`]. Instructions are not among them: they may be as long as a system prompt, and a list may
/// have ten thousand conversations.
const SUMMARY: &str = "SELECT id, title, created_at, updated_at, message_count, pinned, trashed_at,
    (SELECT application_id FROM pragma_application_id)";

/// Which conversations a list or a search has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// All that are not in the trash.
    Current,
    Trash,
}

pub fn list(connection: &Connection, listing: Listing) -> Result<Vec<Summary>, TranscriptError> {
    let mut select = connection.prepare_cached(&list_sql())?;
    let rows = select.query_map([listing == Listing::Trash], summary)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn list_sql() -> String {
    format!(
        "{SUMMARY} FROM conversations
         WHERE (trashed_at IS NOT NULL) = ?1 ORDER BY updated_at DESC, id"
    )
}

pub fn exists(
    connection: &Connection,
    conversation: &ConversationId,
) -> Result<bool, TranscriptError> {
    let mut select = connection.prepare_cached("SELECT 1 FROM conversations WHERE id = ?1")?;
    Ok(select.exists([conversation.as_str()])?)
}

pub fn get(
    connection: &Connection,
    conversation: &ConversationId,
) -> Result<Option<ConversationText>, TranscriptError> {
    let sql = format!("{SUMMARY}, head, instructions FROM conversations WHERE id = ?1");
    let found = connection
        .prepare_cached(&sql)?
        .query_row([conversation.as_str()], |row| Ok((summary(row)?, row.get(8)?, row.get(9)?)))
        .optional()?;
    let Some((summary, head, instructions)) = found else { return Ok(None) };
    let mut select = connection.prepare_cached(
        "SELECT id, parent, content, status, created_at, finish, starts_prompt, summary,
                brings
         FROM messages WHERE conversation = ?1 ORDER BY id",
    )?;
    let rows = select.query_map([conversation.as_str()], message)?;
    let messages = rows.collect::<Result<_, _>>()?;
    let sampling = sampling(connection, conversation)?;
    Ok(Some(ConversationText { summary, head, sampling, instructions, messages }))
}

/// The latest message of the branch that was used last; `None` also where the conversation is not stored.
pub(super) fn head(
    connection: &Connection,
    conversation: &ConversationId,
) -> Result<Option<i64>, TranscriptError> {
    let head = connection
        .prepare_cached("SELECT head FROM conversations WHERE id = ?1")?
        .query_row([conversation.as_str()], |row| row.get(0))
        .optional()?;
    Ok(head.flatten())
}

/// The parameters of a conversation's answers.
pub fn sampling(
    connection: &Connection,
    conversation: &ConversationId,
) -> Result<Option<Value>, TranscriptError> {
    let sampling: Option<Option<String>> = connection
        .prepare_cached("SELECT sampling FROM conversations WHERE id = ?1")?
        .query_row([conversation.as_str()], |row| row.get(0))
        .optional()?;
    Ok(sampling.flatten().and_then(|text| serde_json::from_str(&text).ok()))
}

fn summary(row: &Row<'_>) -> rusqlite::Result<Summary> {
    Ok(Summary {
        id: row.get(0)?,
        title: row.get(1)?,
        created_at: row.get(2)?,
        updated_at: row.get(3)?,
        messages: row.get(4)?,
        pinned: row.get(5)?,
        trashed_at: row.get(6)?,
        private: row.get(7)?,
    })
}

/// The field of a saved `finish` that an import adds, and a fork: the answer was computed elsewhere, and counts there.
pub const IMPORTED: &str = "imported";

fn unmarked(mut finish: Value) -> Value {
    if let Some(finish) = finish.as_object_mut() {
        finish.shift_remove(IMPORTED);
    }
    finish
}

fn message(row: &Row<'_>) -> rusqlite::Result<SavedMessage> {
    let json = |text: String| serde_json::from_str(&text).unwrap_or_default();
    Ok(SavedMessage {
        id: row.get(0)?,
        parent: row.get(1)?,
        message: json(row.get(2)?),
        status: Status::parse(&row.get::<_, String>(3)?),
        created_at: row.get(4)?,
        finish: row.get::<_, Option<String>>(5)?.map(|text| unmarked(json(text))),
        starts_prompt: row.get(6)?,
        summary: row.get(7)?,
        brings: row
            .get::<_, Option<String>>(8)?
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default(),
    })
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

/// Whether an answer of the conversation grows.
pub fn check_idle(
    connection: &Connection,
    conversation: &ConversationId,
) -> Result<(), TranscriptError> {
    let mut streaming = connection.prepare_cached(
        "SELECT 1 FROM messages WHERE status = 'streaming' AND conversation = ?1",
    )?;
    let is_idle = !streaming.exists([conversation.as_str()])?;
    if is_idle { Ok(()) } else { Err(TranscriptError::Answering) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversations::transcript::schema;

    #[test]
    fn a_list_of_conversations_reads_no_instructions() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection).unwrap();
        let read_columns = |sql: &str| {
            let select = connection.prepare(sql).unwrap();
            select.column_names().iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()
        };
        let listed = read_columns(&list_sql());
        assert_eq!(listed.len(), 8, "{listed:?}");
        assert!(
            !listed.iter().any(|name| name == "instructions" || name == "sampling"),
            "{listed:?}"
        );
    }
}
