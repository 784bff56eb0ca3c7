//! Where answers end in the timelines of their conversation, so that a copy of a beginning gets no tokens of what
//! follows it.
//!
//! - A turn records the length of its timeline, and a hash of it. The tokens up to there have text of the answer and
//!   of the messages before it alone.
//! - A timeline belongs to no message: those of other branches and of later turns begin with the same tokens. One that
//!   has the recorded hash at the recorded length is cut there; one that has none is not copied, which costs time.

use std::cmp::Reverse;

use hob_slots::{ConversationId, ModelHash, Timestamp, Token};
use rusqlite::Connection;
use sha2::{Digest, Sha256};

use super::{TranscriptError, tokens};

/// The end of an answer of a path.
struct End {
    /// Its place on the path.
    place: usize,
    tokens: usize,
    digest: Vec<u8>,
}

/// Records that the answer in the row `answer` ends where the timeline does.
pub fn save(
    connection: &Connection,
    answer: i64,
    fingerprint: ModelHash,
    timeline: &[Token],
) -> Result<(), TranscriptError> {
    if timeline.is_empty() {
        return Ok(());
    }
    let mut hash = Sha256::new();
    add(&mut hash, timeline);
    connection
        .prepare_cached(
            "INSERT INTO answer_ends (message, fingerprint, tokens, digest)
             SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM messages WHERE id = ?1)
             ON CONFLICT DO UPDATE SET tokens = excluded.tokens, digest = excluded.digest",
        )?
        .execute((
            answer,
            fingerprint.to_string(),
            timeline.len() as u64,
            hash.finalize().to_vec(),
        ))?;
    Ok(())
}

/// Gives the conversation `copy` the timelines of `original`, each up to the last answer of the path that is known to
/// end in it. `path`: the rows of the original and those of the copy.
pub fn copy(
    connection: &Connection,
    original: &ConversationId,
    copy: &ConversationId,
    path: &[(i64, i64)],
    now: Timestamp,
) -> Result<(), TranscriptError> {
    for of in path {
        connection
            .prepare_cached(
                "INSERT INTO answer_ends (message, fingerprint, tokens, digest)
                 SELECT ?2, fingerprint, tokens, digest FROM answer_ends WHERE message = ?1",
            )?
            .execute(*of)?;
    }
    for fingerprint in tokens::models(connection, original)? {
        let timelines = tokens::load_all(connection, original, fingerprint)?;
        let ends = ends(connection, path, fingerprint)?;
        let cut = |timeline: &Vec<Token>| {
            last_end(&ends, timeline).map(|end| (end.place, timeline[..end.tokens].to_vec()))
        };
        let mut cuts: Vec<(usize, Vec<Token>)> = timelines.iter().filter_map(cut).collect();
        cuts.sort_by_key(|(place, timeline)| Reverse((*place, timeline.len())));
        let mut kept: Vec<Vec<Token>> = Vec::new();
        for (_, timeline) in cuts {
            if !kept.iter().any(|other| other.starts_with(&timeline)) {
                kept.push(timeline);
            }
        }
        tokens::put_all(connection, copy, fingerprint, &kept, now)?;
    }
    Ok(())
}

/// The ends of answers under one model, the shortest first.
fn ends(
    connection: &Connection,
    path: &[(i64, i64)],
    fingerprint: ModelHash,
) -> Result<Vec<End>, TranscriptError> {
    let mut select = connection.prepare_cached(
        "SELECT tokens, digest FROM answer_ends WHERE message = ?1 AND fingerprint = ?2",
    )?;
    let fingerprint = fingerprint.to_string();
    let mut ends = Vec::new();
    for (place, (message, _)) in path.iter().enumerate() {
        let rows = select.query_map((message, &fingerprint), |row| {
            Ok(End { place, tokens: row.get(0)?, digest: row.get(1)? })
        })?;
        for end in rows {
            ends.push(end?);
        }
    }
    ends.sort_by_key(|end| end.tokens);
    Ok(ends)
}

/// The end of the last answer that ends in the timeline. `ends`: the shortest first.
fn last_end<'e>(ends: &'e [End], timeline: &[Token]) -> Option<&'e End> {
    let (mut hash, mut hashed) = (Sha256::new(), 0);
    let mut last: Option<&End> = None;
    for end in ends {
        let Some(more) = timeline.get(hashed..end.tokens) else { break };
        add(&mut hash, more);
        hashed = end.tokens;
        let is_there = hash.clone().finalize()[..] == end.digest[..];
        if is_there && last.is_none_or(|last| last.place < end.place) {
            last = Some(end);
        }
    }
    last
}

