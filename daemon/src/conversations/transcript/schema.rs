//! The tables, and how an older database becomes today's.
//!
//! - `user_version` counts the migrations that a database has seen. A newer one is refused.
//! - Messages form a tree: an edit or a second answer is a sibling. No statement here or elsewhere
//!   deletes a message, except together with its whole conversation, or where the user deletes it
//!   (`messages`).

use rusqlite::Connection;

use super::TranscriptError;

/// One step each; never edited once released.
const MIGRATIONS: [&str; 16] = [
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
    "
    ALTER TABLE conversations ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE conversations ADD COLUMN trashed_at INTEGER;  -- milliseconds since 1970, or NULL
    ALTER TABLE conversations ADD COLUMN message_count INTEGER NOT NULL DEFAULT 0;
    UPDATE conversations SET message_count =
        (SELECT count(*) FROM messages WHERE conversation = conversations.id);
    CREATE TRIGGER count_messages AFTER INSERT ON messages BEGIN
        UPDATE conversations SET message_count = message_count + 1 WHERE id = new.conversation;
    END;

    -- Which message has which three letters in a row; not the text itself. Rows are those of
    -- `messages`, once they do not grow any more.
    CREATE VIRTUAL TABLE words USING fts5 (
        text, content = '', contentless_delete = 1, tokenize = 'trigram'
    );
    CREATE TRIGGER index_message AFTER INSERT ON messages WHEN new.status <> 'streaming' BEGIN
        INSERT INTO words (rowid, text) VALUES (new.id, CASE json_valid(new.content)
            WHEN 1 THEN coalesce(json_extract(new.content, '$.content'), '') ELSE '' END);
    END;
    CREATE TRIGGER index_answer AFTER UPDATE OF status ON messages
    WHEN old.status = 'streaming' AND new.status <> 'streaming' BEGIN
        INSERT INTO words (rowid, text) VALUES (new.id, CASE json_valid(new.content)
            WHEN 1 THEN coalesce(json_extract(new.content, '$.content'), '') ELSE '' END);
    END;
    INSERT INTO words (rowid, text) SELECT id, CASE json_valid(content)
        WHEN 1 THEN coalesce(json_extract(content, '$.content'), '') ELSE '' END
        FROM messages WHERE status <> 'streaming';
",
    "
    CREATE INDEX answers_by_time ON messages (created_at) WHERE finish IS NOT NULL;
",
    "
    -- How fast prompts were computed when it was measured last: tokens a second.
    CREATE TABLE speeds (
        fingerprint TEXT PRIMARY KEY,
        prefill     REAL NOT NULL
    ) WITHOUT ROWID;
",
    "
    -- Who refers to a message, so that deleting one does not search through all there are.
    CREATE INDEX messages_behind ON messages (parent);
    CREATE INDEX conversations_by_head ON conversations (head);
",
    "
    -- Later prompts begin with this message, behind the instructions: the older ones did not fit.
    ALTER TABLE messages ADD COLUMN starts_prompt INTEGER NOT NULL DEFAULT 0;
",
    "
    -- Timelines that another branch has replaced, so that going back is cut into the same tokens.
    CREATE TABLE branches (
        id           INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation TEXT NOT NULL,
        fingerprint  TEXT NOT NULL,
        tokens       BLOB NOT NULL      -- i32, little endian
    );
    CREATE INDEX branches_by_conversation ON branches (conversation, fingerprint);
",
    "
    -- Parameters of the conversation's answers, as a JSON object, or NULL.
    ALTER TABLE conversations ADD COLUMN sampling TEXT;

    -- An answer that goes on is indexed again at its end.
    CREATE TRIGGER unindex_answer AFTER UPDATE OF status ON messages
    WHEN old.status <> 'streaming' AND new.status = 'streaming' BEGIN
        DELETE FROM words WHERE rowid = new.id;
    END;

    -- Messages that were deleted less than an hour ago. `deletion` is the first of those that were
    -- deleted together.
    CREATE TABLE deleted_messages (
        id            INTEGER PRIMARY KEY,
        conversation  TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
        parent        INTEGER,
        role          TEXT NOT NULL,
        content       TEXT NOT NULL,
        status        TEXT NOT NULL,
        created_at    INTEGER NOT NULL,
        finish        TEXT,
        starts_prompt INTEGER NOT NULL,
        deletion      INTEGER NOT NULL,
        deleted_at    INTEGER NOT NULL
    );
    CREATE INDEX deleted_by_conversation ON deleted_messages (conversation, deletion);

    -- What the clients of this daemon share, as JSON.
    CREATE TABLE preferences (
        name  TEXT PRIMARY KEY,
        value TEXT NOT NULL
    ) WITHOUT ROWID;
",
    "
    CREATE TABLE documents (
        id         TEXT PRIMARY KEY,    -- SHA-256 of the text, in hex
        name       TEXT NOT NULL,
        kind       TEXT NOT NULL,       -- what the text was read from
        text       TEXT NOT NULL,
        created_at INTEGER NOT NULL,    -- milliseconds since 1970
        in_library INTEGER NOT NULL     -- stays although no message names it
    );
    CREATE TABLE message_documents (
        message  INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
        document TEXT NOT NULL,
        PRIMARY KEY (message, document)
    ) WITHOUT ROWID;
    CREATE INDEX messages_by_document ON message_documents (document);
    CREATE TRIGGER name_documents AFTER INSERT ON messages
    WHEN CASE json_valid(new.content)
        WHEN 1 THEN json_type(new.content, '$.hob.documents') = 'array' ELSE 0 END BEGIN
        INSERT OR IGNORE INTO message_documents (message, document)
            SELECT new.id, json_extract(value, '$.id')
            FROM json_each(new.content, '$.hob.documents')
            WHERE json_extract(value, '$.id') IS NOT NULL;
    END;
",
    "
    -- What stands in front of the chat in place of its own system messages; null: those.
    ALTER TABLE conversations ADD COLUMN instructions TEXT;
    -- Of a message that starts prompts: what stands for the messages before it.
    ALTER TABLE messages ADD COLUMN summary TEXT;
    ALTER TABLE deleted_messages ADD COLUMN summary TEXT;
",
    "
    -- Of the text. It and the columns of lists are in an index: in a row they stand behind the text.
    ALTER TABLE documents ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
    UPDATE documents SET bytes = length(CAST(text AS BLOB));
    CREATE INDEX documents_by_time
        ON documents (created_at DESC, id, name, kind, bytes, in_library);

    -- How prompts that begin with a document are cut into blocks, under one layout: a hash of the model,
    -- its chat template and the instructions in front. Losing a row loses time.
    CREATE TABLE document_blocks (
        id       INTEGER PRIMARY KEY AUTOINCREMENT,
        document TEXT NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
        layout   TEXT NOT NULL,
        kv_key   TEXT NOT NULL,         -- under which the KV is saved
        tokens   INTEGER NOT NULL,      -- that every prompt about it has
        blocks   BLOB NOT NULL,         -- the id and the last token, u32 little endian, of each
        UNIQUE (document, layout)
    );
",
    "
    -- Older messages that stand in front of this one in prompts that leave them out: their places on the
    -- branch, from 0, as a JSON array, or NULL.
    ALTER TABLE messages ADD COLUMN brings TEXT;
    ALTER TABLE deleted_messages ADD COLUMN brings TEXT;
",
    "
    -- The last timeline in parts. Its row in `tokens` has no tokens then; one from before has all of them.
    CREATE TABLE timeline_parts (
        conversation TEXT NOT NULL,
        fingerprint  TEXT NOT NULL,
        place        INTEGER NOT NULL,  -- of the first token
        tokens       BLOB NOT NULL,     -- i32, little endian
        PRIMARY KEY (conversation, fingerprint, place)
    ) WITHOUT ROWID;
    CREATE TRIGGER delete_timeline_parts AFTER DELETE ON tokens BEGIN
        DELETE FROM timeline_parts
            WHERE conversation = old.conversation AND fingerprint = old.fingerprint;
    END;
    -- Tokens in front of those of the branch: as many as it has in common with the next newer timeline.
    ALTER TABLE branches ADD COLUMN shared INTEGER NOT NULL DEFAULT 0;
",
    "
    -- Where an answer ends in timelines that begin with its turn's. Losing a row loses time.
    CREATE TABLE answer_ends (
        message     INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
        fingerprint TEXT NOT NULL,
        tokens      INTEGER NOT NULL,   -- from the first one to the end
        digest      BLOB NOT NULL,      -- SHA-256 of them: i32, little endian
        PRIMARY KEY (message, fingerprint)
    ) WITHOUT ROWID;
",
    "
    -- Texts of the shared tier whose messages are here, or were deleted here.
    CREATE TABLE shared_texts (
        id           INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
        hash         BLOB NOT NULL,     -- SHA-256 of the text
        UNIQUE (conversation, hash)
    );
",
];

