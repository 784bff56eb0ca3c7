//! Words of a text that will be others when it is read again: clocks, dates, numbers of now, ids.
//!
//! - For whoever writes what prompts begin with: nothing differs yet. So only what looks like a moment
//!   counts: a plain number, or a day that a rule is about, does not.
//! - It is advice: a text may hold a date that stays.

use super::moment::{
    NEAR, has_date, has_time, is_calendar_number, is_half_of_day, is_month, is_number,
    is_unix_time, is_weekday, placed_words,
};

/// What kind of word it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A time of day.
    Clock,
    /// A day.
    Date,
    /// Seconds or milliseconds since 1970.
    Number,
    /// A name that is drawn by chance.
    Id,
}

impl Kind {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clock => "clock",
            Self::Date => "date",
            Self::Number => "number",
            Self::Id => "id",
        }
    }
}

/// A volatile word, or several that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volatile {
    /// The byte where it begins.
    pub start: usize,
    /// The byte behind it.
    pub end: usize,
    /// What it is.
    pub kind: Kind,
}

/// The volatile words of a text, in order; none overlaps another.
pub fn volatile(text: &str) -> Vec<Volatile> {
    let mut found: Vec<Volatile> = Vec::new();
    let mut begin = 0;
    for line in text.split_inclusive('\n') {
        let words: Vec<(usize, &str)> = placed_words(line).collect();
        for at in 0..words.len() {
            let Some((first, last, kind)) = around(&words, at) else { continue };
            let start = begin + words[first].0;
            let end = begin + words[last].0 + words[last].1.len();
            match found.last_mut().filter(|before| start < before.end) {
                Some(before) => before.end = before.end.max(end),
                None => found.push(Volatile { start, end, kind }),
            }
        }
        begin += line.len();
    }
    found
}

/// The words that belong to a moment with the word `at`, and what they are.
fn around(words: &[(usize, &str)], at: usize) -> Option<(usize, usize, Kind)> {
    let word = words[at].1;
    if has_date(word) {
        return Some((at, at, Kind::Date));
    }
    if has_time(word) {
        return Some((at, at, Kind::Clock));
    }
    if is_unix_time(word) {
        return Some((at, at, Kind::Number));
    }
    if is_uuid(word) {
        return Some((at, at, Kind::Id));
    }
    if is_half_of_day(word) && at > 0 && is_number(words[at - 1].1) {
        return Some((at - 1, at, Kind::Clock));
    }
    let (from, to) = (at.saturating_sub(NEAR), (at + NEAR).min(words.len() - 1));
    if is_month(word) {
        let numbers = (from..=to).filter(|&near| is_calendar_number(words[near].1));
        let (first, last) = ends(numbers)?;
        return Some((first.min(at), last.max(at), Kind::Date));
    }
    let is_today = |near: usize| {
        let near = words[near].1;
        has_date(near) || is_month(near) || near.eq_ignore_ascii_case("today")
    };
    (is_weekday(word) && (from..=to).any(is_today)).then_some((at, at, Kind::Date))
}

fn ends(mut places: impl Iterator<Item = usize>) -> Option<(usize, usize)> {
    let first = places.next()?;
    Some((first, places.last().unwrap_or(first)))
}

/// `6f1c2d0e-1111-4a4b-9c9c-0123456789ab`
fn is_uuid(word: &str) -> bool {
    let groups: Vec<usize> = word.split('-').map(str::len).collect();
    groups == [8, 4, 4, 4, 12] && word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<(&str, &str)> {
        let found = volatile(text);
        found.iter().map(|word| (&text[word.start..word.end], word.kind.as_str())).collect()
    }

    #[test]
    fn whatever_tells_a_moment_is_found_where_it_stands() {
        for (text, expected) in [
            ("It is 10:41 now.", vec![("10:41", "clock")]),
            (
                "Today is Friday, November 21, 2026.",
                vec![("Friday", "date"), ("November 21, 2026", "date")],
            ),
            ("Begun on the 1st of December.", vec![("1st of December", "date")]),
            ("Now: 2026-11-21T10:41:33Z", vec![("2026-11-21T10:41:33Z", "date")]),
            ("ü at 9 PM\nand <t>21.11.2026</t>", vec![("9 PM", "clock"), ("21.11.2026", "date")]),
            ("t=1795222219;", vec![("1795222219", "number")]),
            (
                "user 6f1c2d0e-1111-4a4b-9c9c-0123456789ab",
                vec![("6f1c2d0e-1111-4a4b-9c9c-0123456789ab", "id")],
            ),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn rules_that_speak_of_days_and_numbers_are_left_alone() {
        for text in [
            "You may name 3 of them. May I help?",
            "Never call on a Sunday, and use version 1.2.3 on a scale of 1:100.",
            "Answer in 2 sentences; the year has 12 months.",
            "",
            "\n\n",
        ] {
            assert_eq!(words(text), [], "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_gives_ordered_places_within_it(text in "[ -~üé語\n]{0,80}|[0-9:. AMPNov-]{0,40}") {
            let mut end = 0;
            for word in volatile(&text) {
                proptest::prop_assert!(end <= word.start && word.start < word.end);
                proptest::prop_assert!(text.get(word.start..word.end).is_some());
                end = word.end;
            }
        }
    }
}
