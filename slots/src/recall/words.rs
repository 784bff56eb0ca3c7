//! Text to words that compare equal when a reader would call them the same.
//!
//! - Folded: lower case, without accents, compatibility forms as their plain ones (NFKD; Unicode
//!   Standard Annex 15), `ß` as `ss`, without a possessive `'s`.
//! - An identifier gives its parts and, beside them, itself: `max_size` and `maxSize` give `max`,
//!   `size` and `maxsize`; `config.py` gives `config`, `py` and `config.py`.
//! - Scripts that put no spaces between words give overlapping pairs of characters.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Longer words are cut: they are keys or data, and their beginnings tell them apart.
const MAX_WORD_CHARS: usize = 64;

/// An identifier of more parts than this gives its parts only.
const MAX_PARTS: usize = 8;

/// Half of a word that a border of blocks cuts is at most this long, in characters.
const MAX_CUT_CHARS: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub text: String,
    pub kind: Kind,
    /// The word would hardly be said by chance: it has digits, `_`, an inner `.` or an inner capital.
    pub is_identifier: bool,
    /// How the sentence or line ends whose last plain word this is.
    pub end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Statement,
    Question,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Has a place in the sequence of words.
    Plain,
    /// Repeats the plain words before it as one.
    Whole,
    /// A [`Kind::Whole`] that looks like the name of a file.
    File,
}

/// The words of `text`, in order; a whole follows its parts.
pub(super) fn words(text: &str) -> Vec<Word> {
    let chars: Vec<char> = normal(text).chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        if is_unspaced(chars[at]) {
            let end = run(&chars, at, is_unspaced);
            pairs(&chars[at..end], &mut found);
            at = end;
        } else if is_spaced(chars[at]) {
            at = compound(&chars, at, &mut found);
        } else {
            let last = found.iter_mut().rfind(|word: &&mut Word| word.kind == Kind::Plain);
            if let Some((end, word)) = end_of_sentence(&chars, at).zip(last) {
                word.end.get_or_insert(end);
            }
            at += 1;
        }
    }
    found
}

/// The sentences and lines of a text, trimmed, without those that have no letter or digit.
pub fn sentences(text: &str) -> Vec<&str> {
    let (at, chars): (Vec<usize>, Vec<char>) = text.char_indices().unzip();
    let mut found = Vec::new();
    let mut start = 0;
    for index in 0..chars.len() {
        if end_of_sentence(&chars, index).is_some() {
            let end = at[index] + chars[index].len_utf8();
            found.push(&text[std::mem::replace(&mut start, end)..end]);
        }
    }
    found.push(&text[start..]);
    let is_said = |sentence: &&str| sentence.chars().any(char::is_alphanumeric);
    found.into_iter().map(str::trim).filter(is_said).collect()
}

fn end_of_sentence(chars: &[char], at: usize) -> Option<End> {
    match chars[at] {
        '?' | '？' | '؟' => Some(End::Question),
        '\n' | '。' | '！' => Some(End::Statement),
        '.' | '!' if chars.get(at + 1).is_none_or(|c| !is_spaced(*c)) => Some(End::Statement),
        _ => None,
    }
}

/// The singular of an English plural, by the three rules of Harman, "How Effective Is Suffixing?",
/// 1991.
pub(super) fn singular(word: &str) -> Cow<'_, str> {
    let ends = |suffixes: &[&str]| suffixes.iter().any(|suffix| word.ends_with(suffix));
    if word.len() < 4 || !ends(&["s"]) || !word.is_ascii() {
        word.into()
    } else if ends(&["ies"]) && !ends(&["eies", "aies"]) {
        format!("{}y", &word[..word.len() - 3]).into()
    } else if ends(&["us", "ss", "aes", "ees", "oes"]) {
        word.into()
    } else {
        word[..word.len() - 1].into()
    }
}