/// Compiled statements that a connection keeps. A turn has some twenty: of the 16 that rusqlite keeps by default, each
/// would be gone when the next turn needs it.
pub const STATEMENTS: usize = 64;

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

#[cfg(test)]
mod tests {
    use super::*;

    /// A database of the second version, with a conversation in it.
    fn of_version_2() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        for sql in &MIGRATIONS[..2] {
            connection.execute_batch(sql).unwrap();
        }
        connection
            .execute_batch(
                r#"PRAGMA user_version = 2;
                INSERT INTO conversations (id, created_at, updated_at) VALUES ('a', 1, 2);
                INSERT INTO messages (id, conversation, role, content, status, created_at) VALUES
                    (1, 'a', 'user', '{"role": "user", "content": "Hello there"}', 'complete', 1),
                    (2, 'a', 'assistant', 'no JSON', 'complete', 1),
                    (3, 'a', 'assistant', '{"content": "Hello growing"}', 'streaming', 1);"#,
            )
            .unwrap();
        connection
    }

    fn found(connection: &Connection, text: &str) -> Vec<i64> {
        let mut select =
            connection.prepare("SELECT rowid FROM words WHERE words MATCH ?1 ORDER BY 1").unwrap();
        select.query_map([text], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn what_was_said_before_is_counted_and_found() {
        let mut connection = of_version_2();
        migrate(&mut connection).unwrap();
        let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(count("SELECT message_count FROM conversations"), 3);
        assert_eq!(count("SELECT count(*) FROM conversations WHERE trashed_at IS NULL"), 1);
        assert_eq!(found(&connection, "hello"), [1]);

        connection.execute("UPDATE messages SET status = 'interrupted' WHERE id = 3", []).unwrap();
        assert_eq!(found(&connection, "hello"), [1, 3], "once it does not grow any more");
        connection.execute("UPDATE messages SET status = 'complete' WHERE id = 3", []).unwrap();
        assert_eq!(found(&connection, "hello"), [1, 3]);
    }

    #[test]
    fn deleting_a_message_searches_through_no_others() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        for what in ["messages WHERE parent = 1", "conversations WHERE head = 1"] {
            let plan = format!("EXPLAIN QUERY PLAN SELECT 1 FROM {what}");
            let plan: String = connection.query_row(&plan, [], |row| row.get("detail")).unwrap();
            assert!(plan.starts_with("SEARCH"), "{what}: {plan}");
        }
    }

    #[test]
    fn the_bytes_of_a_document_that_was_there_before_are_counted() {
        let mut connection = of_version_2();
        for sql in &MIGRATIONS[2..11] {
            connection.execute_batch(sql).unwrap();
        }
        connection
            .execute_batch(
                "PRAGMA user_version = 11;
                INSERT INTO documents (id, name, kind, text, created_at, in_library)
                VALUES ('a', 'a.txt', 'text', 'grün', 1, 1);",
            )
            .unwrap();
        migrate(&mut connection).unwrap();
        let bytes = "SELECT bytes FROM documents";
        assert_eq!(connection.query_row(bytes, [], |row| row.get::<_, i64>(0)).unwrap(), 5);
    }
}
