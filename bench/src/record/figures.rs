//! The samples of a row, and what is read from them: medians, spreads, a ratio and its bar.
//!
//! - A ratio below 1 is in Hob's favour, whether less or more of a row is better.
//! - Where both sides have a sample of each round, the ratio is the median of the rounds' ratios: a
//!   machine that gets slower during the run slows both of a round.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Hobd,
    /// llama-server, unless the row names something else.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Ms,
    Bytes,
    Tokens,
    TokensPerSecond,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub key: String,
    pub title: String,
    pub unit: Unit,
    pub more_is_better: bool,
    /// What the second side is, where it is not llama-server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// Maximum ratio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bar: Option<f64>,
    pub hobd: Vec<f64>,
    pub other: Vec<f64>,
}

impl Row {
    /// Less is better.
    pub fn lower(key: &str, title: impl Into<String>, unit: Unit) -> Self {
        Self {
            key: key.to_owned(),
            title: title.into(),
            unit,
            more_is_better: false,
            against: None,
            bar: None,
            hobd: Vec::new(),
            other: Vec::new(),
        }
    }

    pub fn higher(key: &str, title: impl Into<String>, unit: Unit) -> Self {
        Self { more_is_better: true, ..Self::lower(key, title, unit) }
    }

    pub fn bar(self, bar: f64) -> Self {
        Self { bar: Some(bar), ..self }
    }

    pub fn against(self, what: &str) -> Self {
        Self { against: Some(what.to_owned()), ..self }
    }

    pub fn push(&mut self, who: Who, sample: f64) {
        match who {
            Who::Hobd => self.hobd.push(sample),
            Who::Other => self.other.push(sample),
        }
    }

    /// `None`: one side has no samples, or both are zero.
    pub fn ratio(&self) -> Option<f64> {
        let is_equal = |one: f64, other: f64| one.total_cmp(&other).is_eq();
        if self.hobd.iter().chain(&self.other).all(|&sample| is_equal(sample, 0.0)) {
            return None;
        }
        let of = |hobd: f64, other: f64| match self.more_is_better {
            _ if is_equal(hobd, other) => 1.0, // Also a round in which both are zero.
            true => other / hobd,
            false => hobd / other,
        };
        let ratio = if self.hobd.len() == self.other.len() {
            let rounds = self.hobd.iter().zip(&self.other);
            median(rounds.map(|(&hobd, &other)| of(hobd, other)))
        } else {
            median(&self.hobd).zip(median(&self.other)).map(|(hobd, other)| of(hobd, other))
        };
        ratio.filter(|ratio| !ratio.is_nan())
    }

    /// Says by how much it misses its bar, or that a side was not measured; `None`: it reaches it, or has none.
    pub fn missed(&self) -> Option<String> {
        let bar = self.bar?;
        if self.hobd.is_empty() || self.other.is_empty() {
            return Some(format!("{}: not measured, bar {bar}", self.title));
        }
        let ratio = self.ratio()?;
        (ratio > bar).then(|| format!("{}: {ratio:.3}, bar {bar}", self.title))
    }
}

/// The mean of the middle two of an even number.
pub fn median(samples: impl IntoIterator<Item = impl std::borrow::Borrow<f64>>) -> Option<f64> {
    let mut sorted: Vec<f64> = samples.into_iter().map(|it| *it.borrow()).collect();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[odd / 2]),
        even => Some(f64::midpoint(sorted[even / 2 - 1], sorted[even / 2])),
    }
}

impl Unit {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ms => "ms",
            Self::Bytes => "bytes",
            Self::Tokens => "tokens",
            Self::TokensPerSecond => "tokens/s",
        }
    }

    /// With as many digits as mean something, thousands in groups.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Bytes if value >= 1e6 => {
                format!("{} MB", grouped(value / 1e6, usize::from(value < 1e8)))
            }
            Self::Bytes | Self::Tokens => grouped(value, 0),
            Self::Ms | Self::TokensPerSecond => grouped(value, usize::from(value < 100.0)),
        }
    }
}

fn grouped(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(w, r)| (w, Some(r)));
    let mut out = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 && out != "-" {
            out.push(',');
        }
        out.push(digit);
    }
    rest.map_or(out.clone(), |rest| format!("{out}.{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(hobd: &[f64], other: &[f64]) -> Row {
        let mut row = Row::lower("cold", "cold", Unit::Ms).bar(1.02);
        hobd.iter().for_each(|&sample| row.push(Who::Hobd, sample));
        other.iter().for_each(|&sample| row.push(Who::Other, sample));
        row
    }

    #[test]
    fn a_machine_that_slows_down_during_the_run_moves_no_ratio() {
        let row = row(&[100.0, 200.0, 400.0], &[100.0, 200.0, 400.0]);
        assert_eq!(row.ratio(), Some(1.0));
        assert_eq!(row.missed(), None);
    }

    #[test]
    fn a_ratio_below_one_is_in_favour_of_hob_whichever_is_better() {
        assert_eq!(row(&[50.0], &[100.0]).ratio(), Some(0.5));
        let more = Row { more_is_better: true, ..row(&[50.0], &[100.0]) };
        assert_eq!(more.ratio(), Some(2.0));
        assert_eq!(more.missed(), Some("cold: 2.000, bar 1.02".to_owned()));
        assert_eq!(row(&[0.0], &[0.0]).ratio(), None);
        assert_eq!(row(&[0.0], &[0.0]).missed(), None);
    }

    #[test]
    fn a_round_in_which_both_are_zero_is_in_favour_of_neither() {
        assert_eq!(row(&[0.0, 0.0, 30.0], &[0.0, 0.0, 0.0]).ratio(), Some(1.0));
        assert_eq!(row(&[0.0, 30.0, 30.0], &[0.0, 10.0, 10.0]).ratio(), Some(3.0));
        assert_eq!(row(&[0.0, 10.0, 10.0], &[0.0, 30.0, 20.0]).ratio(), Some(0.5));
    }

    #[test]
    fn a_bar_of_a_side_without_samples_is_missed() {
        let missed = Some("cold: not measured, bar 1.02".to_owned());
        assert_eq!(row(&[1.0], &[]).missed(), missed);
        assert_eq!(row(&[], &[1.0]).missed(), missed);
        let without_bar = Row { bar: None, ..row(&[1.0], &[]) };
        assert_eq!(without_bar.missed(), None);
    }

    #[test]
    fn figures_are_shown_with_as_many_digits_as_mean_something() {
        assert_eq!(Unit::Ms.show(31_391.64), "31,392");
        assert_eq!(Unit::Ms.show(99.95), "100.0");
        assert_eq!(Unit::Ms.show(12.34), "12.3");
        assert_eq!(Unit::Bytes.show(183_400_000.0), "183 MB");
        assert_eq!(Unit::Bytes.show(2_540_264.0), "2.5 MB");
        assert_eq!(Unit::Tokens.show(123_456.0), "123,456");
    }
}