/// The two halves of a word that the border between two texts cuts.
pub(super) fn cut_word<'a>(before: &'a str, after: &'a str) -> Option<(&'a str, &'a str)> {
    let (last, first) = (before.chars().next_back()?, after.chars().next()?);
    if is_unspaced(last) && is_unspaced(first) {
        return Some((&before[before.len() - last.len_utf8()..], &after[..first.len_utf8()]));
    }
    let glue = |c: char| is_spaced(c) || matches!(c, '_' | '-' | '.' | ',' | '\'');
    let start = before.char_indices().rev().take(MAX_CUT_CHARS).take_while(|&(_, c)| glue(c));
    let left = &before[start.last().map_or(before.len(), |(at, _)| at)..];
    let end = after.char_indices().take(MAX_CUT_CHARS).take_while(|&(_, c)| glue(c));
    let right = &after[..end.last().map_or(0, |(at, c)| at + c.len_utf8())];
    // A mark behind the word ends a sentence of the text behind the border, not of the one before.
    let right = right.trim_end_matches(|c| !is_spaced(c));
    (left.contains(is_spaced) && right.contains(is_spaced)).then_some((left, right))
}

/// Plain characters in their own case; marks that only accent a letter are gone.
fn normal(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return text.into();
    }
    let invisible = |c: char| matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{feff}');
    let accent = |c: char| ('\u{300}'..='\u{36f}').contains(&c);
    let plain: String = text.nfkd().filter(|&c| !accent(c) && !invisible(c)).nfc().collect();
    plain.replace('ß', "ss").replace('ẞ', "SS").replace('’', "'").replace('‐', "-").into()
}

fn is_spaced(c: char) -> bool {
    (c.is_alphanumeric() || is_combining_mark(c)) && !is_unspaced(c)
}

/// Whether `c` belongs to a script whose words are not told apart by spaces. Korean has spaces, but
/// its particles join the words.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}'       // Thai, Lao
        | '\u{1000}'..='\u{109f}'   // Myanmar
        | '\u{1100}'..='\u{11ff}'   // Hangul, decomposed
        | '\u{1780}'..='\u{17ff}'   // Khmer
        | '\u{3005}' | '\u{3007}'
        | '\u{3041}'..='\u{30fa}' | '\u{30fc}'..='\u{312f}' // Kana, Bopomofo
        | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' // Han, Hangul
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

fn run(chars: &[char], start: usize, inside: fn(char) -> bool) -> usize {
    start + chars[start..].iter().take_while(|&&c| inside(c)).count()
}

fn pairs(run: &[char], found: &mut Vec<Word>) {
    let width = run.len().min(2);
    found.extend(run.windows(width).map(|pair| plain(pair.iter().collect())));
}

fn plain(text: String) -> Word {
    let digits = text.chars().filter(char::is_ascii_digit).count();
    let is_identifier = digits > 0 && text.len() > 2;
    Word { text, kind: Kind::Plain, is_identifier, end: None }
}

/// Reads the parts that joining characters hold together from `start` on; the end.
fn compound(chars: &[char], start: usize, found: &mut Vec<Word>) -> usize {
    let end = run(chars, start, is_spaced);
    if joiner(chars, end).is_none() && apostrophe(chars, end).is_none() {
        let part = &chars[start..end];
        // Most words. The rest of this function would come to the same, through more memory.
        if part[1..].iter().all(|c| c.is_lowercase()) {
            found.push(plain(lower(part)));
            return end;
        }
    }
    let first = found.len();
    let mut whole = String::new();
    let mut parts = 0;
    let mut at = start;
    let mut marks = Marks::default();
    loop {
        let end = run(chars, at, is_spaced);
        let mut part: Vec<char> = chars[at..end].to_vec();
        at = end;
        // don't, neighbour's, l'école
        while let Some(after) = apostrophe(chars, at) {
            let end = run(chars, after, is_spaced);
            let right = &chars[after..end];
            if part.len() <= 2 && right.len() > 2 {
                push_part(&part, &mut whole, found, &mut marks);
                parts += 1;
                part.clear();
            }
            if !matches!(right, ['s' | 'S']) {
                part.extend(right);
            }
            at = end;
        }
        push_part(&part, &mut whole, found, &mut marks);
        parts += 1;
        let Some((joiner, after)) = joiner(chars, at) else { break };
        if joiner == '.' {
            whole.push('.');
        }
        marks.dot_at = if joiner == '.' { Some(whole.len()) } else { None };
        marks.is_identifier |= matches!(joiner, '.' | '_');
        at = after;
    }
    let pieces = found.len() - first;
    if pieces > 1 && parts <= MAX_PARTS && whole.chars().count() <= MAX_WORD_CHARS {
        let extension = marks.dot_at.map(|dot| &whole[dot..]);
        let is_file = extension.is_some_and(|name| {
            name.len() <= 5 && name.starts_with(|c: char| c.is_ascii_lowercase())
        });
        let is_identifier = marks.is_identifier || whole.contains(|c: char| c.is_ascii_digit());
        let kind = if is_file { Kind::File } else { Kind::Whole };
        found.push(Word { text: whole, kind, is_identifier, end: None });
    }
    at
}

