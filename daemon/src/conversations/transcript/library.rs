//! The texts of documents, and which messages name them.
//!
//! - A document is stored once, under the hash of its text. Its first name stays: the name is part of
//!   prompts, and another one would compute them anew.
//! - A document in the library stays until it is removed. Another one belongs to the conversations
//!   whose messages name it, and is deleted with the last of them. Deleted messages count while they can
//!   be restored. On disk it may belong to a private conversation: then the trash's next pass deletes it.
//! - Which messages name a document is recorded by a trigger, whatever writes the message.
//! - A list of documents reads no text: an index has its columns.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hob_slots::{AdjustedTime, ConversationId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::tree::millis;
use super::writer::Pending;
use super::{DocumentHome, Transcript, TranscriptError, write_ahead_log};
use crate::prompt::documents::{DocumentText, DocumentTexts};
use crate::wire::document::DocumentId;
use crate::wire::message::Message;

/// A document without its text. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentEntry {
    pub id: DocumentId,
    pub name: String,
    /// `text` or `pdf`: what the text was read from.
    pub kind: String,
    /// Length of the text.
    pub bytes: u64,
    pub created_at: i64,
    /// The last message of a conversation about it, or its creation.
    pub used_at: i64,
    pub in_library: bool,
    /// Conversations that name it.
    pub conversations: u64,
}

/// A document to store, or to export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDocument {
    pub name: String,
    pub kind: String,
    pub text: String,
}

impl StoredDocument {
    pub fn id(&self) -> DocumentId {
        DocumentId::of_text(&self.text)
    }
}

impl From<StoredDocument> for DocumentText {
    fn from(document: StoredDocument) -> Self {
        Self { name: document.name, text: document.text }
    }
}

const ENTRY: &str = "SELECT id, name, kind, bytes, created_at, in_library,
    (SELECT count(DISTINCT messages.conversation) FROM message_documents
         JOIN messages ON messages.id = message_documents.message
         WHERE message_documents.document = documents.id),
    (SELECT max(conversations.updated_at) FROM message_documents
         JOIN messages ON messages.id = message_documents.message
         JOIN conversations ON conversations.id = messages.conversation
         WHERE message_documents.document = documents.id)
    FROM documents";

/// No message names it, neither a stored one nor one that can be restored.
const UNNAMED: &str = "id NOT IN (SELECT document FROM message_documents)
    AND NOT EXISTS (SELECT 1 FROM deleted_messages WHERE instr(content, documents.id) > 0)";

impl Transcript {
    /// Stores a document, or puts one that is stored already into the library. One outside the library then has
    /// another hour until a message names it.
    pub fn put_document(
        &self,
        document: StoredDocument,
        home: DocumentHome,
        now: Timestamp,
    ) -> Pending<()> {
        self.writer_for(home == DocumentHome::PrivateChat)
            .write(move |connection| put(connection, &document, home, now))
    }

    /// The documents of both databases, the latest first; the private ones come first.
    pub fn documents(&self) -> Pending<Vec<DocumentEntry>> {
        self.read_both_always(list)
    }

    /// Names and texts of those that are stored.
    ///
    /// # Errors
    /// When a database cannot be read.
    pub async fn document_texts(
        &self,
        ids: BTreeSet<DocumentId>,
        with_private: bool,
    ) -> Result<DocumentTexts, TranscriptError> {
        let found = self.stored_documents(ids, with_private).await?.into_iter();
        Ok(found.map(|(id, document)| (id, document.into())).collect())
    }

    /// The documents that are stored. `with_private`: also those that are in memory only.
    ///
    /// # Errors
    /// When a database cannot be read.
    pub async fn stored_documents(
        &self,
        mut ids: BTreeSet<DocumentId>,
        with_private: bool,
    ) -> Result<BTreeMap<DocumentId, StoredDocument>, TranscriptError> {
        let mut found = BTreeMap::new();
        for is_private in [true, false] {
            if ids.is_empty() || is_private && !with_private {
                continue;
            }
            let asked = ids.clone();
            let writer = self.writer_for(is_private);
            let read = writer.read(move |connection| texts(connection, &asked)).done().await?;
            ids.retain(|id| !read.contains_key(id));
            found.extend(read);
        }
        Ok(found)
    }

    /// The conversations whose messages name the document, those that can be restored included.
    pub fn conversations_about(&self, id: &DocumentId) -> Pending<Vec<ConversationId>> {
        let id = id.clone();
        self.read_both_always(move |connection| about(connection, &id))
    }

