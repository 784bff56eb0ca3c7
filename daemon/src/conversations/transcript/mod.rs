//! The text of every conversation, in SQLite. Losing KV never loses text.
//!
//! - A conversation is a tree of messages and a head. Edits and second answers are siblings: no
//!   message is overwritten. An answer that was cut short may go on. Only users delete text: a
//!   conversation, or a message with what follows it.
//! - A call that has answered is on disk (WAL, `synchronous = FULL`).
//! - An answer is `streaming` while it grows. After a crash it is `interrupted`, with the text of its
//!   last flush.
//! - Beside the text, each conversation has its timelines as tokens, one a branch; losing them only
//!   costs time.
//!
//! - Private conversations are in a second database, in memory; see `private`.
//!
//! Reading order: `schema`, `writer` (the thread), `private`, `tree` (finds and adds messages), `answer` (one that
//! grows), `answer_ends` (where timelines of copies end), `save_if`, `turn` (before a prompt and after an answer), `read`,
//! `change`, `search`, `recent`, `messages` (single ones), `library` (documents), `document_home`, `document_blocks`,
//! `conversation_export`, `finish` and `import` (conversations from elsewhere), `shared_texts` (of the shared tier),
//! `preferences`, `stale` (timelines without text), `deleted_words` (of the index of the search), `write_ahead_log`
//! (emptied after deletions and at the start).

mod answer;
mod answer_ends;
mod branch;
mod change;
mod continuation;
mod conversation_export;
mod deleted_words;
mod deletions;
mod document_blocks;
mod document_home;
mod error;
mod explanations;
mod finish;
mod import;
mod library;
mod messages;
mod place;
mod preferences;
mod private;
mod read;
mod recent;
mod save_if;
mod schema;
mod search;
mod shared_texts;
mod speed;
mod stale;
#[cfg(test)]
mod tests;
mod titles;
mod tokens;
mod tree;
mod turn;
mod write_ahead_log;
mod writer;

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use hob_slots::{ConversationId, ModelHash, Timestamp, Token};
use rusqlite::Connection;

use crate::wire::message::Message;
pub use answer::{ClosedAnswer, OpenAnswer};
pub use branch::{Branch, Window};
pub use change::{Change, Trashed};
pub use continuation::{Continuation, Continued};
pub use conversation_export::{
    ConversationExport, Extent, Node, VERSION, check_version, one_line, status,
};
use deletions::Deletions;
pub use deletions::{Deletion, TurnTicket};
pub use document_blocks::DocumentBlocks;
pub use document_home::DocumentHome;
pub use error::TranscriptError;
pub use explanations::SavedExplanation;
pub use import::{ImportedConversation, MergedHead};
pub use library::{DocumentEntry, StoredDocument, named as named_documents};
pub use messages::{DeletedMessages, Fork, Moved};
pub use place::After;
use private::Private;
pub use private::{PrivateRequest, PrivateText};
pub use read::{ConversationText, Listing, SavedMessage, Status, Summary};
pub use recent::RecentTurn;
pub use save_if::SaveIf;
pub use search::{Hit, SearchQuery, Snippet};
pub use shared_texts::SharedTextHash;
pub use titles::MAX_TITLE_CHARS;
pub use tree::AnswerRows;
pub use turn::{Append, HistoryQuery, TurnEnd, TurnQuery, TurnStart};
pub use writer::Pending;
use writer::Writer;

/// The database. Clones share it; dropping the last one closes it.
#[derive(Clone, Debug)]
pub struct Transcript {
    writer: Arc<Writer>,
    deletions: Deletions,
    /// The turn that writes through this handle.
    turn: Option<TurnTicket>,
    private: Arc<Private>,
}

impl Transcript {
    /// Opens or creates the database at `path`. Answers that a crash cut off become `interrupted`.
    ///
    /// # Errors
    /// When SQLite cannot open it, or a newer hobd wrote it.
    pub fn open(path: &Path, now: Timestamp) -> Result<Self, TranscriptError> {
        Self::open_with(path, PrivateText::new()?, now)
    }