#[derive(Default)]
struct Marks {
    /// Where the part after the last `.` begins, if the last joining character was one.
    dot_at: Option<usize>,
    is_identifier: bool,
}

fn apostrophe(chars: &[char], at: usize) -> Option<usize> {
    let next = chars.get(at + 1)?;
    (chars[at] == '\'' && is_spaced(*next)).then_some(at + 1)
}

/// The character that joins the part before `at` with the part at the returned place.
fn joiner(chars: &[char], at: usize) -> Option<(char, usize)> {
    let joiner = *chars.get(at)?;
    let end = if joiner == '_' { run(chars, at, |c| c == '_') } else { at + 1 };
    let (before, after) = (chars[at.checked_sub(1)?], *chars.get(end)?);
    let joins = match joiner {
        '_' | '-' | '.' => is_spaced(after),
        ',' => before.is_ascii_digit() && after.is_ascii_digit(),
        _ => false,
    };
    joins.then_some((joiner, end))
}

/// One part: as one word, or as several when capitals or digits divide it, as in `maxSize`.
fn push_part(part: &[char], whole: &mut String, found: &mut Vec<Word>, marks: &mut Marks) {
    if part.is_empty() {
        return;
    }
    let humps = humps(part);
    marks.is_identifier |= humps.len() > 1;
    found.extend(humps.iter().map(|hump| plain(lower(hump))));
    whole.push_str(&lower(part));
}

fn lower(part: &[char]) -> String {
    let chars = part.iter().take(MAX_WORD_CHARS).flat_map(|c| c.to_lowercase());
    chars.map(|c| if c == 'ς' { 'σ' } else { c }).collect()
}

