//! Figures and texts as people read them.

mod figures;
mod table;

pub use figures::{ago, conversations, count, size};
pub use table::{Align, Table};

/// The text without control characters: what a model or a file name says must not steer the
/// terminal. Line breaks and tabs stay.
pub fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// The same on one line, cut to `most` characters.
pub fn line(text: &str, most: usize) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = plain(&text);
    if text.chars().count() <= most {
        return text;
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_left_out() {
        assert_eq!(plain("a\x1b[31mb\u{9b}c\n\td\r"), "a[31mbc\n\td");
    }

    #[test]
    fn a_long_line_is_cut() {
        assert_eq!(line("one\n two", 20), "one two");
        assert_eq!(line("abcdef", 4), "abc…");
        assert_eq!(line("äöü", 3), "äöü");
    }
}
