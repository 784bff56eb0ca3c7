//! Finds the words of a text that differ each time it is rendered: clocks, dates, numbers, ids.
//!
//! - [`volatile`] warns the author of a profile, before anything has differed. Only what looks
//!   like a moment counts: a plain number, or a weekday in a rule, does not.
//! - [`is_moment`] and [`is_id`] judge a word that did differ, and accept more.
//! - Words end at white space and at the characters that JSON and markup put around values. Names of
//!   months and weekdays are English.

use std::sync::LazyLock;

use regex::{RegexSet, SetMatches};

/// Words on each side of a month in which a number makes it a date.
const NEAR: usize = 2;

/// An index into [`PATTERNS`].
#[derive(Clone, Copy)]
enum Shape {
    Time,
    Date,
    UnixTime,
    Uuid,
    HalfOfDay,
    Month,
    Weekday,
    Today,
    Number,
    CalendarNumber,
    HexId,
    NameId,
}

/// One for each [`Shape`], in its order. A version has three numbers like a date, but no year.
const PATTERNS: [&str; 12] = [
    r"(?:^|[^0-9])[0-9]{1,2}:[0-9]{2}(?:[^0-9]|$)",
    concat!(
        r"(?:^|[^0-9])(?:[0-9]{1,4}/[0-9]{1,4}/[0-9]{1,4}",
        r"|[0-9]{4}-[0-9]{1,4}-[0-9]{1,4}|[0-9]{1,4}-[0-9]{1,4}-[0-9]{4}",
        r"|[0-9]{4}\.[0-9]{1,4}\.[0-9]{1,4}|[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{4})(?:[^0-9]|$)",
    ),
    // Seconds or milliseconds, of this century.
    r"^[12](?:[0-9]{9}|[0-9]{12})$",
    r"^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$",
    r"^(?i-u:[ap]\.?m)$",
    // Capitalised: `may` is no month, and `sun` no day.
    concat!(
        r"^(?:J(?i-u:an(?:uary)?|une?|uly?)|F(?i-u:eb(?:ruary)?)|M(?i-u:ar(?:ch)?|ay)",
        r"|A(?i-u:pr(?:il)?|ug(?:ust)?)|S(?i-u:ep(?:tember)?)|O(?i-u:ct(?:ober)?)",
        r"|N(?i-u:ov(?:ember)?)|D(?i-u:ec(?:ember)?))$",
    ),
    concat!(
        r"^(?:M(?i-u:on(?:day)?)|T(?i-u:ue(?:sday)?|hu(?:rsday)?)|W(?i-u:ed(?:nesday)?)",
        r"|F(?i-u:ri(?:day)?)|S(?i-u:at(?:urday)?|un(?:day)?))$",
    ),
    r"^(?i-u:today)$",
    r"^[0-9]+$",
    // A day of a month, `21st` too, or a year.
    r"^0*(?:[1-9]|[12][0-9]|3[01]|19[0-9]{2}|2[01][0-9]{2})[A-Za-z]*$",
    r"^[A-Fa-f-]*[0-9][0-9A-Fa-f-]*$",
    r"^(?:[A-Za-z_-]*[0-9]){3}[0-9A-Za-z_-]*$",
];
const HEX_ID_CHARS: usize = 8;
const NAME_ID_CHARS: usize = 12;

static SHAPES: LazyLock<RegexSet> =
    LazyLock::new(|| RegexSet::new(PATTERNS).expect("the patterns are constant"));

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Clock,
    Date,
    /// Seconds or milliseconds since 1970.
    Number,
    /// A random id.
    Id,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clock => "clock",
            Self::Date => "date",
            Self::Number => "number",
            Self::Id => "id",
        }
    }
}

/// A volatile word, or several that belong together: bytes `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volatile {
    pub start: usize,
    pub end: usize,
    pub kind: Kind,
}

/// The volatile words of a text, in order and without overlaps.
pub fn volatile(text: &str) -> Vec<Volatile> {
    let mut found: Vec<Volatile> = Vec::new();
    let mut line_start = 0;
    for line in text.split_inclusive('\n') {
        let words = words(line);
        for at in 0..words.len() {
            let Some((first, last, kind)) = around(&words, at) else { continue };
            let start = line_start + words[first].start;
            let end = line_start + words[last].start + words[last].text.len();
            match found.last_mut().filter(|before| start < before.end) {
                Some(before) => before.end = before.end.max(end),
                None => found.push(Volatile { start, end, kind }),
            }
        }
        line_start += line.len();
    }
    found
}

