//! Breaks lines between words while text streams to a terminal.

use unicode_width::UnicodeWidthChar;

/// Where this many columns are left, a word is shown letter by letter. Nearer to the edge it is held
/// until its end is known. Few words are longer.
const ROOM: usize = 24;

/// The position on the terminal. Control sequences of colours take no column.
#[derive(Default)]
pub struct Wrap {
    /// `None`: lines are as long as they are.
    columns: Option<usize>,
    column: usize,
    /// The word that may have to move to the next line, with its control sequences.
    held: String,
    held_width: usize,
    in_sequence: bool,
    /// The beginning of the word is shown.
    is_shown: bool,
}

impl Wrap {
    pub fn new(columns: Option<usize>) -> Self {
        Self { columns, ..Self::default() }
    }

    pub fn push(&mut self, text: &str, out: &mut String) {
        let Some(columns) = self.columns else { return out.push_str(text) };
        for letter in text.chars() {
            match letter {
                '\n' => {
                    self.end_word(out);
                    out.push('\n');
                    self.column = 0;
                }
                ' ' if !self.in_sequence => {
                    self.end_word(out);
                    if self.column < columns {
                        out.push(' ');
                        self.column += 1;
                    }
                }
                letter => self.push_letter(letter, columns, out),
            }
        }
    }

    /// Text whose lines stay whole, such as code.
    pub fn push_whole(&mut self, text: &str, out: &mut String) {
        self.end_word(out);
        out.push_str(text);
        self.column = 0; // The next text begins a line.
    }

    /// Shows the word that is held.
    pub fn end_word(&mut self, out: &mut String) {
        out.push_str(&std::mem::take(&mut self.held));
        self.column += std::mem::take(&mut self.held_width);
        if let Some(columns) = self.columns.filter(|columns| self.column > *columns) {
            self.column %= columns.max(1); // The terminal has broken the word.
        }
        self.is_shown = false;
    }

    fn push_letter(&mut self, letter: char, columns: usize, out: &mut String) {
        let is_visible = !self.in_sequence && letter != '\x1b';
        self.in_sequence = !is_visible && letter != 'm';
        self.held.push(letter);
        if !is_visible {
            return;
        }
        self.held_width += letter.width().unwrap_or(0);
        let fits = self.column + self.held_width <= columns;
        if !fits && !self.is_shown && self.column > 0 {
            out.push('\n');
            self.column = 0;
        }
        let has_room = self.column + self.held_width + ROOM <= columns;
        if has_room || self.is_shown || self.held_width > columns {
            self.end_word(out);
            self.is_shown = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(columns: usize, text: &str) -> String {
        let mut wrap = Wrap::new(Some(columns));
        let mut out = String::new();
        for letter in text.chars() {
            wrap.push(letter.encode_utf8(&mut [0; 4]), &mut out);
        }
        wrap.end_word(&mut out);
        out
    }

    #[test]
    fn a_word_that_does_not_fit_begins_the_next_line() {
        assert_eq!(wrapped(10, "one two three four"), "one two \nthree four");
        assert_eq!(wrapped(5, "one\ntwo three"), "one\ntwo \nthree");
        assert_eq!(wrapped(6, "\u{65e5}\u{672c} \u{8a9e}"), "\u{65e5}\u{672c} \n\u{8a9e}");
    }

    #[test]
    fn colours_take_no_column_and_move_with_their_word() {
        let bold = "one \x1b[1mtwo\x1b[0m three";
        assert_eq!(wrapped(7, bold), "one \x1b[1mtwo\x1b[0m\nthree");
        assert_eq!(wrapped(6, bold), "one \n\x1b[1mtwo\x1b[0m \nthree");
    }

    #[test]
    fn a_word_longer_than_a_line_begins_one_and_is_left_to_the_terminal() {
        assert_eq!(wrapped(4, "a bcdefghi j"), "a \nbcdefghi\nj");
    }

    #[test]
    fn words_far_from_the_edge_are_shown_letter_by_letter() {
        let mut wrap = Wrap::new(Some(80));
        let mut out = String::new();
        wrap.push("hel", &mut out);
        assert_eq!(out, "hel");
    }

    #[test]
    fn without_a_width_nothing_changes() {
        let mut out = String::new();
        Wrap::new(None).push("a b\nc", &mut out);
        assert_eq!(out, "a b\nc");
    }
}
