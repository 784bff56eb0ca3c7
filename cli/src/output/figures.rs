//! Numbers with their units.

/// Bytes in binary units: `3.6 MiB`.
pub fn size(bytes: u64) -> String {
    let mut amount = bytes as f64;
    let mut unit = "B";
    for larger in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if amount < 1023.95 {
            break;
        }
        amount /= 1024.0;
        unit = larger;
    }
    match unit {
        "B" => format!("{bytes} B"),
        unit => format!("{amount:.1} {unit}"),
    }
}

/// A number in groups of three digits: `6,214`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 conversation`, `2 conversations`.
pub fn conversations(number: usize) -> String {
    counted(number, "conversation")
}

/// The number with its noun, whose plural ends in s: `1 file`, `1,200 files`.
pub fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number as u64))
}

/// A duration as people say it: `84 ms`, `0.4 s`, `31 s`, `2 min`.
pub fn seconds(ms: f64) -> String {
    match ms {
        ..95.0 => format!("{ms:.0} ms"),
        ..9_950.0 => format!("{:.1} s", ms / 1000.0),
        ..99_500.0 => format!("{:.0} s", ms / 1000.0),
        _ => format!("{:.0} min", ms / 60_000.0),
    }
}

/// Tokens by second: `7.4 tok/s`, `24 tok/s`, `1,200 tok/s`.
pub fn speed(tokens_per_second: f64) -> String {
    match tokens_per_second {
        ..9.95 => format!("{tokens_per_second:.1} tok/s"),
        _ => format!("{} tok/s", count(tokens_per_second.round() as u64)),
    }
}

/// A time that has passed, in its largest unit: `5 min ago`.
pub fn ago(secs: u64) -> String {
    match secs {
        0..5 => "now".to_owned(),
        _ => format!("{} ago", in_largest_unit(secs)),
    }
}

/// A time to come, in its largest unit: `in 5 min`.
pub fn ahead(secs: u64) -> String {
    match secs {
        0 => "now".to_owned(),
        _ => format!("in {}", in_largest_unit(secs)),
    }
}

fn in_largest_unit(secs: u64) -> String {
    match secs {
        0..60 => format!("{secs} s"),
        60..3_600 => format!("{} min", secs / 60),
        3_600..172_800 => format!("{} h", secs / 3_600),
        _ => format!("{} days", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_keep_one_digit() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(3_790_752), "3.6 MiB");
        assert_eq!(size(1 << 30), "1.0 GiB");
        assert_eq!(size((1 << 30) - 1), "1.0 GiB");
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!([0, 31, 999, 6_214, 1_234_567].map(count)[3..], ["6,214", "1,234,567"]);
        assert_eq!(count(999), "999");
    }

    #[test]
    fn one_thing_has_no_plural() {
        assert_eq!(
            [0, 1, 1_200].map(|files| counted(files, "file")),
            ["0 files", "1 file", "1,200 files"]
        );
    }

    #[test]
    fn a_speed_has_a_digit_where_it_is_small() {
        assert_eq!(
            [0.25, 7.44, 9.96, 24.4, 1_234.5].map(speed),
            ["0.2 tok/s", "7.4 tok/s", "10 tok/s", "24 tok/s", "1,235 tok/s"]
        );
    }

    #[test]
    fn times_have_one_unit() {
        assert_eq!(
            [2, 59, 60, 7_200, 200_000].map(ago),
            ["now", "59 s ago", "1 min ago", "2 h ago", "2 days ago"]
        );
        assert_eq!([0, 59, 90, 7_200].map(ahead), ["now", "in 59 s", "in 1 min", "in 2 h"]);
    }
}
