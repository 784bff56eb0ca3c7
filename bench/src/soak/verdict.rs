//! Whether a series grows. Pure.
//!
//! - A series grows when the lower end of its slope's interval, over the measured time, is more than the allowance:
//!   a part of the median and a fixed amount. A slope that may be zero never counts.
//! - Samples before the warm-up's end do not count: caches fill up to their bounds, conversations get their length.

use serde_json::{Value, json};

use super::slope::{Slope, theil_sen};

/// A series and what it may grow by.
pub struct Series {
    pub name: &'static str,
    pub unit: &'static str,
    /// Factor from the raw value to that unit.
    pub scale: f64,
    /// Part of the median.
    pub allowed_part: f64,
    /// In the raw value's unit.
    pub allowed: f64,
}

const MIB: f64 = (1 << 20) as f64;

/// In the order of a [`super::Sample`]'s values.
pub const SERIES: [Series; 5] = [
    Series { name: "memory", unit: "MiB", scale: MIB, allowed_part: 0.02, allowed: 8.0 * MIB },
    Series { name: "descriptors", unit: "", scale: 1.0, allowed_part: 0.02, allowed: 4.0 },
    Series { name: "threads", unit: "", scale: 1.0, allowed_part: 0.02, allowed: 2.0 },
    Series { name: "disk", unit: "MiB", scale: MIB, allowed_part: 0.02, allowed: 8.0 * MIB },
    // Other programs of the machine are in it, too.
    Series { name: "first token, p99", unit: "ms", scale: 1.0, allowed_part: 0.25, allowed: 5.0 },
];

pub struct Verdict {
    pub series: &'static Series,
    pub median: f64,
    /// Per hour.
    pub slope: Slope,
    /// What the slope makes of the measured time, at least.
    pub growth: f64,
    pub grows: bool,
}

impl Verdict {
    /// The verdict on points `(hours, value)`; `None` for too few.
    pub fn of(series: &'static Series, points: &[(f64, f64)]) -> Option<Self> {
        let slope = theil_sen(points)?;
        let mut values: Vec<f64> = points.iter().map(|point| point.1).collect();
        values.sort_by(f64::total_cmp);
        let median = values[values.len() / 2];
        let hours = points.last()?.0 - points.first()?.0;
        let growth = (slope.low * hours).max(0.0);
        let grows = growth > median * series.allowed_part + series.allowed;
        Some(Self { series, median, slope, growth, grows })
    }

    pub fn line(&self) -> String {
        let Self { series, median, slope, growth, grows } = self;
        let shown = |value: f64| value / series.scale;
        format!(
            "{:<18} {:>9.2} {:<4} {:>+10.3} an hour ({:+.3} to {:+.3}); at least {:.2} in this run: {}",
            series.name,
            shown(*median),
            series.unit,
            shown(slope.median),
            shown(slope.low),
            shown(slope.high),
            shown(*growth),
            match (*grows, *growth > 0.0) {
                (true, _) => "GROWS",
                (false, true) => "grows within the allowance",
                (false, false) => "flat",
            }
        )
    }

    pub fn to_json(&self) -> Value {
        let Self { series, median, slope, growth, grows } = self;
        json!({
            "series": series.name, "median": median, "per_hour": slope.median,
            "per_hour_low": slope.low, "per_hour_high": slope.high, "growth": growth, "grows": grows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: &Series = &SERIES[0];

    /// An hour of samples in MiB, with noise of 2 MiB.
    fn hour(mib_an_hour: f64) -> Vec<(f64, f64)> {
        let at = |n: u32| {
            let (hours, wave) = (f64::from(n) / 60.0, (f64::from(n) * 0.618_033_988_75).fract());
            (hours, (100.0 + mib_an_hour * hours + 2.0 * wave) * MIB)
        };
        (0..=60).map(at).collect()
    }

    #[test]
    fn a_leak_beyond_the_allowance_grows_and_noise_does_not() {
        assert!(!Verdict::of(MEMORY, &hour(0.0)).unwrap().grows);
        assert!(!Verdict::of(MEMORY, &hour(5.0)).unwrap().grows, "10 MiB are allowed");
        assert!(Verdict::of(MEMORY, &hour(20.0)).unwrap().grows);
        assert!(!Verdict::of(MEMORY, &hour(-20.0)).unwrap().grows, "less is no leak");
        let said = [0.0, 5.0, 20.0].map(|mib| Verdict::of(MEMORY, &hour(mib)).unwrap().line());
        for (line, end) in said.iter().zip([": flat", ": grows within the allowance", ": GROWS"]) {
            assert!(line.ends_with(end), "{line}");
        }
    }
}
