//! Columns of text, as wide as they need to be, or as a terminal is.

use std::io;

use super::{letter_width, width};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// For words.
    Left,
    /// For figures.
    Right,
}

/// What a column does when the table is wider than the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    Whole,
    /// Cuts its cells.
    Cut,
    /// Continues its cells on further lines.
    Wrap,
}

/// Columns that give way are no narrower.
const MIN_WIDTH: usize = 8;
/// Before a column that is cut becomes narrower, the table leaves out its spare ones, and wraps those that it may.
const READABLE_WIDTH: usize = 12;
const GAP: usize = 2;

pub struct Table {
    columns: Vec<(&'static str, Align, Fit)>,
    /// Columns that may be left out, the first of them first.
    spare: Vec<usize>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        let columns = columns.iter().map(|&(name, align)| (name, align, Fit::Whole)).collect();
        Self { columns, spare: Vec::new(), rows: Vec::new() }
    }

    /// A table whose first row is its header.
    pub fn untitled(columns: usize, align: Align) -> Self {
        Self::new(&vec![("", align); columns])
    }

    /// A table without a header.
    pub fn untitled_with<const N: usize>(aligns: [Align; N]) -> Self {
        Self::new(&aligns.map(|align| ("", align)))
    }

    /// This column's cells are cut where the terminal is too narrow. The widest column gives way
    /// first.
    pub fn cut(mut self, column: usize) -> Self {
        self.columns[column].2 = Fit::Cut;
        self
    }

    /// This column's cells are continued on further lines where the terminal is too narrow, also once those that are cut
    /// have [`READABLE_WIDTH`].
    pub fn wrap(mut self, column: usize) -> Self {
        self.columns[column].2 = Fit::Wrap;
        self
    }

    /// Leaves out these columns, the first of them first, where the terminal is too narrow for all.
    pub fn spare<const N: usize>(mut self, columns: [usize; N]) -> Self {
        self.spare.extend(columns);
        self
    }

    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "a row has a cell for every column");
        self.rows.push(cells);
    }

    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        // One write: standard output is line-buffered.
        out.write_all(self.text(None).as_bytes())
    }

    /// No line is longer than `columns`, those of a terminal.
    pub fn text(&self, columns: Option<usize>) -> String {
        let header: Vec<_> = self.columns.iter().map(|(name, ..)| (*name).to_owned()).collect();
        let titled = header.iter().any(|name| !name.is_empty());
        let shown = self.shown(&header, columns);
        let widths = self.widths(&shown, &header, columns);
        let mut text = String::new();
        for row in titled.then_some(&header).into_iter().chain(&self.rows) {
            let cells = shown.iter().zip(&widths);
            let cells: Vec<_> = cells
                .map(|(place, wide)| self.columns[*place].2.lines(&row[*place], *wide))
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            for at in 0..height {
                let mut line = String::new();
                for ((cell, wide), place) in cells.iter().zip(&widths).zip(&shown) {
                    let cell = cell.get(at).map_or("", String::as_str);
                    // Not by the formatter, which counts letters.
                    let room = " ".repeat(wide.saturating_sub(width(cell)));
                    line += &match self.columns[*place].1 {
                        Align::Left => format!("{cell}{room}  "),
                        Align::Right => format!("{room}{cell}  "),
                    };
                }
                text.push_str(&cut(line.trim_end(), columns.unwrap_or(usize::MAX)));
                text.push('\n');
            }
        }
        text
    }

    /// The places of the columns that are not left out.
    fn shown(&self, header: &[String], columns: Option<usize>) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let Some(columns) = columns else { return shown };
        for spare in &self.spare {
            let widths = shown.iter().map(|place| match self.columns[*place].2 {
                Fit::Cut => self.widest(*place, header).min(READABLE_WIDTH),
                Fit::Whole | Fit::Wrap => self.widest(*place, header),
            });
            if widths.sum::<usize>() + gaps(shown.len()) <= columns {
                break;
            }
            shown.retain(|place| place != spare);
        }
        shown
    }

    fn widths(&self, shown: &[usize], header: &[String], columns: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<_> = shown.iter().map(|place| self.widest(*place, header)).collect();
        let total = widths.iter().sum::<usize>() + gaps(shown.len());
        let mut surplus = total.saturating_sub(columns.unwrap_or(total));
        while surplus > 0 {
            let flexible = widths.iter_mut().zip(shown);
            let flexible = flexible.filter(|(width, place)| {
                self.columns[**place].2 != Fit::Whole && **width > MIN_WIDTH
            });
            // A column that is cut gives way first, as long as its cells can be read.
            let first = flexible.max_by_key(|(width, place)| {
                let is_cut = self.columns[**place].2 == Fit::Cut;
                (is_cut && **width > READABLE_WIDTH, **width)
            });
            let Some((widest, _)) = first else { break };
            *widest -= 1;
            surplus -= 1;
        }
        widths
    }

    fn widest(&self, column: usize, header: &[String]) -> usize {
        let rows = self.rows.iter().map(|row| width(&row[column]));
        rows.chain([width(&header[column])]).max().unwrap_or(0)
    }
}

/// The width of all gaps between `columns` columns.
fn gaps(columns: usize) -> usize {
    GAP * columns.saturating_sub(1)
}

impl Fit {
    fn lines(self, cell: &str, width: usize) -> Vec<String> {
        match self {
            Self::Whole => vec![cell.to_owned()],
            Self::Cut => vec![cut(cell, width)],
            Self::Wrap => pieces(cell, width),
        }
    }
}

