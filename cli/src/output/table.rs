//! Columns of text, as wide as they need to be.

use std::fmt::Write as _;
use std::io;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// For words.
    Left,
    /// For figures.
    Right,
}

pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// A table whose first row is its header.
    pub fn untitled(columns: usize, align: Align) -> Self {
        Self { columns: vec![("", align); columns], rows: Vec::new() }
    }

    /// A table without a header.
    pub fn untitled_with<const N: usize>(aligns: [Align; N]) -> Self {
        Self { columns: aligns.map(|align| ("", align)).into(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "a row has a cell for every column");
        self.rows.push(cells);
    }

    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let header: Vec<_> = self.columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        let width = |column: usize| {
            let cells =
                [&header].into_iter().chain(&self.rows).map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.columns.len()).map(width).collect();
        let titled = header.iter().any(|name| !name.is_empty());
        // One write: standard output is line-buffered.
        let mut text = String::new();
        let mut line = String::new();
        for row in titled.then_some(&header).into_iter().chain(&self.rows) {
            line.clear();
            for ((cell, width), (_, align)) in row.iter().zip(&widths).zip(&self.columns) {
                match align {
                    Align::Left => write!(line, "{cell:<width$}  "),
                    Align::Right => write!(line, "{cell:>width$}  "),
                }
                .expect("writing to a string succeeds");
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