    /// [`Self::open`] with the private conversations from before a restart within the process.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn open_with(
        path: &Path,
        private: PrivateText,
        now: Timestamp,
    ) -> Result<Self, TranscriptError> {
        create_private(path)
            .map_err(|source| TranscriptError::File { path: path.to_owned(), source })?;
        Self::start(Connection::open(path)?, private, now)
    }

    /// A database that disappears with its last clone.
    ///
    /// # Errors
    /// When SQLite fails.
    pub fn in_memory(now: Timestamp) -> Result<Self, TranscriptError> {
        Self::start(Connection::open_in_memory()?, PrivateText::new()?, now)
    }

    fn start(
        mut connection: Connection,
        private: PrivateText,
        now: Timestamp,
    ) -> Result<Self, TranscriptError> {
        connection.busy_timeout(writer::BUSY_TIMEOUT)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "secure_delete", true)?; // Deleted text becomes zeros.
        connection.set_prepared_statement_cache_capacity(schema::STATEMENTS);
        schema::migrate(&mut connection)?;
        end_streams(&connection)?;
        stale::delete(&connection, now)?;
        write_ahead_log::empty(&connection); // A crash may have left one that has deleted text.
        let writer = Arc::new(Writer::start(connection));
        let private = private.opened();
        Ok(Self { writer, deletions: Deletions::default(), turn: None, private })
    }

    /// Permission for a turn of `conversation`, to be asked for before it reads the history.
    ///
    /// # Errors
    /// [`TranscriptError::Deleted`] while the conversation is being deleted.
    pub fn ticket(&self, conversation: &ConversationId) -> Result<TurnTicket, TranscriptError> {
        self.deletions.ticket(conversation)
    }

    /// Permission for a turn of `of` to compute a document with this key, to be asked for before it reads the text.
    ///
    /// # Errors
    /// [`TranscriptError::Deleted`] while the document is being deleted.
    pub fn document_ticket(
        &self,
        key: &ConversationId,
        of: Option<&ConversationId>,
    ) -> Result<TurnTicket, TranscriptError> {
        self.deletions.ticket_of(key, of)
    }

    /// A handle whose writes are refused once the turn's conversation was deleted.
    #[must_use]
    pub fn of_turn(&self, turn: Option<TurnTicket>) -> Self {
        Self { turn, ..self.clone() }
    }

    /// Begins a deletion: what its turns write from now on is refused. To be held until text and KV
    /// are gone.
    pub fn begin_deletion(&self, conversation: &ConversationId) -> Deletion {
        self.deletions.begin(conversation)
    }

    /// [`Self::begin_deletion`]; `None` while a turn of the conversation has a ticket.
    pub fn begin_deletion_if_idle(&self, conversation: &ConversationId) -> Option<Deletion> {
        self.deletions.begin_if_idle(conversation)
    }

    /// `write`, refused once the turn's conversation was deleted.
    fn unless_deleted<T, W>(
        &self,
        write: W,
    ) -> impl FnOnce(&mut Connection) -> Result<T, TranscriptError> + use<T, W>
    where
        W: FnOnce(&mut Connection) -> Result<T, TranscriptError>,
    {
        let turn = self.turn.clone();
        move |connection| match turn {
            Some(turn) => turn.check().and_then(|()| write(connection)),
            None => write(connection),
        }
    }

    /// Stores a request that carries the whole history, and opens its answer. The walk follows equal
    /// messages; where the history differs from every stored one, a new branch begins.
    pub fn sync(
        &self,
        conversation: &ConversationId,
        messages: Vec<Message>,
        now: Timestamp,
    ) -> OpenAnswer {
        let id = conversation.clone();
        let store = move |connection: &mut _| tree::sync(connection, &id, &messages, now);
        let store = self.unless_deleted(store);
        OpenAnswer::open(self.writer_of(conversation).clone(), conversation.clone(), store)
    }

    /// Stores the new messages of a continuation, and opens their answer.
    pub fn append(
        &self,
        conversation: &ConversationId,
        continuation: Continuation,
        now: Timestamp,
    ) -> OpenAnswer {
        let id = conversation.clone();
        let store = move |connection: &mut _| tree::append(connection, &id, &continuation, now);
        let store = self.unless_deleted(store);
        OpenAnswer::open(self.writer_of(conversation).clone(), conversation.clone(), store)
    }

    /// Stores messages behind the last one, or as the first ones, with no answer. Returns their ids.
    pub fn add_messages(
        &self,
        conversation: &ConversationId,
        messages: Vec<Message>,
        now: Timestamp,
    ) -> Pending<Vec<i64>> {
        let id = conversation.clone();
        let add = move |connection: &mut Connection| tree::add(connection, &id, &messages, now);
        self.writer_of(conversation).write_change(self.unless_deleted(add))
    }

    /// Lets later prompts have the messages that `continuation` goes on with, behind the instructions and its
    /// summary of the older ones. It has no new message.
    pub fn shorten(
        &self,
        conversation: &ConversationId,
        continuation: Continuation,
    ) -> Pending<()> {
        let id = conversation.clone();
        let shorten =
            move |connection: &mut Connection| tree::shorten(connection, &id, &continuation);
        self.writer_of(conversation).write_change(self.unless_deleted(shorten))
    }

    /// The latest first.
    pub fn list(&self, listing: Listing) -> Pending<Vec<Summary>> {
        self.read_both(move |connection| read::list(connection, listing))
    }

    /// The conversations of [`Self::list`] that match, in its order.
    pub fn search(&self, query: SearchQuery, listing: Listing) -> Pending<Vec<Hit>> {
        self.read_both(move |connection| search::search(connection, &query, listing))
    }

    /// One conversation with all its branches; `None` if the id is unknown.
    pub fn get(&self, conversation: &ConversationId) -> Pending<Option<ConversationText>> {
        let (id, writer) = (conversation.clone(), self.writer_of(conversation));
        writer.read(move |connection| read::get(connection, &id))
    }

    /// Whether a conversation is stored.
    pub fn exists(&self, conversation: &ConversationId) -> Pending<bool> {
        let (id, writer) = (conversation.clone(), self.writer_of(conversation));
        writer.read(move |connection| read::exists(connection, &id))
    }

    /// The messages of a prompt that goes on behind `message`, which is its last one. `instructions`: in place of the
    /// conversation's.
    pub fn prompt_to(
        &self,
        conversation: &ConversationId,
        message: i64,
        instructions: Option<String>,
    ) -> Pending<Vec<Message>> {
        let (id, writer) = (conversation.clone(), self.writer_of(conversation));
        writer.read(move |connection| {
            continuation::prompt_to(connection, &id, message, &instructions)
        })
    }

    /// Changes title, pin, trash or head; `false` if the id is unknown.
    pub fn change(
        &self,
        conversation: &ConversationId,
        change: Change,
        now: Timestamp,
    ) -> Pending<bool> {
        let (id, writer) = (conversation.clone(), self.writer_of(conversation));
        writer.write_change(move |connection| change::apply(connection, &id, &change, now))
    }

    /// Saves a conversation from elsewhere under the id `wanted`, or under one like it.
    pub fn import(
        &self,
        wanted: ConversationId,
        export: ConversationExport,
        now: Timestamp,
    ) -> Pending<ImportedConversation> {
        let private = self.private.clone();
        self.writer.write_change(move |connection| {
            import::import(connection, &wanted, &export, |id| private.has(id), now)
        })
    }

    /// Adds what `export` has of the conversation and this database lacks.
    pub fn merge(
        &self,
        conversation: ConversationId,
        export: ConversationExport,
        head: MergedHead,
        now: Timestamp,
    ) -> Pending<()> {
        let merge = move |connection: &mut Connection| {
            import::merge(connection, &conversation, &export, head, now)
        };
        self.writer.write_change(self.unless_deleted(merge))
    }

    /// The latest answers over all conversations.
    pub fn recent(&self, max_turns: usize) -> Pending<Vec<RecentTurn>> {
        self.writer.read(move |connection| recent::list(connection, max_turns))
    }

    /// Deletes a conversation with every branch; `false` if the id is unknown.
    pub fn delete(&self, conversation: &ConversationId) -> Pending<bool> {
        let is_private = self.is_private(conversation);
        let (id, named) = (conversation.clone(), self.named_in_private(is_private));
        self.close_private(conversation);
        self.writer_for(is_private)
            .write_change(move |connection| change::delete(connection, &id, &named.wait()?))
    }

    /// The trash, the oldest first.
    pub fn trash(&self) -> Pending<Vec<Trashed>> {
        self.read_both(|connection| change::trash(connection))
    }

    /// Whether the conversation was not restored since.
    pub fn is_still_trashed(&self, trashed: &Trashed) -> Pending<bool> {
        let (writer, trashed) = (self.writer_of(&trashed.conversation), trashed.clone());
        writer.read(move |connection| change::is_still_trashed(connection, &trashed))
    }

    /// Deletes a conversation unless it was restored meanwhile.
    pub fn delete_trashed(&self, trashed: &Trashed) -> Pending<bool> {
        let is_private = self.is_private(&trashed.conversation);
        let (trashed, named) = (trashed.clone(), self.named_in_private(is_private));
        self.writer_for(is_private).write_change(move |connection| {
            change::delete_trashed(connection, &trashed, &named.wait()?)
        })
    }

    /// Whether no answer of the conversation grows.
    pub fn is_idle(&self, conversation: &ConversationId) -> Pending<bool> {
        let (id, writer) = (conversation.clone(), self.writer_of(conversation));
        writer.read(move |connection| match read::check_idle(connection, &id) {
            Err(TranscriptError::Answering) => Ok(false),
            idle => idle.map(|()| true),
        })
    }

    /// The last timeline under this model; empty when none is saved.
    pub fn tokens(
        &self,
        conversation: &ConversationId,
        fingerprint: ModelHash,
    ) -> Pending<Vec<Token>> {
        let (id, writer) = (conversation.clone(), self.writer_of(conversation));
        writer.read(move |connection| tokens::load(connection, &id, fingerprint))
    }

    /// The length of the last timeline of each of these conversations that has one.
    pub fn timeline_lengths(
        &self,
        of: BTreeSet<ConversationId>,
        fingerprint: ModelHash,
    ) -> Pending<Vec<(ConversationId, usize)>> {
        self.read_both(move |connection| tokens::lengths(connection, &of, fingerprint))
    }

    /// Saves a timeline in the background.
    pub fn put_tokens(
        &self,
        conversation: &ConversationId,
        fingerprint: ModelHash,
        timeline: Vec<Token>,
        save_if: SaveIf,
        now: Timestamp,
    ) {
        let (id, writer) = (conversation.clone(), self.writer_of(conversation));
        writer.post(move |connection| {
            tokens::save(connection, &id, fingerprint, &timeline, save_if, now)
        });
    }
}

/// No answer grows: the daemon that wrote it has ended.
fn end_streams(connection: &Connection) -> Result<(), TranscriptError> {
    connection
        .execute("UPDATE messages SET status = 'interrupted' WHERE status = 'streaming'", [])?;
    Ok(())
}

/// Creates the file, if it is missing, with mode 0600; SQLite gives the files beside it the same.
fn create_private(path: &Path) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path).map(drop)
}