fn humps(part: &[char]) -> Vec<&[char]> {
    let mut humps = Vec::new();
    let mut start = 0;
    for at in 1..part.len() {
        let (before, here) = (part[at - 1], part[at]);
        let rises = before.is_lowercase() && here.is_uppercase();
        let acronym_ends = before.is_uppercase()
            && here.is_uppercase()
            && part.get(at + 1).is_some_and(|c| c.is_lowercase());
        let digits_begin = before.is_ascii_digit() != here.is_ascii_digit();
        if rises || acronym_ends || digits_begin {
            humps.push(&part[start..at]);
            start = at;
        }
    }
    humps.push(&part[start..]);
    // A4, r2d2, iPhone: no part alone says anything.
    if humps.iter().any(|hump| hump.len() < 2) { vec![part] } else { humps }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(text: &str) -> Vec<String> {
        words(text).into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn identifiers_give_themselves_and_their_parts() {
        assert_eq!(texts("max_size"), ["max", "size", "maxsize"]);
        assert_eq!(texts("maxSize"), ["max", "size", "maxsize"]);
        assert_eq!(texts("[file:config.py]"), ["file", "config", "py", "config.py"]);
        assert_eq!(texts("src/main.rs:12"), ["src", "main", "rs", "main.rs", "12"]);
        assert_eq!(texts("HTTPServer"), ["http", "server", "httpserver"]);
        assert_eq!(texts("flight AB123"), ["flight", "ab", "123", "ab123"]);
        assert_eq!(texts("48,213 or 48213"), ["48", "213", "48213", "or", "48213"]);
        assert_eq!(texts("my iPhone."), ["my", "iphone"]);
    }

    #[test]
    fn names_of_files_are_told_from_other_identifiers() {
        let kind = |text| words(text).pop().map(|word| (word.kind, word.is_identifier));
        assert_eq!(kind("config.py"), Some((Kind::File, true)));
        assert_eq!(kind("archive.tar.gz"), Some((Kind::File, true)));
        assert_eq!(kind("max_size"), Some((Kind::Whole, true)));
        assert_eq!(kind("well-known"), Some((Kind::Whole, false)));
        assert_eq!(kind("3.14"), Some((Kind::Whole, true)));
        assert_eq!(kind("48213"), Some((Kind::Plain, true)));
        assert_eq!(kind("locker"), Some((Kind::Plain, false)));
    }

    #[test]
    fn case_accents_and_apostrophes_fold() {
        assert_eq!(texts("Café CAFE\u{301} cafe"), ["cafe"; 3]);
        assert_eq!(texts("Straße STRASSE"), ["strasse"; 2]);
        assert_eq!(texts("my dog's name"), ["my", "dog", "name"]);
        assert_eq!(texts("I don’t know"), ["i", "dont", "know"]);
        assert_eq!(texts("l'école O'Brien"), ["l", "ecole", "lecole", "o", "brien", "obrien"]);
        assert_eq!(texts("ΣΟΦΟΣ σοφός"), ["σοφοσ"; 2]);
        assert_eq!(texts("ＡＢＣ"), ["abc"]);
    }

    #[test]
    fn scripts_without_spaces_give_pairs() {
        assert_eq!(texts("密码是48213。"), ["密码", "码是", "48213"]);
        assert_eq!(texts("猫"), ["猫"]);
        assert_eq!(texts("ロッカー"), ["ロッ", "ッカ", "カー"]);
        assert_eq!(texts("पासवर्ड क्या है"), ["पासवर्ड", "क्या", "है"]);
    }

    #[test]
    fn sentences_end_at_their_marks_and_at_lines() {
        let ends: Vec<(String, End)> = words("Is it in config.py? No. It is\nelsewhere")
            .into_iter()
            .filter_map(|word| Some((word.text, word.end?)))
            .collect();
        let expected = [("py", End::Question), ("no", End::Statement), ("is", End::Statement)];
        assert_eq!(ends, expected.map(|(text, end)| (text.to_owned(), end)));
    }

    #[test]
    fn a_text_is_cut_into_sentences() {
        let text = "Is it in config.py? No.\n\n- It is\nelsewhere… 你好。再见";
        let expected = ["Is it in config.py?", "No.", "- It is", "elsewhere… 你好。", "再见"];
        assert_eq!(sentences(text), expected);
        assert!(sentences(" ---\n").is_empty());
    }

    #[test]
    fn plurals_meet_their_singulars() {
        let pairs = [("codes", "code"), ("retries", "retry"), ("bus", "bus"), ("glass", "glass")];
        for (plural, expected) in pairs {
            assert_eq!(singular(plural), expected);
        }
    }

    #[test]
    fn a_cut_word_is_found_at_a_border_without_space() {
        assert_eq!(cut_word("my loc", "ker code"), Some(("loc", "ker")));
        assert_eq!(cut_word("in config", ".py, what"), Some(("config", ".py")));
        assert_eq!(cut_word("is 48", "213. It"), Some(("48", "213")));
        assert_eq!(cut_word("my locker", " code"), None);
        assert_eq!(cut_word("is 48213.", "\nNext"), None);
        assert_eq!(cut_word("的密码", "是什么"), Some(("码", "是")));
        assert_eq!(cut_word("", "code"), None);
    }

    proptest! {
        #[test]
        fn any_text_gives_words_that_fold_to_themselves(text in "\\PC{0,80}") {
            for word in words(&text).into_iter().filter(|word| word.kind == Kind::Plain) {
                prop_assert!(!word.text.is_empty());
                prop_assert!(words(&word.text).iter().any(|again| again.text == word.text), "{word:?}");
            }
        }
    }
}
