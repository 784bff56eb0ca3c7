//! `strftime_now`: today's date in a prompt, for templates that ask.
//!
//! - Dates are UTC: the standard library knows no time zones, and a prompt that changes at
//!   another hour is no worse.
//! - Codes that are not known stay as they are.

use std::fmt::Write;
use std::sync::Arc;

use hob_slots::Timestamp;
use minijinja::Environment;

/// The months, from January on.
pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// The days of the week, from the first of January 1970 on.
pub const WEEKDAYS: [&str; 7] =
    ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// Where the time comes from.
pub(super) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

pub(super) fn add_to(environment: &mut Environment<'_>, now: Clock) {
    environment.add_function("strftime_now", move |format: &str| strftime(format, now()));
}

/// Writes a time as C's `strftime` does in an English locale.
fn strftime(format: &str, time: Timestamp) -> String {
    let seconds = time.0 / 1000;
    let (days, second_of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) =
        (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    let month_name = MONTHS[month as usize - 1];
    let weekday = WEEKDAYS[(days % 7) as usize];
    let twelve_hour = (hour + 11) % 12 + 1;

    let mut text = String::new();
    let mut codes = format.chars();
    while let Some(c) = codes.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let rest = codes.as_str();
        let unpadded = rest.strip_prefix(['-', '#']);
        codes = unpadded.unwrap_or(rest).chars();
        let width = if unpadded.is_some() { 1 } else { 2 };
        let written = match codes.next() {
            Some('Y') => write!(text, "{year}"),
            Some('y') => write!(text, "{:0width$}", year % 100),
            Some('m') => write!(text, "{month:0width$}"),
            Some('d') => write!(text, "{day:0width$}"),
            Some('e') => write!(text, "{day:width$}"),
            Some('B') => write!(text, "{month_name}"),
            Some('b' | 'h') => write!(text, "{}", &month_name[..3]),
            Some('A') => write!(text, "{weekday}"),
            Some('a') => write!(text, "{}", &weekday[..3]),
            Some('H') => write!(text, "{hour:0width$}"),
            Some('I') => write!(text, "{twelve_hour:0width$}"),
            Some('M') => write!(text, "{minute:0width$}"),
            Some('S') => write!(text, "{second:0width$}"),
            Some('p') => write!(text, "{}", if hour < 12 { "AM" } else { "PM" }),
            Some('F') => write!(text, "{year}-{month:02}-{day:02}"),
            Some('T') => write!(text, "{hour:02}:{minute:02}:{second:02}"),
            Some('Z') => write!(text, "UTC"),
            Some('z') => write!(text, "+0000"),
            Some('%') => write!(text, "%"),
            Some(other) => write!(text, "%{other}"),
            None => write!(text, "%"),
        };
        written.expect("a String takes every write");
    }
    text
}

/// Year, month and day of the day that is `days` after 1970-01-01, in the Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    // Counted from the first of March of year 0, so that the leap day is a year's last day.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, format: &str) -> String {
        strftime(format, Timestamp(seconds * 1000))
    }

    #[test]
    fn dates_are_written_as_templates_ask() {
        assert_eq!(at(1_721_952_000, "%d %b %Y"), "26 Jul 2024");
        assert_eq!(at(1_721_952_000, "%A, %B %-d"), "Friday, July 26");
        assert_eq!(at(1_721_995_509, "%Y-%m-%d %H:%M:%S %I%p %%"), "2024-07-26 12:05:09 12PM %");
        assert_eq!(at(0, "%F %T %q %"), "1970-01-01 00:00:00 %q %");
    }

    #[test]
    fn leap_days_are_where_they_belong() {
        assert_eq!(at(951_782_400, "%F"), "2000-02-29");
        assert_eq!(at(951_868_800, "%F"), "2000-03-01");
        assert_eq!(at(4_107_542_400, "%F"), "2100-03-01");
        assert_eq!(at(4_107_542_400 - 86_400, "%F"), "2100-02-28");
        assert_eq!(at(1_735_603_200, "%F %a"), "2024-12-31 Tue");
    }
}
