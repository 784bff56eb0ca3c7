//! Titles: those of given conversations, and one from a conversation's messages.

use std::collections::BTreeSet;

use hob_slots::ConversationId;
use rusqlite::OptionalExtension;

use super::Transcript;
use super::writer::Pending;
use crate::wire::message::{Message, Role};

pub const MAX_TITLE_CHARS: usize = 200;
const MAX_DERIVED_TITLE_CHARS: usize = 60;

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

/// The first words of the user, on one line; of documents without words, the name of the first.
pub fn title<'m>(messages: impl IntoIterator<Item = &'m Message>) -> Option<String> {
    let of_user = messages.into_iter().filter(|message| message.role == Role::User);
    let texts = of_user.map(|message| match message.documents().first() {
        Some(document) if message.is_documents_alone() => document.name.clone(),
        _ => message.text().to_owned(),
    });
    let line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    texts.map(line).find(|line| !line.is_empty()).map(|line| shorten(&line))
}

fn shorten(line: &str) -> String {
    if line.chars().count() <= MAX_DERIVED_TITLE_CHARS {
        return line.to_owned();
    }
    let cut: String = line.chars().take(MAX_DERIVED_TITLE_CHARS - 1).collect();
    format!("{}…", cut.trim_end())
}