    /// The documents that would be deleted with the conversation.
    pub fn documents_only_of(&self, conversation: &ConversationId) -> Pending<Vec<DocumentId>> {
        let is_private = self.is_private(conversation);
        let (id, named) = (conversation.clone(), self.named_in_private(is_private));
        self.writer_for(is_private).read(move |connection| only_of(connection, &id, &named.wait()?))
    }

    /// The documents of the database on disk that stay because a message of a private conversation names them.
    /// `is_private`: for the database in memory, whose own rows say so. To be waited for on the thread of the
    /// database that [`Self::writer_for`] returns.
    pub(super) fn named_in_private(&self, is_private: bool) -> Pending<BTreeSet<DocumentId>> {
        self.private.writer.read(move |connection| {
            if is_private { Ok(BTreeSet::new()) } else { all_named(connection) }
        })
    }

    /// Deletes a document with the timelines and explanations of the conversations that name it: they
    /// contain its text. `false` if it is not stored.
    ///
    /// # Errors
    /// When a database cannot be written.
    pub async fn delete_document(&self, id: &DocumentId) -> Result<bool, TranscriptError> {
        let mut deleted = false;
        for is_private in [true, false] {
            let id = id.clone();
            let delete = move |connection: &mut Connection| delete(connection, &id);
            deleted |= self.writer_for(is_private).write(delete).done().await?;
        }
        Ok(deleted)
    }

    /// Deletes a document outside the library that no message names. Returns its text.
    ///
    /// # Errors
    /// When a database cannot be written.
    pub async fn delete_unused_document(
        &self,
        id: &DocumentId,
    ) -> Result<Option<String>, TranscriptError> {
        let mut deleted = None;
        for is_private in [true, false] {
            let (id, named) = (id.clone(), self.named_in_private(is_private));
            let unused = move |connection: &mut Connection| {
                if named.wait()?.contains(&id) {
                    return Ok(None);
                }
                let sql = format!(
                    "DELETE FROM documents WHERE NOT in_library AND id = ?1 AND {UNNAMED}
                     RETURNING text"
                );
                let text: Option<String> =
                    connection.query_row(&sql, [id.as_str()], |row| row.get(0)).optional()?;
                if text.is_some() {
                    write_ahead_log::empty(connection);
                }
                Ok(text)
            };
            deleted = self.writer_for(is_private).write(unused).done().await?.or(deleted);
        }
        Ok(deleted)
    }

    /// Deletes documents outside the library that no message names and that were stored longer than `kept` ago. Returns
    /// their texts.
    ///
    /// # Errors
    /// When a database cannot be written.
    pub async fn delete_unused_documents(
        &self,
        now: &AdjustedTime,
        kept: Duration,
    ) -> Result<Vec<String>, TranscriptError> {
        let mut deleted = Vec::new();
        for is_private in [true, false] {
            let (now, named) = (now.clone(), self.named_in_private(is_private));
            let unused = move |connection: &mut Connection| {
                delete_unused(connection, |stored| now.age(stored) > kept, &named.wait()?)
            };
            deleted.extend(self.writer_for(is_private).write(unused).done().await?);
        }
        Ok(deleted)
    }
}

/// See [`Transcript::put_document`].
pub(super) fn put(
    connection: &Connection,
    document: &StoredDocument,
    home: DocumentHome,
    now: Timestamp,
) -> Result<(), TranscriptError> {
    connection
        .prepare_cached(
            "INSERT INTO documents (id, name, kind, text, created_at, in_library, bytes)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT DO UPDATE SET in_library = max(in_library, excluded.in_library),
                 created_at = CASE WHEN in_library THEN created_at
                                   ELSE max(created_at, excluded.created_at) END",
        )?
        .execute(params![
            document.id().as_str(),
            document.name,
            document.kind,
            document.text,
            millis(now),
            home == DocumentHome::Library,
            document.text.len() as u64,
        ])?;
    Ok(())
}

