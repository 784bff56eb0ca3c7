//! An answer while it grows.
//!
//! - The job that stores the request creates its row; later jobs of the answer run behind that one.
//! - Flushes are 250 ms apart, and skipped while the previous one has not reached the database. The first one comes as
//!   long behind the first text: in front of the end of a short answer it would delay that end.
//! - An answer ends once: complete, or interrupted with all its text. Dropping it earlier interrupts
//!   it with the text of the last flush.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hob_slots::{ConversationId, Timestamp};
use rusqlite::Connection;
use serde_json::Value;

use super::tree::{AnswerRows, millis};
use super::writer::{Pending, Writer};
use super::{Status, TranscriptError};
use crate::wire::message::Message;

const FLUSH_INTERVAL: Duration = Duration::from_millis(250);

/// The open row of an answer.
#[derive(Debug)]
pub struct OpenAnswer {
    writer: Arc<Writer>,
    conversation: ConversationId,
    row: Arc<OnceLock<AnswerRows>>,
    stored: Option<Pending<AnswerRows>>,
    /// When the text was last written, or came first; `None`: there is none.
    flushed: Option<Instant>,
    flushing: Arc<AtomicBool>,
    ended: bool,
}

impl OpenAnswer {
    /// Queues `store`, which stores a request and opens the row of its answer.
    pub(super) fn open(
        writer: Arc<Writer>,
        conversation: ConversationId,
        store: impl FnOnce(&mut Connection) -> Result<AnswerRows, TranscriptError> + Send + 'static,
    ) -> Self {
        let row = Arc::new(OnceLock::new());
        let known = row.clone();
        let stored = writer.write(move |connection| {
            let rows = store(connection)?;
            Ok(*known.get_or_init(|| rows))
        });
        Self {
            writer,
            conversation,
            row,
            stored: Some(stored),
            flushed: None,
            flushing: Arc::default(),
            ended: false,
        }
    }

    /// Waits until the request's text is on disk. No part of the answer may be sent before.
    pub async fn stored(&mut self) -> Result<(), TranscriptError> {
        if let Some(stored) = &mut self.stored {
            stored.done().await?;
            self.stored = None;
        }
        Ok(())
    }

    /// The rows, once they are stored.
    pub fn rows(&self) -> Option<AnswerRows> {
        self.row.get().copied()
    }

    /// Writes the partial answer, unless the last flush, or the first text, is too recent.
    pub fn flush(&mut self, partial: impl FnOnce() -> Message) {
        let Some(flushed) = self.flushed else {
            self.flushed = Some(Instant::now());
            return;
        };
        if flushed.elapsed() < FLUSH_INTERVAL || self.flushing.swap(true, Ordering::AcqRel) {
            return;
        }
        self.flushed = Some(Instant::now());
        let text = partial().to_json().to_string();
        let (row, flushing) = (self.row.clone(), self.flushing.clone());
        self.writer.post(move |connection| {
            flushing.store(false, Ordering::Release);
            let Some(row) = row.get() else { return Ok(()) };
            connection
                .prepare_cached(&format!("UPDATE messages SET content = {LABELLED} WHERE id = ?1"))?
                .execute((row.answer, text))?;
            Ok(())
        });
    }

    /// Ends the answer with its whole message; [`super::Transcript::end_turn`] writes it.
    pub fn complete(mut self, answer: &Message, finish: &Value) -> ClosedAnswer {
        self.closed(Status::Complete, answer, Some(finish.to_string()))
    }

    /// Ends an answer that broke off, with the text generated so far; [`super::Transcript::end_turn`] writes it.
    /// `finish`: without a reason and without figures.
    pub fn break_off(mut self, partial: &Message, finish: Option<&Value>) -> ClosedAnswer {
        self.closed(Status::Interrupted, partial, finish.map(Value::to_string))
    }

    fn closed(
        &mut self,
        status: Status,
        message: &Message,
        finish: Option<String>,
    ) -> ClosedAnswer {
        self.ended = true;
        ClosedAnswer {
            row: self.row.clone(),
            conversation: self.conversation.clone(),
            status,
            text: message.to_json().to_string(),
            finish,
        }
    }
}

