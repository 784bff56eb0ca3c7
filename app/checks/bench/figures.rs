//! Figures beside their bars.

use std::fmt;

/// What is to hold.
#[derive(Clone, Copy, Debug)]
pub enum Bar {
    AtLeast(f64),
    Below(f64),
    /// Told for comparison.
    None,
}

/// What was measured, in the order in which it was.
#[derive(Debug, Default)]
pub struct Table(Vec<Row>);

#[derive(Debug)]
struct Row {
    what: String,
    unit: &'static str,
    bar: Bar,
    values: Vec<f64>,
}

impl Table {
    /// Adds a figure that was measured so often.
    pub fn add(&mut self, what: &str, unit: &'static str, bar: Bar, values: Vec<f64>) {
        assert!(!values.is_empty(), "{what} was not measured");
        let row = Row { what: what.to_owned(), unit, bar, values };
        println!("{row}"); // At once: the next ones take a while.
        self.0.push(row);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{:<52} {:>12} {:>10} {:>10}", "", "bar", "median", "worst")?;
        self.0.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let median = sorted[sorted.len() / 2];
        let most = sorted[sorted.len() - 1];
        let (worst, bar, holds) = match self.bar {
            Bar::AtLeast(least) => (sorted[0], format!("≥ {least}"), median >= least),
            Bar::Below(bar) => (most, format!("< {bar}"), median < bar),
            Bar::None => (most, String::new(), true),
        };
        let missed = if holds { "" } else { "   MISSED" };
        let Self { what, unit, .. } = self;
        write!(f, "{what:<52} {:>12} {median:>10.1} {worst:>10.1}{missed}", format!("{bar} {unit}"))
    }
}