/// The first and the last word that belong to a moment with the word `at`.
fn around(words: &[Word<'_>], at: usize) -> Option<(usize, usize, Kind)> {
    let word = &words[at];
    let alone = [
        (Shape::Date, Kind::Date),
        (Shape::Time, Kind::Clock),
        (Shape::UnixTime, Kind::Number),
        (Shape::Uuid, Kind::Id),
    ];
    if let Some((_, kind)) = alone.into_iter().find(|(shape, _)| word.is(*shape)) {
        return Some((at, at, kind));
    }
    if word.is(Shape::HalfOfDay) && at > 0 && words[at - 1].is(Shape::Number) {
        return Some((at - 1, at, Kind::Clock));
    }
    let mut near = at.saturating_sub(NEAR)..words.len().min(at + NEAR + 1);
    if word.is(Shape::Month) {
        let mut numbers = near.filter(|&near| words[near].is(Shape::CalendarNumber));
        let first = numbers.next()?;
        let last = numbers.next_back().unwrap_or(first);
        return Some((first.min(at), last.max(at), Kind::Date));
    }
    let names_a_day = [Shape::Date, Shape::Month, Shape::Today];
    let is_today = |near: usize| names_a_day.iter().any(|shape| words[near].is(*shape));
    (word.is(Shape::Weekday) && near.any(is_today)).then_some((at, at, Kind::Date))
}

/// Whether the word at byte `offset` belongs to a time or a date.
pub fn is_moment(text: &str, offset: usize) -> bool {
    let (words, at) = line_at(text, offset);
    let Some(word) = words.get(at) else { return false };
    let near = &words[at.saturating_sub(NEAR)..words.len().min(at + NEAR + 1)];
    let is_named = |word: &Word<'_>| word.is(Shape::Month) || word.is(Shape::Weekday);
    let alone = [Shape::Time, Shape::Date, Shape::HalfOfDay, Shape::UnixTime];
    alone.iter().any(|shape| word.is(*shape))
        || is_named(word)
        || (word.is(Shape::CalendarNumber) && near.iter().any(is_named))
        || (word.is(Shape::Number)
            && words.get(at + 1).is_some_and(|next| next.is(Shape::HalfOfDay)))
}

/// Whether the word at byte `offset` is a number or an id.
pub fn is_id(text: &str, offset: usize) -> bool {
    let (words, at) = line_at(text, offset);
    words.get(at).is_some_and(|word| {
        word.is(Shape::Number)
            || (word.is(Shape::HexId) && word.text.len() >= HEX_ID_CHARS)
            || (word.is(Shape::NameId) && word.text.len() >= NAME_ID_CHARS)
    })
}

struct Word<'t> {
    /// The byte of the line at which it begins.
    start: usize,
    text: &'t str,
    shapes: SetMatches,
}

impl Word<'_> {
    fn is(&self, shape: Shape) -> bool {
        self.shapes.matched(shape as usize)
    }
}

fn words(line: &str) -> Vec<Word<'_>> {
    const AROUND: [char; 4] = ['.', ':', '!', '?'];
    let mut end = 0;
    let words = line.split_inclusive(is_border).filter_map(|piece| {
        let piece_start = end;
        end += piece.len();
        let word = piece.trim_end_matches(is_border).trim_end_matches(AROUND);
        let text = word.trim_start_matches(AROUND);
        let start = piece_start + word.len() - text.len();
        (!text.is_empty()).then(|| Word { start, text, shapes: SHAPES.matches(text) })
    });
    words.collect()
}

/// The words of the line that contains byte `offset`, and the index of the word that contains
/// `offset` or follows it.
fn line_at(text: &str, offset: usize) -> (Vec<Word<'_>>, usize) {
    let start = text[..offset].rfind('\n').map_or(0, |at| at + 1);
    let end = text[offset..].find('\n').map_or(text.len(), |at| offset + at);
    let word_start = text[start..offset].trim_end_matches(|c| !is_border(c)).len();
    let words = words(&text[start..end]);
    let at = words.partition_point(|word| word.start < word_start);
    (words, at)
}

fn is_border(c: char) -> bool {
    c.is_whitespace() || "\"'`,;<>()[]{}|=".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(&str, &str)> {
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
            assert_eq!(found(text), expected, "{text}");
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
            assert_eq!(found(text), [], "{text}");
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

    /// The texts, and where they begin to differ.
    fn both(one: &str, other: &str, is: fn(&str, usize) -> bool) -> bool {
        let at = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
        is(one, at) && is(other, at)
    }

    #[test]
    fn times_and_dates_are_seen_in_the_ways_people_write_them() {
        for (one, other) in [
            ("It is 10:41.", "It is 10:42."),
            ("Now: 2026-11-21T10:41:33Z", "Now: 2026-11-22T08:00:01Z"),
            ("<time>9:59</time>", "<time>10:00</time>"),
            ("{\"now\":\"21.11.2026\"}", "{\"now\":\"22.11.2026\"}"),
            ("Today is Friday.", "Today is Saturday."),
            ("Date: November 21, 2026", "Date: November 22, 2026"),
            ("the 1st of December", "the 2nd of December"),
            ("at 9 PM", "at 10 PM"),
            ("t=1795222219", "t=1795222224"),
            ("on 11/21/26 we", "on 11/22/26 we"),
        ] {
            assert!(both(one, other, is_moment), "{one} / {other}");
        }
    }

    #[test]
    fn what_only_has_digits_in_it_is_no_time() {
        for (one, other) in [
            ("use version 1.2.3", "use version 1.2.4"),
            ("You have 3 apples", "You have 4 apples"),
            ("a scale of 1:100", "a scale of 1:200"),
            ("say hello", "say good-bye"),
        ] {
            assert!(!both(one, other, is_moment), "{one} / {other}");
        }
    }

    #[test]
    fn ids_and_numbers_are_seen() {
        for (one, other) in [
            ("session 8f3b039c1f0d", "session 9d3679833d6e"),
            (
                "id: 6f1c2d0e-1111-4a4b-9c9c-0123456789ab",
                "id: 0f1c2d0e-1111-4a4b-9c9c-0123456789ab",
            ),
            ("call_cc57a5c5119867", "call_cc57a5c5119999"),
            ("You have 3 mails", "You have 4 mails"),
        ] {
            assert!(both(one, other, is_id), "{one} / {other}");
        }
        assert!(!both("be brief", "be kind", is_id));
    }

    #[test]
    fn any_place_of_any_text_may_be_asked_for() {
        let text = "é 10:41\n\n ü, 5\n";
        for (at, _) in text.char_indices().chain([(text.len(), ' ')]) {
            is_moment(text, at);
            is_id(text, at);
        }
    }
}