/// The text in pieces of at most `columns`, with a letter in each. They end between words, within a word only where it
/// is longer than a piece. An empty text is one piece.
fn pieces(text: &str, columns: usize) -> Vec<String> {
    let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
    for letter in text.chars() {
        let wide = letter_width(letter);
        if used + wide > columns && used > 0 {
            let space = line.rfind(' ').filter(|_| letter != ' ');
            let begun = match space.filter(|at| !line[..*at].trim().is_empty()) {
                Some(at) => line.split_off(at + 1),
                None => String::new(),
            };
            lines.push(std::mem::replace(&mut line, begun).trim_end().to_owned());
            used = width(&line);
            if letter == ' ' {
                continue;
            }
        }
        line.push(letter);
        used += wide;
    }
    lines.push(line);
    lines
}

fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut used = 1; // Of the ellipsis.
    let start = text.chars().take_while(|letter| {
        used += letter_width(*letter);
        used <= columns
    });
    let start: String = start.collect();
    format!("{}…", start.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&[("NAME", Align::Left), ("SIZE", Align::Right)]);
        table.row(vec!["ä".into(), "1,000,000".into()]);
        table.row(vec!["longer".into(), "7".into()]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "NAME         SIZE\nä       1,000,000\nlonger          7\n");
    }

    #[test]
    fn a_narrow_terminal_cuts_and_wraps() {
        let table = |fit: fn(Table, usize) -> Table| {
            let columns = [("NAME", Align::Left), ("TITLE", Align::Left), ("SIZE", Align::Right)];
            let mut table = fit(Table::new(&columns), 1);
            table.row(vec!["a".into(), "A title that is long".into(), "7".into()]);
            table
        };
        insta::assert_snapshot!(table(Table::cut).text(Some(24)), @r"
        NAME  TITLE         SIZE
        a     A title tha…     7
        ");
        insta::assert_snapshot!(table(Table::wrap).text(Some(24)), @r"
        NAME  TITLE         SIZE
        a     A title that     7
              is long
        ");
        let all = table(Table::cut).text(Some(12));
        assert!(all.lines().all(|line| line.chars().count() <= 12), "{all}");
        assert_eq!(table(Table::cut).text(None), table(Table::cut).text(Some(200)));
    }

    #[test]
    fn spare_columns_are_left_out_before_a_cell_is_hard_to_read() {
        let columns = [
            ("NAME", Align::Left),
            ("NUMBER", Align::Left),
            ("SIZE", Align::Right),
            ("USED", Align::Left),
        ];
        let mut table = Table::new(&columns).cut(0).spare([1, 2]);
        table.row(["A title that is long", "0123456789", "7", "now"].map(str::to_owned).to_vec());
        insta::assert_snapshot!(table.text(Some(36)), @r"
        NAME          NUMBER      SIZE  USED
        A title tha…  0123456789     7  now
        ");
        insta::assert_snapshot!(table.text(Some(35)), @r"
        NAME                  SIZE  USED
        A title that is long     7  now
        ");
        insta::assert_snapshot!(table.text(Some(20)), @r"
        NAME            USED
        A title that…   now
        ");
        assert_eq!(table.text(None), table.text(Some(200)));
    }

    #[test]
    fn a_name_is_cut_before_a_state_is_wrapped_and_no_state_is_cut() {
        let columns = [("NAME", Align::Left), ("SIZE", Align::Right), ("STATE", Align::Left)];
        let mut table = Table::new(&columns).cut(0).wrap(2);
        table.row(["A title that is long", "7", "pinned, weight 80"].map(str::to_owned).to_vec());
        insta::assert_snapshot!(table.text(Some(37)), @r"
        NAME          SIZE  STATE
        A title tha…     7  pinned, weight 80
        ");
        insta::assert_snapshot!(table.text(Some(32)), @r"
        NAME          SIZE  STATE
        A title tha…     7  pinned,
                            weight 80
        ");
        let narrow = table.text(Some(24));
        assert!(narrow.lines().all(|line| width(line) <= 24 && !line.ends_with('…')), "{narrow}");
    }

    #[test]
    fn a_cell_breaks_between_words_and_within_a_word_that_is_longer() {
        assert_eq!(pieces("one two three", 8), ["one two", "three"]);
        assert_eq!(pieces("one two", 3), ["one", "two"]);
        assert_eq!(pieces("/a/long/path to it", 6), ["/a/lon", "g/path", "to it"]);
        assert_eq!(pieces("a \u{65e5}\u{672c}", 4), ["a", "\u{65e5}\u{672c}"]);
        assert_eq!(pieces("", 8), [""]);
    }

    #[test]
    fn wide_letters_keep_to_their_column_and_to_the_terminal() {
        let table = |fit: fn(Table, usize) -> Table| {
            let columns = [("NAME", Align::Left), ("TITLE", Align::Left), ("SIZE", Align::Right)];
            let mut table = fit(Table::new(&columns), 1);
            table.row(vec!["a".into(), "\u{65e5}\u{672c}\u{8a9e}".repeat(3), "7".into()]);
            table.row(vec!["b".into(), "short".into(), "12".into()]);
            table
        };
        for fit in [Table::cut, Table::wrap] {
            let text = table(fit).text(Some(24));
            assert!(text.lines().all(|line| width(line) <= 24), "{text}");
            let ends = text.lines().filter(|line| line.ends_with(['E', '7', '2']));
            assert_eq!(ends.map(width).collect::<Vec<_>>(), [24, 24, 24], "{text}");
        }
        let shown = table(Table::cut).text(Some(24));
        assert!(shown.contains("a     \u{65e5}\u{672c}\u{8a9e}\u{65e5}\u{672c}…"), "{shown}");
        let lines = table(Table::wrap).text(Some(24)).lines().count();
        assert_eq!(lines, 4, "one title takes two lines");
    }
}
