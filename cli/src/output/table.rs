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
const GAP: usize = 2;

pub struct Table {
    columns: Vec<(&'static str, Align, Fit)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        let columns = columns.iter().map(|&(name, align)| (name, align, Fit::Whole)).collect();
        Self { columns, rows: Vec::new() }
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

    /// This column's cells are continued on further lines where the terminal is too narrow.
    pub fn wrap(mut self, column: usize) -> Self {
        self.columns[column].2 = Fit::Wrap;
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
        let widths = self.widths(&header, columns);
        let mut text = String::new();
        for row in titled.then_some(&header).into_iter().chain(&self.rows) {
            let cells = row.iter().zip(&widths).zip(&self.columns);
            let cells: Vec<_> =
                cells.map(|((cell, width), (.., fit))| fit.lines(cell, *width)).collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            for at in 0..height {
                let mut line = String::new();
                for ((cell, wide), (_, align, _)) in cells.iter().zip(&widths).zip(&self.columns) {
                    let cell = cell.get(at).map_or("", String::as_str);
                    // Not by the formatter, which counts letters.
                    let room = " ".repeat(wide.saturating_sub(width(cell)));
                    line += &match align {
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

    fn widths(&self, header: &Vec<String>, columns: Option<usize>) -> Vec<usize> {
        let widest = |column: usize| {
            let rows = [header].into_iter().chain(&self.rows);
            rows.map(|row| width(&row[column])).max().unwrap_or(0)
        };
        let mut widths: Vec<_> = (0..self.columns.len()).map(widest).collect();
        let gaps = GAP * widths.len().saturating_sub(1);
        let total = widths.iter().sum::<usize>() + gaps;
        let mut surplus = total.saturating_sub(columns.unwrap_or(total));
        while surplus > 0 {
            let flexible = widths.iter_mut().zip(&self.columns);
            let flexible =
                flexible.filter(|(width, (.., fit))| *fit != Fit::Whole && **width > MIN_WIDTH);
            let Some((widest, _)) = flexible.max_by_key(|(width, _)| **width) else { break };
            *widest -= 1;
            surplus -= 1;
        }
        widths
    }
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

/// The text in pieces of at most `columns`, with a letter in each. An empty text is one piece.
fn pieces(text: &str, columns: usize) -> Vec<String> {
    let (mut lines, mut used) = (vec![String::new()], 0);
    for letter in text.chars() {
        let wide = letter_width(letter);
        if used + wide > columns && used > 0 {
            lines.push(String::new());
            used = 0;
        }
        lines.last_mut().expect("it has one").push(letter);
        used += wide;
    }
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