fn list(connection: &mut Connection) -> Result<Vec<DocumentEntry>, TranscriptError> {
    let mut select = connection.prepare_cached(&format!("{ENTRY} ORDER BY created_at DESC, id"))?;
    let rows = select.query_map([], entry)?.collect::<Result<Vec<_>, _>>()?;
    Ok(rows.into_iter().flatten().collect())
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Option<DocumentEntry>> {
    let Ok(id) = row.get::<_, String>(0)?.parse() else { return Ok(None) };
    let created_at = row.get(4)?;
    Ok(Some(DocumentEntry {
        id,
        name: row.get(1)?,
        kind: row.get(2)?,
        bytes: row.get(3)?,
        created_at,
        in_library: row.get(5)?,
        conversations: row.get(6)?,
        used_at: row.get::<_, Option<i64>>(7)?.unwrap_or(created_at).max(created_at),
    }))
}

/// Names and texts of those that are stored.
pub(super) fn texts(
    connection: &Connection,
    ids: &BTreeSet<DocumentId>,
) -> Result<BTreeMap<DocumentId, StoredDocument>, TranscriptError> {
    let mut select =
        connection.prepare_cached("SELECT name, kind, text FROM documents WHERE id = ?1")?;
    let mut found = BTreeMap::new();
    for id in ids {
        let document = select.query_row([id.as_str()], |row| {
            Ok(StoredDocument { name: row.get(0)?, kind: row.get(1)?, text: row.get(2)? })
        });
        if let Some(document) = document.optional()? {
            found.insert(id.clone(), document);
        }
    }
    Ok(found)
}

/// The documents that messages name.
pub fn named<'m>(messages: impl IntoIterator<Item = &'m Message>) -> BTreeSet<DocumentId> {
    let documents = messages.into_iter().flat_map(Message::documents);
    documents.map(|document| document.id).collect()
}

fn about(connection: &Connection, id: &DocumentId) -> Result<Vec<ConversationId>, TranscriptError> {
    let mut select = connection.prepare_cached(
        "SELECT messages.conversation FROM message_documents
         JOIN messages ON messages.id = message_documents.message
         WHERE message_documents.document = ?1
         UNION SELECT conversation FROM deleted_messages WHERE instr(content, ?1) > 0",
    )?;
    let rows = select.query_map([id.as_str()], |row| row.get::<_, String>(0))?;
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    Ok(rows.into_iter().filter_map(|id| ConversationId::new(&id).ok()).collect())
}

/// The documents that messages of this database name, those that can be restored included.
fn all_named(connection: &Connection) -> Result<BTreeSet<DocumentId>, TranscriptError> {
    let mut select =
        connection.prepare_cached("SELECT DISTINCT document FROM message_documents")?;
    let stored = ids(select.query_map([], |row| row.get(0))?)?;
    let mut select = connection.prepare_cached("SELECT content FROM deleted_messages")?;
    let rows = select.query_map([], |row| row.get::<_, String>(0))?;
    let contents = rows.collect::<Result<Vec<_>, _>>()?;
    let deleted: Vec<Message> =
        contents.iter().filter_map(|content| Message::from_stored(content)).collect();
    Ok(stored.into_iter().chain(named(&deleted)).collect())
}

/// The documents outside the library that this conversation names and no other does. `elsewhere`: those that the
/// other database names.
pub(super) fn only_of(
    connection: &Connection,
    conversation: &ConversationId,
    elsewhere: &BTreeSet<DocumentId>,
) -> Result<Vec<DocumentId>, TranscriptError> {
    let mut select = connection.prepare_cached(
        "SELECT id FROM documents WHERE NOT in_library
         AND (EXISTS (SELECT 1 FROM message_documents
                 JOIN messages ON messages.id = message_documents.message
                 WHERE document = documents.id AND conversation = ?1)
             OR EXISTS (SELECT 1 FROM deleted_messages
                 WHERE conversation = ?1 AND instr(content, documents.id) > 0))
         AND NOT EXISTS (SELECT 1 FROM message_documents
             JOIN messages ON messages.id = message_documents.message
             WHERE document = documents.id AND conversation <> ?1)
         AND NOT EXISTS (SELECT 1 FROM deleted_messages
             WHERE conversation <> ?1 AND instr(content, documents.id) > 0)",
    )?;
    let mut only = ids(select.query_map([conversation.as_str()], |row| row.get(0))?)?;
    only.retain(|id| !elsewhere.contains(id));
    Ok(only)
}

pub(super) fn delete_all(
    connection: &Connection,
    ids: &[DocumentId],
) -> Result<(), TranscriptError> {
    let mut delete = connection.prepare_cached("DELETE FROM documents WHERE id = ?1")?;
    for id in ids {
        delete.execute([id.as_str()])?;
    }
    Ok(())
}

