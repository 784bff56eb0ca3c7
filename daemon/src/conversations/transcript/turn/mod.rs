//! The two visits of a turn to the database thread: one before its prompt, one after its answer.
//!
//! - The first reads everything that rendering a prompt needs.
//! - The second is one transaction: the answer, the timeline and the explanation are committed
//!   together, or none of them is.
//! - Between the two only the request's text and throttled flushes of the answer are written.

use std::collections::BTreeSet;

use hob_slots::{ConversationId, ModelHash, Timestamp, Token};
use rusqlite::Connection;
use serde_json::Value;

use super::answer::ClosedAnswer;
use super::continuation::{self, Continuation};
use super::writer::Pending;
use super::{
    After, SaveIf, Transcript, TranscriptError, TurnTicket, answer_ends, explanations, library,
    read, speed, tokens,
};
use crate::prompt::DocumentTexts;
use crate::wire::document::DocumentId;
use crate::wire::message::Message;

/// What to read before a prompt is rendered.
#[derive(Clone, Debug)]
pub struct TurnQuery {
    pub fingerprint: ModelHash,
    /// The conversation whose last timeline the prompt probably continues.
    pub timeline_of: Option<ConversationId>,
    pub history: HistoryQuery,
    /// Documents to read beside those of the history.
    pub documents: BTreeSet<DocumentId>,
    /// Whether they may be private ones.
    pub is_private: bool,
    /// Whether to read the prefill speed that was measured last.
    pub reads_speed: bool,
}

/// Which messages of a conversation to read for a prompt.
#[derive(Clone, Debug, Default)]
pub enum HistoryQuery {
    #[default]
    Nothing,
    /// Those in front of new ones.
    Append(Append),
    /// Those that the request repeats. It has all messages of the prompt, and prompts may leave out older ones.
    Whole { conversation: ConversationId, messages: Vec<Message> },
}

/// New messages for a saved conversation. Without any, its last answer is generated again, or,
/// with `after`, an answer to that message. With `continues`, the last answer or the answer `after`
/// goes on.
#[derive(Clone, Debug)]
pub struct Append {
    pub conversation: ConversationId,
    pub after: Option<After>,
    pub new: Vec<Message>,
    pub continues: bool,
    /// What stands in front of the conversation from now on; `None`: as before.
    pub instructions: Option<String>,
}

/// What [`Transcript::begin_turn`] read.
#[derive(Clone, Debug, Default)]
pub struct TurnStart {
    /// `None` for [`HistoryQuery::Nothing`].
    pub continuation: Option<Continuation>,
    /// The last timeline under this model, and then those of other branches.
    pub timelines: Vec<Vec<Token>>,
    /// Parameters of the conversation's answers, as they were set.
    pub sampling: Option<Value>,
    /// The documents that the messages name.
    pub documents: DocumentTexts,
    pub prefill_tokens_per_second: Option<f64>,
}

/// What to write after an answer.
#[derive(Debug)]
pub struct TurnEnd {
    pub fingerprint: ModelHash,
    /// The text of the answer, where the request has any in the database.
    pub answer: Option<ClosedAnswer>,
    pub timeline: Option<(ConversationId, Vec<Token>)>,
    /// Why the turn computed tokens that had been computed before.
    pub explanation: Option<(ConversationId, Value)>,
    /// Of the timeline and the explanation.
    pub save_if: SaveIf,
    /// Write to the database in memory.
    pub is_private: bool,
    pub now: Timestamp,
}

impl TurnQuery {
    /// Reads nothing. `fingerprint`: of the model that later fields are about.
    pub fn nothing(fingerprint: ModelHash) -> Self {
        Self {
            fingerprint,
            timeline_of: None,
            history: HistoryQuery::Nothing,
            documents: BTreeSet::new(),
            is_private: false,
            reads_speed: false,
        }
    }

    fn reads_nothing(&self) -> bool {
        self.conversation().is_none() && self.documents.is_empty() && !self.reads_speed
    }

    fn conversation(&self) -> Option<&ConversationId> {
        let of_history = match &self.history {
            HistoryQuery::Nothing => None,
            HistoryQuery::Append(Append { conversation, .. })
            | HistoryQuery::Whole { conversation, .. } => Some(conversation),
        };
        self.timeline_of.as_ref().or(of_history)
    }
}

