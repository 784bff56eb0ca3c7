//! The titles of given conversations.

use std::collections::BTreeSet;

use hob_slots::ConversationId;
use rusqlite::OptionalExtension;

use super::Transcript;
use super::writer::Pending;

pub const MAX_TITLE_CHARS: usize = 200;

impl Transcript {
    /// Untitled conversations are left out.
    pub fn titles(
        &self,
        conversations: BTreeSet<ConversationId>,
    ) -> Pending<Vec<(ConversationId, String)>> {
        self.read_both(move |connection| {
            let mut title =
                connection.prepare_cached("SELECT title FROM conversations WHERE id = ?1")?;
            let mut titles = Vec::new();
            for id in &conversations {
                let found = title.query_row([id.as_str()], |row| row.get::<_, Option<String>>(0));
                titles.extend(found.optional()?.flatten().map(|title| (id.clone(), title)));
            }
            Ok(titles)
        })
    }
}