fn delete(connection: &mut Connection, id: &DocumentId) -> Result<bool, TranscriptError> {
    let transaction = connection.transaction()?;
    for conversation in about(&transaction, id)? {
        for table in ["tokens", "branches", "explanations"] {
            let sql = format!("DELETE FROM {table} WHERE conversation = ?1");
            transaction.execute(&sql, [conversation.as_str()])?;
        }
    }
    let deleted = transaction.execute("DELETE FROM documents WHERE id = ?1", [id.as_str()])?;
    transaction.commit()?;
    write_ahead_log::empty(connection);
    Ok(deleted == 1)
}

/// `is_due`: of the time at which a document was stored. `elsewhere`: those that the other database names.
fn delete_unused(
    connection: &mut Connection,
    is_due: impl Fn(Timestamp) -> bool,
    elsewhere: &BTreeSet<DocumentId>,
) -> Result<Vec<String>, TranscriptError> {
    let transaction = connection.transaction()?;
    let mut unused = {
        let mut select = transaction.prepare_cached(&format!(
            "SELECT id, created_at FROM documents WHERE NOT in_library AND {UNNAMED}"
        ))?;
        let rows =
            select.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
        let rows = rows.collect::<Result<Vec<_>, _>>()?.into_iter();
        let due = rows.filter(|(_, at)| is_due(Timestamp(u64::try_from(*at).unwrap_or(0))));
        ids(due.map(|(id, _)| Ok(id)))?
    };
    unused.retain(|id| !elsewhere.contains(id));
    let mut texts = Vec::with_capacity(unused.len());
    for id in &unused {
        let mut delete =
            transaction.prepare_cached("DELETE FROM documents WHERE id = ?1 RETURNING text")?;
        texts.push(delete.query_row([id.as_str()], |row| row.get(0))?);
    }
    transaction.commit()?;
    if !texts.is_empty() {
        write_ahead_log::empty(connection);
    }
    Ok(texts)
}

fn ids(
    rows: impl Iterator<Item = rusqlite::Result<String>>,
) -> Result<Vec<DocumentId>, TranscriptError> {
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    Ok(rows.iter().filter_map(|id| id.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversations::transcript::schema;

    #[test]
    fn a_document_that_is_added_again_has_another_hour_until_a_message_names_it() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection).unwrap();
        let document = |text: &str| StoredDocument {
            name: "a.txt".to_owned(),
            kind: "text".to_owned(),
            text: text.to_owned(),
        };
        let (waiting, kept) = (document("A castle."), document("A mill."));
        put(&connection, &kept, DocumentHome::Library, Timestamp(1_000)).unwrap();
        for at in [1_000, 5_000] {
            put(&connection, &waiting, DocumentHome::Chat, Timestamp(at)).unwrap();
            put(&connection, &kept, DocumentHome::Chat, Timestamp(at)).unwrap();
        }
        let times = list(&mut connection).unwrap().into_iter();
        let times: Vec<(bool, i64)> = times.map(|it| (it.in_library, it.created_at)).collect();
        assert_eq!(times, [(false, 5_000), (true, 1_000)]);
        let mut delete = |before: u64, elsewhere: &BTreeSet<DocumentId>| {
            let is_due = |stored: Timestamp| stored < Timestamp(before);
            delete_unused(&mut connection, is_due, elsewhere).unwrap()
        };
        assert!(delete(4_000, &BTreeSet::new()).is_empty());
        assert!(
            delete(6_000, &BTreeSet::from([waiting.id()])).is_empty(),
            "a private chat names it"
        );
        assert_eq!(delete(6_000, &BTreeSet::new()), [waiting.text]);
    }

    #[test]
    fn a_list_of_documents_reads_no_text() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection).unwrap();
        let plan = format!("EXPLAIN QUERY PLAN {ENTRY} ORDER BY created_at DESC, id");
        let mut select = connection.prepare(&plan).unwrap();
        let steps = select.query_map([], |row| row.get::<_, String>("detail")).unwrap();
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        let list = "SCAN documents USING COVERING INDEX documents_by_time";
        assert!(steps.iter().any(|step| step == list), "{steps:?}");
        assert!(!steps.iter().any(|step| step.contains("TEMP B-TREE FOR ORDER")), "{steps:?}");
    }
}
