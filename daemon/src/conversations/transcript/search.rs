//! Finds conversations by their titles and by what was said in any of their branches.
//!
//! - Every word of a query must be in the title, or all of them in one message; parts of words
//!   count, and small letters are as good as large ones.
//! - The index knows runs of three letters. Shorter words narrow down what a longer one found;
//!   alone they are looked for in titles only.
//! - Bounded: a word that is everywhere is looked up in the newest messages until enough
//!   conversations have it.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use serde::Serialize;

use super::TranscriptError;
use super::read::{self, Summary};
use crate::utf16::units;
use crate::wire::message::Message;

/// Conversations that are found by what was said in them, at most.
pub const MOST_FOUND: usize = 200;

/// Messages that are looked at, at most.
const MOST_LOOKED_AT: usize = 20_000;

/// The shortest word that the index knows.
const INDEXED_CHARS: usize = 3;

/// Characters around what was found.
const BEFORE: usize = 40;
const BEHIND: usize = 90;

/// What is looked for: words, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchQuery {
    words: Vec<Vec<char>>,
}

impl SearchQuery {
    /// `None` when `text` has no words.
    pub fn of(text: &str) -> Option<Self> {
        let words = text.split(|c: char| c.is_whitespace() || c.is_control());
        let words: Vec<_> = words.filter(|word| !word.is_empty()).map(folded).collect();
        (!words.is_empty()).then_some(Self { words })
    }

    /// The long words, for the index.
    fn indexed(&self) -> Option<String> {
        let long = self.words.iter().filter(|word| word.len() >= INDEXED_CHARS);
        let quoted = |word: &Vec<char>| {
            format!("\"{}\"", word.iter().collect::<String>().replace('"', "\"\""))
        };
        let terms: Vec<String> = long.map(quoted).collect();
        (!terms.is_empty()).then(|| terms.join(" "))
    }

    /// Where the earliest word stands, in characters, if all are there.
    fn find(&self, text: &[char]) -> Option<(usize, usize)> {
        let place = |word: &Vec<char>| {
            let start = text.windows(word.len()).position(|part| part == word.as_slice())?;
            Some((start, start + word.len()))
        };
        let places: Option<Vec<_>> = self.words.iter().map(place).collect();
        places?.into_iter().min()
    }
}

/// A piece of a message in which everything was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Snippet {
    /// Which message.
    pub message: i64,
    /// The piece, on one line.
    pub text: String,
    /// Where in it the first of the words stands, in UTF-16 units, as JavaScript counts.
    pub start: usize,
    /// And where it ends.
    pub end: usize,
}

/// A conversation that was found; the snippet is of its newest message that has all words.
pub type Hit = (Summary, Option<Snippet>);

/// See [`super::Transcript::search`].
pub fn search(
    connection: &Connection,
    query: &SearchQuery,
    trashed: bool,
) -> Result<Vec<Hit>, TranscriptError> {
    let list = read::list(connection, trashed)?;
    let mut said = match query.indexed() {
        Some(terms) => {
            let listed = list.iter().map(|summary| summary.id.as_str()).collect();
            said(connection, query, &terms, &listed)?
        }
        None => BTreeMap::new(),
    };
    let hits = list.into_iter().filter_map(|summary| {
        let snippet = said.remove(&summary.id);
        let title = folded(summary.title.as_deref().unwrap_or_default());
        (snippet.is_some() || query.find(&title).is_some()).then_some((summary, snippet))
    });
    Ok(hits.collect())
}

/// The newest message of each of the `listed` conversations that has all words.
fn said(
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
    let mut rows = select.query((terms, MOST_LOOKED_AT))?;
    while found.len() < MOST_FOUND
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
    let begin = from.saturating_sub(BEFORE);
    let end = text.len().min(to + BEHIND);
    let cut = |at: bool| if at { "…" } else { "" };
    let before = format!("{}{}", cut(begin > 0), line(&text[begin..from]));
    let hit: String = text[from..to].iter().collect();
    let behind = format!("{}{}", line(&text[to..end]), cut(end < text.len()));
    let start = units(&before);
    let end = start + units(&hit);
    Some(Snippet { message, text: before + &hit + &behind, start, end })
}

/// Each run of white space as one space.
fn line(chars: &[char]) -> String {
    let mut line = String::with_capacity(chars.len());
    for &c in chars {
        match c.is_whitespace() || c.is_control() {
            true if line.ends_with(' ') => {}
            true => line.push(' '),
            false => line.push(c),
        }
    }
    line
}

fn folded(text: &str) -> Vec<char> {
    text.chars().map(fold).collect()
}

/// One character for one, so that places stay where they are.
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
    fn all_words_must_be_there_in_any_order_and_size() {
        let find = |text: &str, sought: &str| query(sought).find(&folded(text)).is_some();
        assert!(find("My LOCKER code is 48213.", "code locker"));
        assert!(find("Füße im ÄRMEL", "ärm fü"));
        assert!(!find("My locker is 48213.", "code locker"));
        assert_eq!(SearchQuery::of(" \n\t\0 "), None);
    }

    #[test]
    fn a_snippet_is_one_line_and_says_where_the_word_stands() {
        let text = format!("{}\n\n😀  the Locker\ncode{}", "word ".repeat(30), " more".repeat(60));
        let Snippet { text, start, end, .. } = snippet(1, &text, &query("locker")).unwrap();
        let units: Vec<u16> = text.encode_utf16().collect();
        assert_eq!(String::from_utf16(&units[start..end]).unwrap(), "Locker");
        assert!(text.starts_with('…') && text.ends_with('…') && !text.contains('\n'));
        assert!(text.contains("😀 the Locker code more"), "{text}");
    }

    #[test]
    fn quotes_and_operators_are_words_like_others() {
        let terms = query("\"quoted\" AND* NEAR( a").indexed().unwrap();
        assert_eq!(terms, "\"\"\"quoted\"\"\" \"and*\" \"near(\"");
        assert_eq!(query("is a").indexed(), None);
    }
}
