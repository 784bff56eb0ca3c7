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
        if matches!(self.bar, Bar::AtLeast(_)) {
            sorted.reverse(); // The worst comes last.
        }
        let (most_of_them, worst) = (sorted[within_95(sorted.len())], sorted[sorted.len() - 1]);
        let (bar, holds) = match self.bar {
            Bar::AtLeast(least) => (format!("≥ {least}"), worst >= least),
            Bar::Below(bar) => (format!("< {bar}"), most_of_them < bar),
            Bar::None => (String::new(), true),
        };
        let missed = if holds { "" } else { "   MISSED" };
        let Self { what, unit, .. } = self;
        let bar = format!("{bar} {unit}");
        write!(f, "{what:<52} {bar:>12} {median:>10.1} {most_of_them:>10.1} {worst:>10.1}{missed}")
    }
}

/// Which of so many, sorted from the best on, 95 in 100 are within: of fewer than twenty, the worst.
fn within_95(values: usize) -> usize {
    (values * 95).div_ceil(100).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bar: Bar, values: &[f64]) -> String {
        Row { what: "it".to_owned(), unit: "ms", bar, values: values.to_vec() }.to_string()
    }

    #[test]
    fn of_a_few_times_the_worst_one_counts_too() {
        assert_eq!([1, 5, 19, 20, 100].map(within_95), [0, 4, 18, 18, 94]);
        let times = [40.0, 10.0, 20.0, 10.0, 10.0];
        assert!(row(Bar::Below(32.0), &times).ends_with("MISSED"));
        assert!(!row(Bar::Below(41.0), &times).ends_with("MISSED"));
        let frames = [60.0, 60.0, 49.0];
        assert!(row(Bar::AtLeast(50.0), &frames).ends_with("MISSED"));
        assert!(!row(Bar::AtLeast(49.0), &frames).ends_with("MISSED"));
    }
}
