//! Figures beside their bars.

use std::fmt;

/// What is to hold: of every frame rate, and of 95 in 100 times.
#[derive(Clone, Copy, Debug)]
pub enum Bar {
    AtLeast(f64),
    Below(f64),
    /// Printed for comparison.
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
        writeln!(f, "\n{:<52} {:>12} {:>10} {:>10} {:>10}", "", "bar", "median", "95 %", "worst")?;
        self.0.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let median = sorted[sorted.len() / 2];
        let at = |percent: usize| sorted[(sorted.len() - 1) * percent / 100];
        let (most_of_them, worst, bar, holds) = match self.bar {
            Bar::AtLeast(least) => (at(5), at(0), format!("≥ {least}"), at(0) >= least),
            Bar::Below(bar) => (at(95), at(100), format!("< {bar}"), at(95) < bar),
            Bar::None => (at(95), at(100), String::new(), true),
        };
        let missed = if holds { "" } else { "   MISSED" };
        let Self { what, unit, .. } = self;
        let bar = format!("{bar} {unit}");
        write!(f, "{what:<52} {bar:>12} {median:>10.1} {most_of_them:>10.1} {worst:>10.1}{missed}")
    }
}
