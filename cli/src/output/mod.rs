//! Formats figures, texts and tables for people.

mod context;
mod device;
mod figures;
mod markdown;
mod model;
mod pager;
mod state;
mod table;
mod wrap;

use std::io::{self, Write};

use unicode_width::UnicodeWidthChar;

pub use context::{context, context_limit, context_tokens};
pub use device::{device_words, layer_words};
pub use figures::{ago, ahead, conversations, count, counted, seconds, size, speed};
pub use markdown::Markdown;
pub use model::{model_words, upstream_words};
pub use pager::show as page;
pub use state::{readiness, state};
pub use table::{Align, Table};

/// Removes control characters except line breaks and tabs: the output of a model or a file name must
/// not control the terminal.
pub fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// The text without control characters, on one line of at most `max_chars` characters.
pub fn line(text: &str, max_chars: usize) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = plain(&text);
    if text.chars().count() <= max_chars {
        return text;
    }
    let start: String = text.chars().take(max_chars.saturating_sub(1)).collect();
    format!("{}…", start.trim_end())
}

/// The text as one word of a shell.
pub fn quoted(text: &str) -> String {
    format!("'{}'", plain(text).replace('\'', r"'\''"))
}

/// The text as one word of a shell, without quotes where the shell needs none.
pub fn shell_word(text: &str) -> String {
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || "-_.:/=@+,".contains(letter);
    if text.chars().all(is_bare) && !text.is_empty() { text.to_owned() } else { quoted(text) }
}

/// The columns that the text takes in a terminal: two for each letter of East Asian scripts, and for most emoji.
pub fn width(text: &str) -> usize {
    text.chars().map(letter_width).sum()
}

fn letter_width(letter: char) -> usize {
    letter.width().unwrap_or(0)
}

/// Writes a line to standard error. Where its reader has left, `eprintln!` would panic.
pub fn warn(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Breaks lines between words. `columns`: the terminal's; `None` breaks none.
pub fn wrapped(text: &str, columns: Option<usize>) -> String {
    let (mut wrap, mut out) = (wrap::Wrap::new(columns), String::new());
    wrap.push(text, &mut out);
    wrap.end_word(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_removed() {
        assert_eq!(plain("a\x1b[31mb\u{9b}c\n\td\r"), "a[31mbc\n\td");
    }

    #[test]
    fn a_long_line_is_cut() {
        assert_eq!(line("one\n two", 20), "one two");
        assert_eq!(line("abcdef", 4), "abc…");
        assert_eq!(line("äöü", 3), "äöü");
    }

    #[test]
    fn a_name_is_pasted_into_a_shell_as_one_word() {
        assert_eq!(shell_word("chat-1490e0698238af99"), "chat-1490e0698238af99");
        assert_eq!(shell_word("my room; it's"), r"'my room; it'\''s'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn a_wide_letter_takes_two_columns() {
        assert_eq!([width("abc"), width("äö"), width("\u{65e5}\u{672c}a")], [3, 2, 5]);
    }
}