impl Transcript {
    /// Reads what the prompt of a turn needs, in one visit; a query for nothing makes none.
    pub async fn begin_turn(&self, query: TurnQuery) -> Result<TurnStart, TranscriptError> {
        if query.reads_nothing() {
            return Ok(TurnStart::default());
        }
        let writer = query.conversation().map_or(&self.writer, |id| self.writer_of(id));
        let (asked, is_private) = (query.documents.clone(), query.is_private);
        let mut start = writer.read(move |connection| read(connection, query)).done().await?;
        let history = start.continuation.iter().flat_map(|continuation| &continuation.history);
        let missing = library::named(history).into_iter().chain(asked);
        let missing = missing.filter(|id| !start.documents.contains_key(id)).collect();
        // A private conversation may name a document of the library.
        start.documents.extend(self.document_texts(missing, is_private).await?);
        Ok(start)
    }

    /// Writes what a turn leaves, in one transaction. The result of a complete answer arrives once
    /// its text is on disk; for anything else there is none to wait for, and failures are logged.
    /// A failure that may pass, such as one without room, is an error, and the writer repeats the write until it
    /// succeeds. Once the conversation, or a document of the request, was deleted, nothing is written but that the
    /// answer has ended.
    pub fn end_turn(&self, end: TurnEnd) -> Option<Pending<()>> {
        let writer = self.writer_for(end.is_private);
        let is_complete = end.answer.as_ref().is_some_and(ClosedAnswer::is_complete);
        if end.answer.is_none() && end.timeline.is_none() && end.explanation.is_none() {
            return None;
        }
        let turn = self.turn.clone();
        let write = move |connection: &mut Connection| {
            match turn.as_ref().map_or(Ok(()), TurnTicket::check) {
                Ok(()) => end.write(connection),
                // A conversation stays where only a document was removed. While a row streams, it cannot be changed.
                Err(refused) => end.interrupt(connection).and(Err(refused)),
            }
        };
        if is_complete {
            return Some(writer.write_until_stored(write));
        }
        writer.post_until_stored(move |connection| match write(connection) {
            Err(TranscriptError::Deleted) => Ok(()),
            written => written,
        });
        None
    }
}

fn read(connection: &Connection, query: TurnQuery) -> Result<TurnStart, TranscriptError> {
    let TurnQuery { fingerprint, timeline_of, history, documents, reads_speed, .. } = query;
    let sampling = match &timeline_of {
        Some(conversation) => read::sampling(connection, conversation)?,
        None => None,
    };
    let continuation = match history {
        HistoryQuery::Nothing => None,
        HistoryQuery::Append(append) => Some(continuation::continuation(connection, append)?),
        HistoryQuery::Whole { conversation, messages } => {
            Some(continuation::of_whole(connection, &conversation, &messages)?)
        }
    };
    let history = continuation.iter().flat_map(|continuation| &continuation.history);
    let named = library::named(history).into_iter().chain(documents).collect();
    let stored = library::texts(connection, &named)?;
    let timelines = match timeline_of {
        Some(conversation) => tokens::load_all(connection, &conversation, fingerprint)?,
        None => Vec::new(),
    };
    let prefill_tokens_per_second =
        if reads_speed { speed::load(connection, fingerprint)? } else { None };
    let documents = stored.into_iter().map(|(id, document)| (id, document.into())).collect();
    Ok(TurnStart { continuation, timelines, documents, sampling, prefill_tokens_per_second })
}

impl TurnEnd {
    fn write(&self, connection: &mut Connection) -> Result<(), TranscriptError> {
        let Self { fingerprint, save_if, now, .. } = *self;
        let transaction = connection.transaction()?;
        if let Some(answer) = &self.answer {
            answer.write(&transaction, now)?;
        }
        if let Some((conversation, timeline)) = &self.timeline {
            tokens::save(&transaction, conversation, fingerprint, timeline, save_if, now)?;
            if let Some(row) = self.answer.as_ref().and_then(ClosedAnswer::row) {
                answer_ends::save(&transaction, row, fingerprint, timeline)?;
            }
        }
        if let Some((conversation, explanation)) = &self.explanation {
            let explanation = explanation.to_string();
            explanations::save(&transaction, conversation, &explanation, save_if, now)?;
        }
        transaction.commit()?;
        Ok(())
    }

    fn interrupt(&self, connection: &Connection) -> Result<(), TranscriptError> {
        self.answer.as_ref().map_or(Ok(()), |answer| answer.interrupt(connection))
    }
}

#[cfg(test)]
mod tests;
