//! The slope of a series that has outliers: Theil and Sen's estimate, with its confidence interval. Pure.
//!
//! - The estimate is the median of the slopes between all pairs of points, so that a third of the points may be
//!   outliers.
//! - The interval is Sen's (1968), of 95 %: it counts in pairs, by the variance of Kendall's statistic. It takes the
//!   points for independent.

/// Two-sided 95 % of a normal distribution.
const Z: f64 = 1.96;

/// In units of the value for one unit of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slope {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

/// The slope of points `(time, value)` at different times; `None` for fewer than four.
pub fn theil_sen(points: &[(f64, f64)]) -> Option<Slope> {
    if points.len() < 4 {
        return None;
    }
    let mut slopes = Vec::with_capacity(points.len() * (points.len() - 1) / 2);
    for (at, &(time, value)) in points.iter().enumerate() {
        for &(later, other) in &points[at + 1..] {
            slopes.push((other - value) / (later - time));
        }
    }
    slopes.sort_by(f64::total_cmp);
    let (n, pairs) = (points.len() as f64, slopes.len() as f64);
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let rank = |rank: f64| slopes[(rank.max(0.0) as usize).min(slopes.len() - 1)];
    Some(Slope {
        median: f64::midpoint(rank((pairs - 1.0) / 2.0), rank(pairs / 2.0)),
        low: rank((pairs - Z * deviation) / 2.0),
        high: rank((pairs + Z * deviation) / 2.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise of this size around a line; a golden-ratio sequence repeats in no short period.
    fn noisy(slope: f64, noise: f64) -> Vec<(f64, f64)> {
        let at = |n: u32| {
            let wave = (f64::from(n) * 0.618_033_988_75).fract() - 0.5;
            (f64::from(n), 100.0 + slope * f64::from(n) + noise * wave)
        };
        (0..120).map(at).collect()
    }

    #[test]
    fn a_line_has_its_slope() {
        let slope = theil_sen(&noisy(0.5, 0.0)).unwrap();
        assert!((slope.median - 0.5).abs() < 1e-9, "{slope:?}");
    }

    #[test]
    fn outliers_do_not_move_the_slope() {
        let mut points = noisy(0.0, 1.0);
        for point in points.iter_mut().skip(90).step_by(4) {
            point.1 += 10_000.0;
        }
        let slope = theil_sen(&points).unwrap();
        assert!(slope.median.abs() < 0.01, "{slope:?}");
    }

    #[test]
    fn the_interval_has_the_slope_and_excludes_zero_only_where_there_is_one() {
        let flat = theil_sen(&noisy(0.0, 4.0)).unwrap();
        assert!(flat.low <= 0.0 && 0.0 <= flat.high, "{flat:?}");
        let grows = theil_sen(&noisy(0.05, 4.0)).unwrap();
        assert!(grows.low > 0.0 && grows.low <= 0.05 && 0.05 <= grows.high, "{grows:?}");
    }

    #[test]
    fn few_points_have_no_slope() {
        assert_eq!(theil_sen(&noisy(1.0, 0.0)[..3]), None);
    }
}
