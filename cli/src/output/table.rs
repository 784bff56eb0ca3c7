//! Columns of text, as wide as they need to be.

use std::fmt::Write as _;
use std::io;

/// On which side a column's cells stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Figures.
    Right,
}

/// A table with a head.
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// A table whose first row is its head.
    pub fn untitled(columns: usize, align: Align) -> Self {
        Self { columns: vec![("", align); columns], rows: Vec::new() }
    }

    /// The same, with each column's side.
    pub fn untitled_with<const N: usize>(sides: [Align; N]) -> Self {
        Self { columns: sides.map(|side| ("", side)).into(), rows: Vec::new() }
    }

    /// Adds a row, which has a cell for every column.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "a row has a cell for every column");
        self.rows.push(cells);
    }

    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let head: Vec<_> = self.columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        let width = |column: usize| {
            let cells =
                [&head].into_iter().chain(&self.rows).map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.columns.len()).map(width).collect();
        let titled = head.iter().any(|name| !name.is_empty());
        // Written at once: standard output would pass on every line by itself.
        let mut text = String::new();
        let mut line = String::new();
        for row in titled.then_some(&head).into_iter().chain(&self.rows) {
            line.clear();
            for ((cell, width), (_, align)) in row.iter().zip(&widths).zip(&self.columns) {
                match align {
                    Align::Left => write!(line, "{cell:<width$}  "),
                    Align::Right => write!(line, "{cell:>width$}  "),
                }
                .expect("a text takes more text");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        out.write_all(text.as_bytes())
    }
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
}
