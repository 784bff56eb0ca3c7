//! The tables, and how an older database becomes today's.
//!
//! - `user_version` counts the migrations that a database has seen. A newer one is refused.
//! - Messages form a tree: an edit or a second answer is a sibling. No statement here or elsewhere
//!   deletes a message, except together with its whole conversation.

use rusqlite::Connection;

use super::TranscriptError;

/// One step each; never edited once released.
const MIGRATIONS: [&str; 2] = [
    "
    CREATE TABLE conversations (
        id         TEXT PRIMARY KEY,
        title      TEXT,                -- NULL until the first text of the user
        created_at INTEGER NOT NULL,    -- milliseconds since 1970
        updated_at INTEGER NOT NULL,
        head       INTEGER REFERENCES messages (id) ON DELETE SET NULL
    ) WITHOUT ROWID;

    CREATE TABLE messages (
        id           INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
        parent       INTEGER REFERENCES messages (id) ON DELETE CASCADE,
        role         TEXT NOT NULL,
        content      TEXT NOT NULL,     -- the whole message, as OpenAI's JSON
        status       TEXT NOT NULL CHECK (status IN ('complete', 'streaming', 'interrupted')),
        created_at   INTEGER NOT NULL,
        finish       TEXT               -- how an answer ended, as JSON
    );
    CREATE INDEX messages_by_parent ON messages (conversation, parent);
    CREATE INDEX messages_by_status ON messages (status) WHERE status = 'streaming';

    -- The last timeline, so that a follow-up is cut into the same tokens. Losing a row loses time.
    CREATE TABLE tokens (
        conversation TEXT NOT NULL,
        fingerprint  TEXT NOT NULL,
        tokens       BLOB NOT NULL,     -- i32, little endian
        used_at      INTEGER NOT NULL,
        PRIMARY KEY (conversation, fingerprint)
    ) WITHOUT ROWID;
",
    "
    -- Why a conversation last computed what was computed before, as JSON.
    CREATE TABLE explanations (
        conversation TEXT PRIMARY KEY,
        explanation  TEXT NOT NULL,
        at           INTEGER NOT NULL   -- milliseconds since 1970
    ) WITHOUT ROWID;
",
];

/// Brings the database up to date, in one transaction a step.
pub fn migrate(connection: &mut Connection) -> Result<(), TranscriptError> {
    let seen: usize = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if seen > MIGRATIONS.len() {
        return Err(TranscriptError::Newer { found: seen, known: MIGRATIONS.len() });
    }
    for (step, sql) in MIGRATIONS.iter().enumerate().skip(seen) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(sql)?;
        transaction.pragma_update(None, "user_version", step + 1)?;
        transaction.commit()?;
    }
    Ok(())
}
