//! Empties SQLite's write-ahead log: it has pages with the text that a deletion has removed from the database.

use rusqlite::Connection;

/// Moves the log into the database and truncates it, after a deletion. A failure is logged: the deletion itself
/// is on disk, and the next one empties the log too.
pub fn empty(connection: &Connection) {
    let is_busy: rusqlite::Result<bool> =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
    match is_busy {
        Ok(false) => {}
        Ok(true) => tracing::warn!("another program reads the database: its log has deleted text"),
        Err(error) => tracing::warn!(%error, "the log of the database has deleted text"),
    }
}
