//! Searches titles and messages, in all branches.
//!
//! - The title or one message must contain every word of the query. Case is ignored, and parts of
//!   words match.
//! - The index has trigrams. Words of one or two letters filter the hits of longer words; alone they
//!   are searched in titles only.
//! - Bounded: the newest 20,000 matching messages are read, until 200 conversations are found.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use serde::Serialize;

use super::TranscriptError;
use super::read::{self, Listing, Summary};
use crate::utf16::units;
use crate::wire::message::Message;

/// Conversations that are found by their messages.
const MAX_FOUND: usize = 200;

const MAX_MESSAGES_READ: usize = 20_000;

const MIN_INDEXED_CHARS: usize = 3;

/// Characters of a snippet before and after the first word found.
const CHARS_BEFORE: usize = 40;
const CHARS_AFTER: usize = 90;

/// At least one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchQuery {
    words: Vec<Vec<char>>,
}

impl SearchQuery {
    /// `None` if `text` has no words.
    pub fn of(text: &str) -> Option<Self> {
        let words = text.split(|c: char| c.is_whitespace() || c.is_control());
        let words: Vec<_> = words.filter(|word| !word.is_empty()).map(folded).collect();
        (!words.is_empty()).then_some(Self { words })
    }

    /// The full-text query of the indexed words.
    fn full_text(&self) -> Option<String> {
        let long = self.words.iter().filter(|word| word.len() >= MIN_INDEXED_CHARS);
        let quoted = |word: &Vec<char>| {
            format!("\"{}\"", word.iter().collect::<String>().replace('"', "\"\""))
        };
        let terms: Vec<String> = long.map(quoted).collect();
        (!terms.is_empty()).then(|| terms.join(" "))
    }

    /// The earliest word, in characters, if `text` contains all words.
    fn find(&self, text: &[char]) -> Option<(usize, usize)> {
        let place = |word: &Vec<char>| {
            let start = text.windows(word.len()).position(|part| part == word.as_slice())?;
            Some((start, start + word.len()))
        };
        let places: Option<Vec<_>> = self.words.iter().map(place).collect();
        places?.into_iter().min()
    }
}

/// A piece of a matching message, on one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Snippet {
    pub message: i64,
    pub text: String,
    /// The first word found is `start..end`, in UTF-16 units, as JavaScript counts.
    pub start: usize,
    pub end: usize,
}

/// A conversation that was found.
#[derive(Clone, Debug)]
pub struct Hit {
    pub summary: Summary,
    /// Of its newest matching message; `None`: only its title matches.
    pub snippet: Option<Snippet>,
}

/// See [`super::Transcript::search`].
pub fn search(
    connection: &Connection,
    query: &SearchQuery,
    listing: Listing,
) -> Result<Vec<Hit>, TranscriptError> {
    let list = read::list(connection, listing)?;
    let mut snippets = match query.full_text() {
        Some(terms) => {
            let listed = list.iter().map(|summary| summary.id.as_str()).collect();
            snippets(connection, query, &terms, &listed)?
        }
        None => BTreeMap::new(),
    };
    let hits = list.into_iter().filter_map(|summary| {
        let snippet = snippets.remove(&summary.id);
        let title = folded(summary.title.as_deref().unwrap_or_default());
        (snippet.is_some() || query.find(&title).is_some()).then_some(Hit { summary, snippet })
    });
    Ok(hits.collect())
}

/// A snippet of the newest matching message of each `listed` conversation.
fn snippets(
    connection: &Connection,
    query: &SearchQuery,
    terms: &str,
    listed: &BTreeSet<&str>,
) -> Result<BTreeMap<String, Snippet>, TranscriptError> {
    let mut found = BTreeMap::new();
    let mut select = connection.prepare_cached(
        "SELECT messages.id, conversation, content FROM words
         JOIN messages ON messages.id = words.rowid
         WHERE words MATCH ?1 ORDER BY words.rowid DESC LIMIT ?2",
    )?;
    let mut rows = select.query((terms, MAX_MESSAGES_READ))?;
    while found.len() < MAX_FOUND
        && let Some(row) = rows.next()?
    {
        let conversation = row.get_ref(1)?.as_str().unwrap_or_default();
        if found.contains_key(conversation) || !listed.contains(conversation) {
            continue;
        }
        let content = row.get_ref(2)?.as_str().unwrap_or_default();
        let Some(message) = Message::from_stored(content) else { continue };
        if let Some(snippet) = snippet(row.get(0)?, message.text(), query) {
            found.insert(conversation.to_owned(), snippet);
        }
    }
    Ok(found)
}

fn snippet(message: i64, text: &str, query: &SearchQuery) -> Option<Snippet> {
    let text: Vec<char> = text.chars().collect();
    let folded: Vec<char> = text.iter().copied().map(fold).collect();
    let (from, to) = query.find(&folded)?;
    let begin = from.saturating_sub(CHARS_BEFORE);
    let end = text.len().min(to + CHARS_AFTER);
    let ellipsis = |is_cut: bool| if is_cut { "…" } else { "" };
    let before = format!("{}{}", ellipsis(begin > 0), line(&text[begin..from]));
    let hit: String = text[from..to].iter().collect();
    let after = format!("{}{}", line(&text[to..end]), ellipsis(end < text.len()));
    let start = units(&before);
    let end = start + units(&hit);
    Some(Snippet { message, text: before + &hit + &after, start, end })
}

/// Each run of white space as one space.
fn line(chars: &[char]) -> String {
    let mut line = String::with_capacity(chars.len());
    for &c in chars {
        if !c.is_whitespace() && !c.is_control() {
            line.push(c);
        } else if !line.ends_with(' ') {
            line.push(' ');
        }
    }
    line
}

fn folded(text: &str) -> Vec<char> {
    text.chars().map(fold).collect()
}

/// One character becomes one, so that offsets stay the same.
fn fold(c: char) -> char {
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(lower), None) => lower,
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> SearchQuery {
        SearchQuery::of(text).unwrap()
    }

    #[test]
    fn a_match_contains_all_words_in_any_order_and_case() {
        let find = |text: &str, sought: &str| query(sought).find(&folded(text)).is_some();
        assert!(find("My LOCKER code is 48213.", "code locker"));
        assert!(find("Füße im ÄRMEL", "ärm fü"));
        assert!(!find("My locker is 48213.", "code locker"));
        assert_eq!(SearchQuery::of(" \n\t\0 "), None);
    }

    #[test]
    fn a_snippet_is_one_line_and_marks_the_word() {
        let text = format!("{}\n\n😀  the Locker\ncode{}", "word ".repeat(30), " more".repeat(60));
        let Snippet { text, start, end, .. } = snippet(1, &text, &query("locker")).unwrap();
        let units: Vec<u16> = text.encode_utf16().collect();
        assert_eq!(String::from_utf16(&units[start..end]).unwrap(), "Locker");
        assert!(text.starts_with('…') && text.ends_with('…') && !text.contains('\n'));
        assert!(text.contains("😀 the Locker code more"), "{text}");
    }

    #[test]
    fn quotes_and_operators_are_ordinary_words() {
        let terms = query("\"quoted\" AND* NEAR( a").full_text().unwrap();
        assert_eq!(terms, "\"\"\"quoted\"\"\" \"and*\" \"near(\"");
        assert_eq!(query("is a").full_text(), None);
    }
}
