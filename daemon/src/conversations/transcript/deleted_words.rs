//! Removes the words of deleted messages from the index of the search.
//!
//! - A deletion adds a tombstone to each segment of the index that has the message. The trigrams of the message, with
//!   their places, stay in these segments until FTS5 merges them; by itself it merges a level once a tenth of its
//!   messages are deleted. FTS5's option `secure-delete` has no effect on a table with `contentless_delete`.
//! - [`step`] merges segments, a few pages at a time, until none has a tombstone. The segments are valid between two
//!   steps, and after a crash.
//! - The index of private conversations is in memory, and is left alone.

use rusqlite::Connection;

use super::writer::Pending;
use super::{Transcript, TranscriptError, write_ahead_log};

/// Pages of 4 KB that a step writes; a trigram whose places fill more is written in one step.
const STEP_PAGES: i64 = 64;

/// The lowest row of `words_data` that is a page of tombstones: FTS5 adds 1 << 16 to the number of a segment, and
/// shifts the sum by 37 bits.
const FIRST_TOMBSTONE: i64 = 1 << 53;

impl Transcript {
    /// Whether the file has words of deleted messages in the index of the search.
    pub fn has_deleted_words(&self) -> Pending<bool> {
        self.writer.read(|connection| has_tombstones(connection))
    }

    /// Does a step of removing these words, of some 10 ms. Returns whether another one is needed. After the last one
    /// they are gone from the database and its log.
    pub fn remove_deleted_words(&self) -> Pending<bool> {
        self.writer.write(|connection| step(connection, STEP_PAGES))
    }
}

/// See [`Transcript::remove_deleted_words`].
fn step(connection: &mut Connection, pages: i64) -> Result<bool, TranscriptError> {
    if !has_tombstones(connection)? {
        return Ok(false);
    }
    let transaction = connection.transaction()?;
    // Continues a merge that was begun, also when there are new messages since.
    let mut has_merged = merge(&transaction, pages)?;
    if !has_merged {
        // The merge of a lone segment adds a level, and FTS5 takes an index of more than 2,000 levels for damaged.
        // With a second segment, it numbers the levels again, 65 at most. No message has the number 0.
        transaction.execute_batch(
            "INSERT INTO words (rowid, text) VALUES (0, '...');
             DELETE FROM words WHERE rowid = 0;",
        )?;
        has_merged = merge(&transaction, -pages)?; // Negative: begins a merge of all segments.
    }
    transaction.commit()?;
    let is_left = has_tombstones(connection)?;
    if !is_left {
        write_ahead_log::empty(connection);
    } else if !has_merged {
        tracing::warn!("SQLite does not merge the index of the search: it has deleted words");
    }
    Ok(has_merged && is_left)
}

/// Writes at most `pages` merged pages. Returns whether there was something to merge.
fn merge(connection: &Connection, pages: i64) -> Result<bool, TranscriptError> {
    let before = connection.total_changes();
    connection
        .prepare_cached("INSERT INTO words (words, rank) VALUES ('merge', ?1)")?
        .execute([pages])?;
    // The statement itself counts as one change.
    Ok(connection.total_changes() - before >= 2)
}

