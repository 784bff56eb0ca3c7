//! Times as Ollama writes them: RFC 3339, in UTC.

use std::time::SystemTime;

use hob_slots::Timestamp;

pub fn now() -> String {
    rfc3339(Timestamp::from(SystemTime::now()))
}

pub fn rfc3339(time: Timestamp) -> String {
    let (secs, millis) = (time.0 / 1000, time.0 % 1000);
    let (days, second) = (secs / 86_400, secs % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Year, month and day of the Gregorian calendar. `days`: since 1970.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468; // Days since March 1 of year 0: leap days end their years.
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153; // From March.
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..10 => (year, month + 3),
        _ => (year + 1, month - 9),
    };
    (era * 400 + year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leap_days_and_ends_of_years_are_known() {
        for (secs, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(Timestamp(secs * 1000)), expected);
        }
        assert_eq!(rfc3339(Timestamp(1_234)), "1970-01-01T00:00:01.234Z");
    }
}