fn add(hash: &mut Sha256, tokens: &[Token]) {
    for token in tokens {
        hash.update(token.0.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversations::transcript::{SaveIf, schema};

    const MODEL: ModelHash = ModelHash([1; 8]);
    const NOW: Timestamp = Timestamp(1_000_000);

    fn tokens_of(ids: &[i32]) -> Vec<Token> {
        ids.iter().map(|&id| Token(id)).collect()
    }

    /// `room` has the messages 1 to 4 and another answer, 5, to the first one; `copy` has copies of the first
    /// two, 11 and 12.
    fn world() -> (Connection, ConversationId, ConversationId) {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection).unwrap();
        connection
            .execute_batch(
                "INSERT INTO conversations (id, created_at, updated_at)
                    VALUES ('room', 1, 1), ('copy', 1, 1), ('again', 1, 1);
                INSERT INTO messages (id, conversation, parent, role, content, status, created_at)
                VALUES (1, 'room', NULL, 'user', '{}', 'complete', 1),
                    (2, 'room', 1, 'assistant', '{}', 'complete', 1),
                    (3, 'room', 2, 'user', '{}', 'complete', 1),
                    (4, 'room', 3, 'assistant', '{}', 'complete', 1),
                    (5, 'room', 1, 'assistant', '{}', 'complete', 1),
                    (11, 'copy', NULL, 'user', '{}', 'complete', 1),
                    (12, 'copy', 11, 'assistant', '{}', 'complete', 1),
                    (21, 'again', NULL, 'user', '{}', 'complete', 1),
                    (22, 'again', 21, 'assistant', '{}', 'complete', 1);",
            )
            .unwrap();
        let [room, copy] = ["room", "copy"].map(|id| ConversationId::new(id).unwrap());
        (connection, room, copy)
    }

    fn answered(connection: &Connection, room: &ConversationId, answer: i64, timeline: &[i32]) {
        let timeline = tokens_of(timeline);
        tokens::save(connection, room, MODEL, &timeline, SaveIf::HasText, NOW).unwrap();
        save(connection, answer, MODEL, &timeline).unwrap();
    }

    #[test]
    fn a_copy_has_no_tokens_behind_its_last_message() {
        let (connection, room, copied) = world();
        answered(&connection, &room, 2, &[1, 2]);
        answered(&connection, &room, 4, &[1, 2, 3, 4]);
        answered(&connection, &room, 5, &[1, 9]);

        copy(&connection, &room, &copied, &[(1, 11), (2, 12)], NOW).unwrap();
        let all = tokens::load_all(&connection, &copied, MODEL).unwrap();
        assert_eq!(all, [tokens_of(&[1, 2])]);
        // A copy of the copy, without the original.
        let again = ConversationId::new("again").unwrap();
        copy(&connection, &copied, &again, &[(11, 21), (12, 22)], NOW).unwrap();
        assert_eq!(tokens::load_all(&connection, &again, MODEL).unwrap(), all);
    }

    #[test]
    fn a_copy_has_the_timelines_of_its_last_answer_and_of_the_ones_before_that_differ() {
        let (connection, room, copied) = world();
        answered(&connection, &room, 2, &[1, 2, 7]); // The next prompt leaves out the reasoning.
        answered(&connection, &room, 4, &[1, 2, 3, 4]);

        copy(&connection, &room, &copied, &[(1, 11), (2, 12), (3, 21), (4, 22)], NOW).unwrap();
        let all = tokens::load_all(&connection, &copied, MODEL).unwrap();
        assert_eq!(all, [tokens_of(&[1, 2, 3, 4]), tokens_of(&[1, 2, 7])]);
    }

    #[test]
    fn a_timeline_of_which_no_end_is_known_is_not_copied() {
        let (connection, room, copied) = world();
        answered(&connection, &room, 2, &[1, 2]);
        answered(&connection, &room, 4, &[1, 2, 3, 4]);
        connection.execute("DELETE FROM answer_ends WHERE message = 2", []).unwrap();

        copy(&connection, &room, &copied, &[(1, 11), (2, 12)], NOW).unwrap();
        assert!(tokens::load(&connection, &copied, MODEL).unwrap().is_empty());
    }

    #[test]
    fn an_end_is_deleted_with_its_message() {
        let (connection, room, _) = world();
        connection.pragma_update(None, "foreign_keys", true).unwrap();
        answered(&connection, &room, 5, &[1, 9]);
        connection.execute("DELETE FROM messages WHERE id = 5", []).unwrap();
        save(&connection, 5, MODEL, &tokens_of(&[1, 9])).unwrap();
        let count = "SELECT count(*) FROM answer_ends";
        assert_eq!(connection.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    }
}