fn has_tombstones(connection: &Connection) -> Result<bool, TranscriptError> {
    let has_some = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM words_data WHERE id >= ?1)")?
        .query_row([FIRST_TOMBSTONE], |row| row.get(0))?;
    Ok(has_some)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hob_slots::{ConversationId, Timestamp};
    use serde_json::json;

    use super::*;
    use crate::conversations::transcript::{Listing, SearchQuery, schema};
    use crate::wire::message::Message;

    /// A trigram of its own. No other one begins with the same character, so the index has its bytes in a row.
    const TRIGRAM: &str = "☃☄★";

    fn indexed(connection: &Connection, row: i64, text: &str) {
        connection.execute("INSERT INTO words (rowid, text) VALUES (?1, ?2)", (row, text)).unwrap();
    }

    /// An index of `messages` in one segment, and of another in a segment of its own. The seventh one has [`TRIGRAM`].
    fn index_of(messages: i64, text: impl Fn(i64) -> String) -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection).unwrap();
        let transaction = connection.transaction().unwrap();
        for row in 1..=messages {
            let text = if row == 7 { format!("a {TRIGRAM} of snow") } else { text(row) };
            indexed(&transaction, row, &text);
        }
        transaction.commit().unwrap();
        indexed(&connection, messages + 1, &text(messages + 1));
        connection
    }

    fn text(row: i64) -> String {
        format!("message {row} has the number {}", row * 7_919 % 10_007)
    }

    fn count(connection: &Connection, sql: &str) -> i64 {
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    fn has_trigram(connection: &Connection) -> bool {
        let sql = format!(
            "SELECT count(*) FROM words_data WHERE instr(block, CAST('{TRIGRAM}' AS BLOB)) > 0"
        );
        count(connection, &sql) > 0
    }

    /// Whether a file in `directory` has the bytes of [`TRIGRAM`] in a row: the database or its log.
    fn is_on_disk(directory: &Path) -> bool {
        std::fs::read_dir(directory).unwrap().any(|file| {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            bytes.windows(TRIGRAM.len()).any(|part| part == TRIGRAM.as_bytes())
        })
    }

    #[tokio::test]
    async fn the_words_of_a_deleted_conversation_leave_the_files_of_an_open_database() {
        let directory = tempfile::tempdir().unwrap();
        let transcript =
            Transcript::open(&directory.path().join("text.sqlite"), Timestamp(0)).unwrap();
        let snow = ConversationId::new("snow").unwrap();
        for number in 0..30 {
            let other = ConversationId::new(&format!("other-{number}")).unwrap();
            let (id, text) = if number == 9 {
                (&snow, format!("a {TRIGRAM} of snow"))
            } else {
                (&other, text(number))
            };
            let said = json!({"role": "user", "content": text});
            let said = Message::parse(&said, "messages").unwrap();
            drop(transcript.sync(id, vec![said], Timestamp(1)));
        }
        assert!(transcript.delete(&snow).done().await.unwrap());
        assert!(is_on_disk(directory.path()), "the deletion left it in the index");
        assert!(transcript.has_deleted_words().done().await.unwrap());

        while transcript.remove_deleted_words().done().await.unwrap() {}
        assert!(!is_on_disk(directory.path()));
        assert!(!transcript.has_deleted_words().done().await.unwrap());
        let number = SearchQuery::of("the number").unwrap();
        assert_eq!(transcript.search(number, Listing::Current).done().await.unwrap().len(), 29);
    }

    #[test]
    fn new_messages_between_the_steps_are_found_and_do_not_delay_the_end() {
        let mut connection = index_of(400, text);
        connection.execute("DELETE FROM words WHERE rowid = 7", []).unwrap();
        assert!(has_trigram(&connection));
        let (mut messages, mut steps) = (401, 1);
        while step(&mut connection, 1).unwrap() {
            messages += 1;
            indexed(&connection, messages, &text(messages));
            steps += 1;
            assert!(steps < 100, "it begins again with each message");
        }
        assert!(steps > 3, "the test needs several steps");
        assert!(!has_trigram(&connection));
        let found = count(&connection, "SELECT count(*) FROM words WHERE words MATCH 'number'");
        assert_eq!(found, messages - 1);
        connection.execute("INSERT INTO words (words) VALUES ('integrity-check')", []).unwrap();
    }

    #[test]
    fn deletions_without_a_new_message_between_them_never_damage_the_index() {
        let mut connection = index_of(2_200, |_| "number".to_owned());
        for row in 1..=2_100 {
            connection.execute("DELETE FROM words WHERE rowid = ?1", [row]).unwrap();
            while step(&mut connection, STEP_PAGES).unwrap() {}
        }
        indexed(&connection, 3_000, &text(3_000));
        let found = count(&connection, "SELECT count(*) FROM words WHERE words MATCH 'number'");
        assert_eq!(found, 2_201 - 2_100 + 1);
        assert_eq!(count(&connection, "SELECT count(*) FROM words WHERE rowid = 0"), 0);
    }
}