impl Drop for OpenAnswer {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let row = self.row.clone();
        // Repeated while it cannot be written: while the row streams, no message of the conversation can be changed.
        self.writer.post_until_stored(move |connection| {
            let Some(row) = row.get() else { return Ok(()) };
            close(connection, row.answer, Status::Interrupted, None, None)
        });
    }
}

/// The end of an answer, to be written by [`super::Transcript::end_turn`].
#[derive(Debug)]
pub struct ClosedAnswer {
    row: Arc<OnceLock<AnswerRows>>,
    conversation: ConversationId,
    status: Status,
    text: String,
    finish: Option<String>,
}

impl ClosedAnswer {
    pub(super) fn is_complete(&self) -> bool {
        self.status == Status::Complete
    }

    /// Its row; `None` if the request itself could not be stored.
    pub(super) fn row(&self) -> Option<i64> {
        self.row.get().map(|rows| rows.answer)
    }

    /// Ends the row with the text of the last flush.
    pub(super) fn interrupt(&self, connection: &Connection) -> Result<(), TranscriptError> {
        let Some(row) = self.row.get() else { return Ok(()) };
        close(connection, row.answer, Status::Interrupted, None, None)
    }

    /// Writes nothing if the request itself could not be stored.
    pub(super) fn write(
        &self,
        connection: &Connection,
        now: Timestamp,
    ) -> Result<(), TranscriptError> {
        let Some(row) = self.row.get() else { return Ok(()) };
        close(connection, row.answer, self.status, Some(&self.text), self.finish.as_deref())?;
        if self.is_complete() { touch(connection, &self.conversation, now) } else { Ok(()) }
    }
}

/// The answer ?2 with the label of the row: an answer that goes on may be pinned. NULL if ?2 is NULL.
const LABELLED: &str = "CASE WHEN NOT json_valid(content) THEN ?2
         WHEN json_extract(content, '$.hob') IS NULL THEN ?2
         ELSE json_set(?2, '$.hob', json_extract(content, '$.hob')) END";

/// The `finish` of an answer that has ended once more, with what a response or a thread had stored with it.
const FINISH: &str = "CASE WHEN json_extract(finish, '$.response') IS NULL THEN ?4
         WHEN json_extract(?4, '$.response') IS NOT NULL THEN ?4
         ELSE json_set(coalesce(?4, '{}'), '$.response', json_extract(finish, '$.response')) END";

/// `text`: `None` leaves the text of the last flush.
fn close(
    connection: &Connection,
    row: i64,
    status: Status,
    text: Option<&str>,
    finish: Option<&str>,
) -> Result<(), TranscriptError> {
    connection
        .prepare_cached(&format!(
            "UPDATE messages SET content = coalesce({LABELLED}, content), status = ?3, finish = {FINISH}
             WHERE id = ?1"
        ))?
        .execute((row, text, status.as_str(), finish))?;
    Ok(())
}

fn touch(
    connection: &Connection,
    conversation: &ConversationId,
    now: Timestamp,
) -> Result<(), TranscriptError> {
    connection
        .prepare_cached("UPDATE conversations SET updated_at = max(updated_at, ?2) WHERE id = ?1")?
        .execute((conversation.as_str(), millis(now)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;
    use crate::conversations::transcript::Transcript;
    use crate::wire::message::Role;

    #[test]
    fn the_first_text_is_written_an_interval_after_it_came_however_long_the_prompt_took() {
        let transcript = Transcript::in_memory(Timestamp(0)).unwrap();
        let id = ConversationId::new("room").unwrap();
        let question = vec![Message::plain(Role::User, "Hello")];
        let mut answer = transcript.sync(&id, question, Timestamp(0));
        let mut written = Vec::new();
        for text in ["So", "So be", "So be it"] {
            sleep(FLUSH_INTERVAL);
            answer.flush(|| {
                written.push(text);
                Message::answer(text, "", &[])
            });
            transcript.is_idle(&id).wait().unwrap(); // Behind the write.
        }
        assert_eq!(written, ["So be", "So be it"]);
    }
}
