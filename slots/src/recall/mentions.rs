//! Passages that a query names outright: by the key of their segment, the name of a file, an
//! identifier, or words in quotes that they contain exactly.

use std::collections::BTreeMap;

use super::index::Index;
use super::query::Words;
use super::vocabulary::{PassageId, TermId, is_common};
use super::words::{Kind, Word, words};

/// An identifier that more passages have than this part of them, or than [`MIN_FEW`], names none of
/// them.
const FEW: usize = 50;
const MIN_FEW: usize = 4;

/// A longer quote is text to be worked on, not a reference.
const MAX_QUOTE_CHARS: usize = 200;

/// How many names of each passage the query says, by id; none that it does not name.
pub(super) fn mentions(index: &Index, text: &str, query: &Words) -> BTreeMap<PassageId, usize> {
    let mut found = BTreeMap::new();
    let mut name = |passage: PassageId| *found.entry(passage).or_default() += 1;
    for key in index.keys().filter(|key| is_said(&key.words, query)) {
        key.passages.iter().copied().for_each(&mut name);
    }
    identifiers(index, query).for_each(&mut name);
    for quote in quotes(text) {
        quoted(index, quote).into_iter().for_each(&mut name);
    }
    found
}

/// Whether the query has the words of a key in order; of a path, those of the file's name suffice.
fn is_said(key: &[Word], query: &Words) -> bool {
    if let Some(file) = key.iter().rfind(|word| word.kind == Kind::File) {
        return query.all.iter().any(|word| word.text == file.text);
    }
    let plain = |words: &[Word]| -> Vec<String> {
        words.iter().filter(|word| word.kind == Kind::Plain).map(|word| word.text.clone()).collect()
    };
    let (key, said) = (plain(key), plain(&query.all));
    !key.is_empty() && said.windows(key.len()).any(|window| window == key)
}

/// The passages with a file that the query names, or with an identifier of it that few passages
/// have.
fn identifiers<'a>(index: &'a Index, query: &'a Words) -> impl Iterator<Item = PassageId> + 'a {
    let mut named: Vec<(TermId, bool)> = query
        .all
        .iter()
        .filter(|word| word.is_identifier)
        .filter_map(|word| Some((index.vocabulary().id(&word.text)?, word.kind == Kind::File)))
        .collect();
    named.sort_unstable();
    named.dedup();
    named.into_iter().flat_map(move |(id, is_file)| {
        let holders = index.vocabulary().postings(id);
        let few = (index.len() / FEW).max(MIN_FEW);
        let names =
            if is_file { !is_common(index.len(), holders.len()) } else { holders.len() <= few };
        holders.iter().filter(move |_| names).map(|&(passage, _)| passage)
    })
}

/// What stands in quotes, of any common kind.
fn quotes(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut before = None;
    while let Some(open) = rest.chars().next() {
        let inside = &rest[open.len_utf8()..];
        let may_open = !is_apostrophe(open) || !before.is_some_and(char::is_alphanumeric);
        let close = closing(open).filter(|_| may_open);
        (before, rest) = match close.and_then(|close| end_of_quote(inside, close)) {
            Some((end, close)) => {
                found.push(&inside[..end]);
                (Some(close), &inside[end + close.len_utf8()..])
            }
            None => (Some(open), inside),
        };
    }
    found
}

fn closing(open: char) -> Option<&'static [char]> {
    Some(match open {
        '"' => &['"'],
        '\'' => &['\''],
        '`' => &['`'],
        '“' | '„' => &['”', '“'],
        '‘' | '‚' => &['’', '‘'],
        '«' => &['»'],
        '»' => &['«'],
        '「' => &['」'],
        '『' => &['』'],
        '《' => &['》'],
        _ => return None,
    })
}

/// Where the quote ends, and the character that closes it: not at an apostrophe, nor behind too
/// much text.
fn end_of_quote(inside: &str, close: &[char]) -> Option<(usize, char)> {
    let mut chars = inside.char_indices().take(MAX_QUOTE_CHARS).peekable();
    while let Some((at, c)) = chars.next() {
        let in_word = chars.peek().is_some_and(|(_, next)| next.is_alphanumeric());
        if close.contains(&c) && at > 0 && !(is_apostrophe(c) && in_word) {
            return Some((at, c));
        }
    }
    None
}

/// Whether a word may contain it.
fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '’' | '"' | '`')
}

/// The passages that have the words of a quote in a row; none if all its words are common.
fn quoted(index: &Index, quote: &str) -> Vec<PassageId> {
    let plain = words(quote).into_iter().filter(|word| word.kind == Kind::Plain);
    let ids: Option<Vec<TermId>> = plain.map(|word| index.vocabulary().id(&word.text)).collect();
    let ids = ids.unwrap_or_default();
    let rarest =
        ids.iter().map(|&id| index.vocabulary().postings(id)).min_by_key(|holders| holders.len());
    let rarest = rarest.filter(|holders| !is_common(index.len(), holders.len()));
    let holders = rarest.unwrap_or_default().iter().map(|&(passage, _)| passage);
    holders.filter(|&passage| has_in_a_row(index, passage, &ids)).collect()
}

/// Whether the words stand in a row, in the passage or across one of its borders.
fn has_in_a_row(index: &Index, passage: PassageId, ids: &[TermId]) -> bool {
    let most = ids.len() - 1;
    let mut row: Vec<TermId> = Vec::new();
    let [before, after] = index.neighbours(passage);
    if let Some(near) = before {
        let before = index.entry(near);
        let end =
            before.sequence.len() - usize::from(before.cuts_word() && !before.sequence.is_empty());
        row.extend(&before.sequence[end.saturating_sub(most)..end]);
    }
    let entry = index.entry(passage);
    row.extend(&entry.sequence);
    if let Some(near) = after {
        let after = &index.entry(near).sequence;
        let start = usize::from(entry.cuts_word()).min(after.len());
        row.extend(&after[start..(start + most).min(after.len())]);
    }
    row.windows(ids.len()).any(|window| window == ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_of_many_kinds_are_found_and_apostrophes_are_not() {
        assert_eq!(quotes("What is \"max size\" and `min`?"), ["max size", "min"]);
        assert_eq!(quotes("Wo steht „im Keller“?"), ["im Keller"]);
        assert_eq!(quotes("the dog's and the cat's names"), [""; 0]);
        assert_eq!(quotes("who said 'I don't know' then?"), ["I don't know"]);
        assert_eq!(quotes("请问「密码」在哪里"), ["密码"]);
        assert_eq!(quotes("an open \" quote"), [""; 0]);
        assert_eq!(quotes("\"\" ''"), [""; 0]);
    }
}
