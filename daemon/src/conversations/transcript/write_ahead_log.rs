//! Empties SQLite's write-ahead log: it has pages with the text that a deletion has removed from the database.

use rusqlite::Connection;

/// Moves the log into the database and truncates it, after a deletion or a crash. A failure is logged: the deletion
/// itself is on disk, and the next one empties the log too.
pub fn empty(connection: &Connection) {
    let is_busy: rusqlite::Result<bool> =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
    match is_busy {
        Ok(false) => {}
        Ok(true) => tracing::warn!("another program reads the database: its log has deleted text"),
        Err(error) => tracing::warn!(%error, "the log of the database has deleted text"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use hob_slots::Timestamp;

    use crate::conversations::transcript::Transcript;

    #[test]
    fn a_log_that_a_crash_left_is_emptied_when_the_database_is_opened() {
        let [running, crashed] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let open = Transcript::open(&running.path().join("text.sqlite"), Timestamp(0)).unwrap();
        let insert = "INSERT INTO conversations (id, created_at, updated_at) VALUES ('a', 1, 1)";
        open.writer.write(|connection| Ok(connection.execute(insert, [])?)).wait().unwrap();
        for name in ["text.sqlite", "text.sqlite-wal"] {
            fs::copy(running.path().join(name), crashed.path().join(name)).unwrap();
        }
        let log = crashed.path().join("text.sqlite-wal");
        assert!(fs::metadata(&log).unwrap().len() > 0);
        let _after = Transcript::open(&crashed.path().join("text.sqlite"), Timestamp(1)).unwrap();
        assert_eq!(fs::metadata(&log).unwrap().len(), 0);
    }
}
