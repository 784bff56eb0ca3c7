//! The last timeline of each conversation, as tokens: `i32`, little endian.
//!
//! A conversation that is only a `prompt_cache_key` has a row here and no text. Such a row is deleted
//! after a day without use.

use std::time::Duration;

use hob_slots::{ConversationId, ModelHash, Timestamp, Token};
use rusqlite::{Connection, OptionalExtension};

use super::TranscriptError;
use super::tree::millis;

const MAX_UNUSED: Duration = Duration::from_secs(24 * 60 * 60);

pub fn load(
    connection: &Connection,
    conversation: &ConversationId,
    fingerprint: ModelHash,
) -> Result<Vec<Token>, TranscriptError> {
    let bytes: Option<Vec<u8>> = connection
        .prepare_cached("SELECT tokens FROM tokens WHERE conversation = ?1 AND fingerprint = ?2")?
        .query_row((conversation.as_str(), fingerprint.to_string()), |row| row.get(0))
        .optional()?;
    let (words, _) = bytes.as_deref().unwrap_or_default().as_chunks::<4>();
    Ok(words.iter().map(|&word| Token(i32::from_le_bytes(word))).collect())
}

/// `needs_text`: only if the conversation still has text; it may have been deleted meanwhile.
pub fn save(
    connection: &Connection,
    conversation: &ConversationId,
    fingerprint: ModelHash,
    timeline: &[Token],
    needs_text: bool,
    now: Timestamp,
) -> Result<(), TranscriptError> {
    let bytes: Vec<u8> = timeline.iter().flat_map(|token| token.0.to_le_bytes()).collect();
    connection
        .prepare_cached(
            "INSERT INTO tokens (conversation, fingerprint, tokens, used_at)
             SELECT ?1, ?2, ?3, ?4
             WHERE NOT ?5 OR EXISTS (SELECT 1 FROM conversations WHERE id = ?1)
             ON CONFLICT DO UPDATE SET tokens = excluded.tokens, used_at = excluded.used_at",
        )?
        .execute((
            conversation.as_str(),
            fingerprint.to_string(),
            bytes,
            millis(now),
            needs_text,
        ))?;
    Ok(())
}

pub fn delete_stale(connection: &Connection, now: Timestamp) -> Result<(), TranscriptError> {
    let unused = i64::try_from(MAX_UNUSED.as_millis()).expect("a day fits");
    connection.execute(
        "DELETE FROM tokens WHERE used_at < ?1
         AND conversation NOT IN (SELECT id FROM conversations)",
        [millis(now) - unused],
    )?;
    Ok(())
}
