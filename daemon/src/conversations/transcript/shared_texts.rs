//! Which texts of the shared tier this database contains: the messages of each are here, or were deleted here.
//!
//! - This daemon records a text before it writes it there, so that the text is known after a crash, too.
//! - A text that is not recorded may have messages that are missing here: another daemon wrote it, or this one did
//!   after the backup from which the database was restored.
//! - The last [`MAX_TEXTS`] of each conversation are recorded. They are deleted with it.

use hob_slots::ConversationId;
use rusqlite::Connection;
use sha2::{Digest, Sha256};

use super::writer::Pending;
use super::{Transcript, TranscriptError, read};

/// The tier has one of the last two, unless a write arrives there late.
const MAX_TEXTS: u32 = 16;

/// SHA-256 of a text as the tier has it, unsealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedTextHash([u8; 32]);

impl SharedTextHash {
    pub fn of(text: &[u8]) -> Self {
        Self(Sha256::digest(text).into())
    }
}

impl Transcript {
    /// Whether this database contains the text. `is_own`: it has the name of this daemon. Such a text of a conversation
    /// without records is from a hobd that made none, and that wrote what its database contained.
    pub fn contains_shared_text(
        &self,
        conversation: &ConversationId,
        text: SharedTextHash,
        is_own: bool,
    ) -> Pending<bool> {
        let id = conversation.clone();
        self.writer.read(move |connection| match is_recorded(connection, &id, text)? {
            None if is_own => read::exists(connection, &id),
            recorded => Ok(recorded == Some(true)),
        })
    }

    /// Records that this database contains the text.
    pub fn record_shared_text(
        &self,
        conversation: &ConversationId,
        text: SharedTextHash,
    ) -> Pending<()> {
        let id = conversation.clone();
        self.writer.write(move |connection| record(connection, &id, text))
    }
}

/// `None`: no text of the conversation is recorded.
fn is_recorded(
    connection: &Connection,
    id: &ConversationId,
    text: SharedTextHash,
) -> Result<Option<bool>, TranscriptError> {
    let (recorded, equal): (i64, i64) = connection
        .prepare_cached(
            "SELECT count(*), count(CASE WHEN hash = ?2 THEN 1 END)
             FROM shared_texts WHERE conversation = ?1",
        )?
        .query_row((id.as_str(), text.0.to_vec()), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok((recorded > 0).then_some(equal > 0))
}

/// Does nothing where the conversation was deleted.
fn record(
    connection: &mut Connection,
    id: &ConversationId,
    text: SharedTextHash,
) -> Result<(), TranscriptError> {
    let transaction = connection.transaction()?;
    transaction.execute(
        "INSERT OR REPLACE INTO shared_texts (conversation, hash)
         SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM conversations WHERE id = ?1)",
        (id.as_str(), text.0.to_vec()),
    )?;
    transaction.execute(
        "DELETE FROM shared_texts WHERE conversation = ?1 AND id NOT IN
             (SELECT id FROM shared_texts WHERE conversation = ?1 ORDER BY id DESC LIMIT ?2)",
        (id.as_str(), MAX_TEXTS),
    )?;
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use hob_slots::Timestamp;

    use super::*;
    use crate::wire::message::{Message, Role};

    #[tokio::test]
    async fn a_text_is_contained_once_it_is_recorded_and_until_its_conversation_is_deleted() {
        let transcript = Transcript::in_memory(Timestamp(1)).unwrap();
        let id = ConversationId::new("talk").unwrap();
        let text = |number: u32| SharedTextHash::of(&number.to_le_bytes());
        let is_contained = async |number: u32, is_own: bool| {
            transcript.contains_shared_text(&id, text(number), is_own).done().await.unwrap()
        };
        let record = async |number: u32| {
            transcript.record_shared_text(&id, text(number)).done().await.unwrap();
        };
        record(0).await;
        assert!(!is_contained(0, true).await, "the conversation is not here");

        let add_message = async || {
            let hello = vec![Message::plain(Role::User, "Hello")];
            transcript.add_messages(&id, hello, Timestamp(2)).done().await.unwrap();
        };
        add_message().await;
        assert!(is_contained(0, true).await && !is_contained(0, false).await, "no record is here");
        record(0).await;
        assert!(is_contained(0, false).await && !is_contained(1, true).await);
        for number in 1..=MAX_TEXTS {
            record(number).await;
            record(1).await; // The newest again.
        }
        assert!(is_contained(1, false).await && is_contained(MAX_TEXTS, false).await);
        assert!(!is_contained(0, true).await, "there are newer ones");

        transcript.delete(&id).done().await.unwrap();
        add_message().await;
        assert!(!is_contained(1, false).await);
    }
}
