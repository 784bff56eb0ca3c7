//! `strftime_now`: today's date in a prompt, for templates that ask.
//!
//! - Dates are UTC, so that a prompt does not depend on the machine's time zone.
//! - Unknown codes stay as they are.

use std::sync::Arc;

use hob_slots::Timestamp;
use jiff::fmt::strtime::{BrokenDownTime, Config, PosixCustom};
use jiff::tz::TimeZone;
use minijinja::Environment;

pub(super) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

pub(super) fn add_to(environment: &mut Environment<'_>, now: Clock) {
    environment.add_function("strftime_now", move |format: &str| strftime(format, now()));
}

/// Writes a time as C's `strftime` does in an English locale.
fn strftime(format: &str, time: Timestamp) -> String {
    // Windows writes `%#` for `%-`; `%q` is jiff's own code, not C's.
    let to_c = |piece: &str| piece.replace("%#", "%-").replace("%q", "%%q");
    let format = format.split("%%").map(to_c).collect::<Vec<_>>().join("%%");
    let millis = i64::try_from(time.0).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX);
    let config = Config::new().custom(PosixCustom::new()).lenient(true);
    let mut text = String::new();
    let parts = BrokenDownTime::from(&time.to_zoned(TimeZone::UTC));
    let written = parts.format_with_config(&config, &format, &mut text);
    if written.is_ok() { text } else { format }
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
