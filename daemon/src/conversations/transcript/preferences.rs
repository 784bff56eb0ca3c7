//! What the clients of this daemon share, as JSON under a name.

use rusqlite::{Connection, OptionalExtension};
use serde_json::Value;

use super::writer::Pending;
use super::{Transcript, TranscriptError};

impl Transcript {
    /// What the clients share under this name.
    pub fn preference(&self, name: &'static str) -> Pending<Option<Value>> {
        self.writer.read(move |connection| load(connection, name))
    }

    /// `None` deletes it.
    pub fn set_preference(&self, name: &'static str, value: Option<Value>) -> Pending<()> {
        self.writer.write(move |connection| save(connection, name, value.as_ref()))
    }
}

fn load(connection: &Connection, name: &str) -> Result<Option<Value>, TranscriptError> {
    let value: Option<String> = connection
        .prepare_cached("SELECT value FROM preferences WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()?;
    Ok(value.and_then(|text| serde_json::from_str(&text).ok()))
}

/// `None` deletes it.
fn save(connection: &Connection, name: &str, value: Option<&Value>) -> Result<(), TranscriptError> {
    match value {
        Some(value) => connection.execute(
            "INSERT INTO preferences (name, value) VALUES (?1, ?2)
             ON CONFLICT DO UPDATE SET value = excluded.value",
            (name, value.to_string()),
        )?,
        None => connection.execute("DELETE FROM preferences WHERE name = ?1", [name])?,
    };
    Ok(())
}
