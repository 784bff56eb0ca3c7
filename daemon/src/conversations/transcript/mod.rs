//! The text of every conversation, in SQLite. Losing KV never loses what is here.
//!
//! - A conversation is a tree of messages and a head. Edits and second answers are siblings:
//!   nothing is ever overwritten, and only deleting a conversation deletes text.
//! - What a call has answered is on the disk (WAL, `synchronous = FULL`).
//! - An answer is `streaming` while it grows; if the process dies it is `interrupted` at the next
//!   start, with the text of the last flush.
//! - Beside the text lies the last timeline as tokens; it only saves time.
//!
//! Reading order: `schema`, `writer` (the thread), `tree` (walking and growing), `read`, `answer`,
//! `change`, `search`, `recent`, `import`.

mod answer;
mod change;
mod document;
mod error;
mod explanations;
mod finish;
mod import;
mod place;
mod read;
mod recent;
mod schema;
mod search;
mod speed;
#[cfg(test)]
mod tests;
mod titles;
mod tokens;
mod tree;
mod turn;
mod writer;

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hob_slots::{ConversationId, ModelHash, Timestamp, Token};
use rusqlite::Connection;
use serde_json::Value;

use crate::wire::message::Message;
pub use answer::{ClosedAnswer, OpenAnswer};
pub use change::Change;
pub use document::{Document, Extent, Node, VERSION, beside, check_version, one_line, status};
pub use error::TranscriptError;
pub use explanations::SavedExplanation;
pub use import::ImportedConversation;
pub use place::After;
pub use read::{ConversationText, SavedMessage, Summary};
pub use recent::RecentTurn;
pub use search::{Hit, SearchQuery, Snippet};
pub use titles::MAX_TITLE_CHARS;
pub use tree::{Continuation, Grown};
pub use turn::{Append, TurnEnd, TurnQuery, TurnStart};
pub use writer::Pending;
use writer::Writer;

/// How a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Whole.
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

    fn parse(text: &str) -> Self {
        match text {
            "streaming" => Self::Streaming,
            "interrupted" => Self::Interrupted,
            _ => Self::Complete, // The table's CHECK allows no fourth word.
        }
    }
}

/// The database. Clones share it; the last one to go closes it.
#[derive(Clone, Debug)]
pub struct Transcript {
    writer: Arc<Writer>,
}

impl Transcript {
    /// Opens or creates the database at `path`; answers that were cut off become `interrupted`.
    ///
    /// # Errors
    /// When SQLite cannot open it, or a newer hobd wrote it.
    pub fn open(path: &Path, now: Timestamp) -> Result<Self, TranscriptError> {
        private_file(path)
            .map_err(|source| TranscriptError::File { path: path.to_owned(), source })?;
        Self::start(Connection::open(path)?, now)
    }

    /// A database that is gone with its last clone.
    ///
    /// # Errors
    /// When SQLite refuses.
    pub fn in_memory(now: Timestamp) -> Result<Self, TranscriptError> {
        Self::start(Connection::open_in_memory()?, now)
    }

    fn start(mut connection: Connection, now: Timestamp) -> Result<Self, TranscriptError> {
        connection.busy_timeout(Duration::from_secs(5))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        schema::migrate(&mut connection)?;
        connection
            .execute("UPDATE messages SET status = 'interrupted' WHERE status = 'streaming'", [])?;
        tokens::forget_stale(&connection, now)?;
        explanations::forget_stale(&connection)?;
        Ok(Self { writer: Arc::new(Writer::start(connection)) })
    }

    /// Stores a request that carries the whole history, and opens its answer. The walk follows
    /// equal messages; where the history differs from every stored one, it becomes a new branch.
    pub fn sync(
        &self,
        conversation: &ConversationId,
        messages: Vec<Message>,
        now: Timestamp,
    ) -> OpenAnswer {
        let id = conversation.clone();
        OpenAnswer::open(self.writer.clone(), conversation.clone(), move |connection| {
            tree::sync(connection, &id, &messages, now)
        })
    }

    /// What an append would continue: the messages that the model has to see, the new ones
    /// included. No new messages: the last answer again, or, with `after`, one to that message.
    pub fn continuation(
        &self,
        conversation: &ConversationId,
        after: Option<After>,
        new: Vec<Message>,
    ) -> Pending<Continuation> {
        let conversation = conversation.clone();
        self.writer
            .send(move |connection| tree::continuation(connection, &conversation, after, new))
    }

    /// Stores the new messages behind `continuation`, and opens their answer.
    pub fn append(
        &self,
        conversation: &ConversationId,
        continuation: Continuation,
        now: Timestamp,
    ) -> OpenAnswer {
        let id = conversation.clone();
        OpenAnswer::open(self.writer.clone(), conversation.clone(), move |connection| {
            tree::append(connection, &id, &continuation, now)
        })
    }

