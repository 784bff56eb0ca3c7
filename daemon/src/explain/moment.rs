//! Words that change by themselves: times, dates, numbers and ids.
//!
//! - A word ends at white space and at what JSON and markup put around values.
//! - Names of months and days are English ones.

use hob_runtime::template::date::{MONTHS, WEEKDAYS};

/// Words around a number in which a month makes it a date.
pub const NEAR: usize = 2;

/// Whether the word at byte `offset` belongs to a time or a date.
pub fn is_moment(text: &str, offset: usize) -> bool {
    let (words, at) = line_at(text, offset);
    let Some(&word) = words.get(at) else { return false };
    let near = &words[at.saturating_sub(NEAR)..words.len().min(at + NEAR + 1)];
    has_time(word)
        || has_date(word)
        || is_named(word)
        || is_half_of_day(word)
        || is_unix_time(word)
        || (is_calendar_number(word) && near.iter().any(|word| is_named(word)))
        || (is_number(word) && words.get(at + 1).is_some_and(|next| is_half_of_day(next)))
}

/// Whether the word at byte `offset` is a number or an id.
pub fn is_id(text: &str, offset: usize) -> bool {
    let (words, at) = line_at(text, offset);
    let Some(&word) = words.get(at) else { return false };
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let is_hex = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    is_number(word)
        || (digits >= 1 && word.len() >= 8 && word.bytes().all(is_hex))
        || (digits >= 3 && word.len() >= 12 && word.bytes().all(is_name))
}

/// The words of the line that byte `offset` lies in, and which of them it lies in or before.
fn line_at(text: &str, offset: usize) -> (Vec<&str>, usize) {
    let start = text[..offset].rfind('\n').map_or(0, |at| at + 1);
    let end = text[offset..].find('\n').map_or(text.len(), |at| offset + at);
    let word = text[start..offset].rfind(is_border);
    let word = word.map_or(start, |at| {
        start + at + text[start + at..].chars().next().map_or(0, char::len_utf8)
    });
    (words(&text[start..end]).collect(), words(&text[start..word]).count())
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    placed_words(line).map(|(_, word)| word)
}

/// The words of a line, and the byte at which each begins.
pub fn placed_words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    const AROUND: [char; 4] = ['.', ':', '!', '?'];
    let mut begin = 0;
    let words = line.split(is_border).map(move |word| {
        let at = begin;
        // Borders are ASCII or white space: what follows the word is one character of them.
        begin += word.len() + line[begin + word.len()..].chars().next().map_or(0, char::len_utf8);
        let front = word.len() - word.trim_start_matches(AROUND).len();
        (at + front, word.trim_matches(AROUND))
    });
    words.filter(|(_, word)| !word.is_empty())
}

fn is_border(c: char) -> bool {
    c.is_whitespace() || "\"'`,;<>()[]{}|=".contains(c)
}

/// `9:05`, `21:07:33.5Z`
pub fn has_time(word: &str) -> bool {
    let parts: Vec<&str> = word.split(':').collect();
    parts.windows(2).any(|pair| {
        let hour = pair[0].bytes().rev().take_while(u8::is_ascii_digit).count();
        let minute = pair[1].bytes().take_while(u8::is_ascii_digit).count();
        (1..=2).contains(&hour) && minute == 2
    })
}

/// `2026-11-21`, `21.11.2026`, `11/21/26`, and the same with a time behind.
pub fn has_date(word: &str) -> bool {
    ['-', '/', '.'].into_iter().any(|separator| {
        let parts: Vec<&str> = word.split(separator).collect();
        parts.windows(3).any(|parts| {
            let lengths = [
                parts[0].bytes().rev().take_while(u8::is_ascii_digit).count(),
                parts[1].len(),
                parts[2].bytes().take_while(u8::is_ascii_digit).count(),
            ];
            let numbers = parts[1].bytes().all(|byte| byte.is_ascii_digit());
            // A version has three numbers too, but no year.
            let has_year = lengths[0] == 4 || lengths[2] == 4 || separator == '/';
            numbers && has_year && lengths.iter().all(|length| (1..=4).contains(length))
        })
    })
}

fn is_named(word: &str) -> bool {
    is_month(word) || is_weekday(word)
}

/// `November`, `Nov`
pub fn is_month(word: &str) -> bool {
    is_one_of(word, &MONTHS)
}

/// `Friday`, `Fri`
pub fn is_weekday(word: &str) -> bool {
    is_one_of(word, &WEEKDAYS)
}

/// In full or by its first three letters, and not in small ones: `may` is no month.
fn is_one_of(word: &str, names: &[&str]) -> bool {
    let begins = |name: &&str| name.get(..word.len()).is_some_and(|n| n.eq_ignore_ascii_case(word));
    word.starts_with(|c: char| c.is_ascii_uppercase())
        && names.iter().any(|name| begins(name) && [3, name.len()].contains(&word.len()))
}

/// `am`, `p.m.`
pub fn is_half_of_day(word: &str) -> bool {
    matches!(word.to_ascii_lowercase().as_str(), "am" | "pm" | "a.m" | "p.m" | "o'clock")
}

/// Seconds or milliseconds since 1970, of this century.
pub fn is_unix_time(word: &str) -> bool {
    is_number(word) && matches!(word.len(), 10 | 13) && word.starts_with(['1', '2'])
}

/// A day of a month, or a year; `21st` too.
pub fn is_calendar_number(word: &str) -> bool {
    let number = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    number
        .parse()
        .is_ok_and(|number: u32| (1..=31).contains(&number) || (1900..2200).contains(&number))
}

/// Digits alone.
pub fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

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
