//! The timelines of each conversation, as tokens: `i32`, little endian. The last one, and those that
//! another branch has replaced: the newest [`MAX_BRANCHES`].
//!
//! A hint has rows here and no text. They are deleted after a day without use.

use std::collections::BTreeSet;
use std::time::Duration;

use hob_slots::{ConversationId, ModelHash, Timestamp, Token};
use rusqlite::{Connection, OptionalExtension};

use super::TranscriptError;
use super::tree::millis;

/// Replaced timelines of a conversation under one model.
const MAX_BRANCHES: usize = 16;

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
    Ok(bytes.as_deref().map_or(Vec::new(), tokens_of))
}

/// The length of the last timeline of each of these conversations that has one.
pub fn lengths(
    connection: &Connection,
    of: &BTreeSet<ConversationId>,
    fingerprint: ModelHash,
) -> Result<Vec<(ConversationId, usize)>, TranscriptError> {
    let mut select = connection.prepare_cached(
        "SELECT length(tokens) / 4 FROM tokens WHERE conversation = ?1 AND fingerprint = ?2",
    )?;
    let fingerprint = fingerprint.to_string();
    let mut lengths = Vec::new();
    for id in of {
        let length = select.query_row((id.as_str(), &fingerprint), |row| row.get(0)).optional()?;
        lengths.extend(length.map(|length| (id.clone(), length)));
    }
    Ok(lengths)
}

/// The last timeline, and then those of other branches, the newest first.
pub fn load_all(
    connection: &Connection,
    conversation: &ConversationId,
    fingerprint: ModelHash,
) -> Result<Vec<Vec<Token>>, TranscriptError> {
    let mut all = vec![load(connection, conversation, fingerprint)?];
    all.extend(branches(connection, conversation, fingerprint)?.into_iter().map(|(_, it)| it));
    Ok(all)
}

fn branches(
    connection: &Connection,
    conversation: &ConversationId,
    fingerprint: ModelHash,
) -> Result<Vec<(i64, Vec<Token>)>, TranscriptError> {
    let mut select = connection.prepare_cached(
        "SELECT id, tokens FROM branches WHERE conversation = ?1 AND fingerprint = ?2
         ORDER BY id DESC",
    )?;
    let rows = select.query_map((conversation.as_str(), fingerprint.to_string()), |row| {
        Ok((row.get(0)?, tokens_of(&row.get::<_, Vec<u8>>(1)?)))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn tokens_of(bytes: &[u8]) -> Vec<Token> {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|&word| Token(i32::from_le_bytes(word))).collect()
}

fn bytes_of(timeline: &[Token]) -> Vec<u8> {
    timeline.iter().flat_map(|token| token.0.to_le_bytes()).collect()
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
    let before = load(connection, conversation, fingerprint)?;
    let saved = connection
        .prepare_cached(
            "INSERT INTO tokens (conversation, fingerprint, tokens, used_at)
             SELECT ?1, ?2, ?3, ?4
             WHERE NOT ?5 OR EXISTS (SELECT 1 FROM conversations WHERE id = ?1)
             ON CONFLICT DO UPDATE SET tokens = excluded.tokens, used_at = excluded.used_at",
        )?
        .execute((
            conversation.as_str(),
            fingerprint.to_string(),
            bytes_of(timeline),
            millis(now),
            needs_text,
        ))?;
    if saved == 0 || timeline.starts_with(&before) {
        return Ok(());
    }
    connection
        .prepare_cached(
            "INSERT INTO branches (conversation, fingerprint, tokens) VALUES (?1, ?2, ?3)",
        )?
        .execute((conversation.as_str(), fingerprint.to_string(), bytes_of(&before)))?;
    // What the new timeline continues is a branch no longer.
    let branches = branches(connection, conversation, fingerprint)?.into_iter();
    let continued = |(_, branch): &(i64, Vec<Token>)| timeline.starts_with(branch);
    for (id, _) in branches.enumerate().filter_map(|(newer, branch)| {
        (newer >= MAX_BRANCHES || continued(&branch)).then_some(branch)
    }) {
        connection.prepare_cached("DELETE FROM branches WHERE id = ?1")?.execute([id])?;
    }
    Ok(())
}

pub fn delete_stale(connection: &Connection, now: Timestamp) -> Result<(), TranscriptError> {
    let unused = i64::try_from(MAX_UNUSED.as_millis()).expect("a day fits");
    // In a row, the time stands behind the timeline: only that of a hint is read.
    connection.execute(
        "DELETE FROM tokens
         WHERE CASE WHEN conversation IN (SELECT id FROM conversations) THEN 0
                    ELSE used_at < ?1 END",
        [millis(now) - unused],
    )?;
    connection.execute(
        "DELETE FROM branches WHERE conversation NOT IN (SELECT conversation FROM tokens)",
        [],
    )?;
    Ok(())
}