    /// All conversations, the latest first; those in the trash, or the others.
    pub fn list(&self, trashed: bool) -> Pending<Vec<Summary>> {
        self.writer.ask(move |connection| read::list(connection, trashed))
    }

    /// Those of the list that have what is looked for, in its order.
    pub fn search(&self, query: SearchQuery, trashed: bool) -> Pending<Vec<Hit>> {
        self.writer.ask(move |connection| search::search(connection, &query, trashed))
    }

    /// One conversation, with all its branches; `None` when there is none of that name.
    pub fn get(&self, conversation: &ConversationId) -> Pending<Option<ConversationText>> {
        let conversation = conversation.clone();
        self.writer.ask(move |connection| read::get(connection, &conversation))
    }

    /// Changes what is known of it; `false` when there is none of that name.
    pub fn change(
        &self,
        conversation: &ConversationId,
        change: Change,
        now: Timestamp,
    ) -> Pending<bool> {
        let conversation = conversation.clone();
        self.writer.send(move |connection| change::apply(connection, &conversation, &change, now))
    }

    /// Takes in a conversation from elsewhere, under this name or one like it.
    pub fn import(
        &self,
        wanted: ConversationId,
        document: Document,
        now: Timestamp,
    ) -> Pending<ImportedConversation> {
        self.writer.send(move |connection| import::import(connection, &wanted, &document, now))
    }

    /// The latest answers over all conversations.
    pub fn recent(&self, most: usize) -> Pending<Vec<RecentTurn>> {
        self.writer.ask(move |connection| recent::list(connection, most))
    }

    /// Deletes it with every branch; `false` when there is none of that name.
    pub fn delete(&self, conversation: &ConversationId) -> Pending<bool> {
        let conversation = conversation.clone();
        self.writer.send(move |connection| change::remove(connection, &conversation))
    }

    /// What lies in the trash and since when, the longest first.
    pub fn trash(&self) -> Pending<Vec<(ConversationId, Timestamp)>> {
        self.writer.send(|connection| change::trash(connection))
    }

    /// Deletes it, if it has lain in the trash ever since.
    pub fn delete_trashed(&self, conversation: &ConversationId, since: Timestamp) -> Pending<bool> {
        let conversation = conversation.clone();
        self.writer.send(move |connection| change::remove_trashed(connection, &conversation, since))
    }

    /// The last timeline under this model; empty when none is known.
    pub fn tokens(
        &self,
        conversation: &ConversationId,
        fingerprint: ModelHash,
    ) -> Pending<Vec<Token>> {
        let conversation = conversation.clone();
        self.writer.send(move |connection| tokens::load(connection, &conversation, fingerprint))
    }

    /// Remembers the timeline; `beside_text`: only while the conversation has text. Nobody waits
    /// for it: losing it only loses time.
    pub fn put_tokens(
        &self,
        conversation: &ConversationId,
        fingerprint: ModelHash,
        timeline: Vec<Token>,
        beside_text: bool,
        now: Timestamp,
    ) {
        let conversation = conversation.clone();
        self.writer.post(move |connection| {
            tokens::save(connection, &conversation, fingerprint, &timeline, beside_text, now)
        });
    }
}

impl Transcript {
    /// Remembers why the conversation computed what was computed before, in place of the last time;
    /// `beside_text`: only while the conversation has text. Nobody waits for it.
    pub fn put_explanation(
        &self,
        conversation: &ConversationId,
        explanation: &Value,
        beside_text: bool,
        now: Timestamp,
    ) {
        let (conversation, explanation) = (conversation.clone(), explanation.to_string());
        self.writer.post(move |connection| {
            explanations::save(connection, &conversation, &explanation, beside_text, now)
        });
    }

    /// Remembers how fast the model computes prompts. Nobody waits for it.
    pub fn put_prefill_speed(&self, fingerprint: ModelHash, tokens_per_second: f64) {
        self.writer.post(move |connection| speed::save(connection, fingerprint, tokens_per_second));
    }

    /// How fast it was when that was measured last.
    pub fn prefill_speed(&self, fingerprint: ModelHash) -> Pending<Option<f64>> {
        self.writer.send(move |connection| speed::load(connection, fingerprint))
    }

    /// What was remembered last.
    pub fn explanation(&self, conversation: &ConversationId) -> Pending<Option<SavedExplanation>> {
        let conversation = conversation.clone();
        self.writer.send(move |connection| explanations::load(connection, &conversation))
    }
}

/// Makes the file, where it is missing, for its owner alone; SQLite gives the files beside it the
/// same mode.
fn private_file(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}
