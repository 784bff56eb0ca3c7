//! At which age blocks were used again, and how many were not.
//!
//! - Ages are in half octaves from one second on; the last one is open.
//! - From that, the best that can be had of a block of some age: the chance of a use within tau,
//!   over the expected time until then or until tau, for the tau that makes it largest.

use std::time::Duration;

/// Ages that are told apart.
pub const AGES: usize = 36;

/// The place of an age.
pub fn bucket(age: Duration) -> usize {
    let millis = age.as_millis() as u64;
    ENDS_MILLIS.partition_point(|&end| end <= millis)
}

/// The age below which blocks are younger than those of `age`; none when there are none.
pub fn younger_than(age: Duration) -> Option<Duration> {
    let bucket = bucket(age);
    (bucket > 0).then(|| Duration::from_millis(ENDS_MILLIS[bucket - 1]))
}

/// The end of a bucket; none for the last.
pub fn end(bucket: usize) -> Option<Duration> {
    ENDS_MILLIS.get(bucket).map(|&end| Duration::from_millis(end))
}

/// 1 s, 1.41 s, 2 s, 2.83 s, ...
const ENDS_MILLIS: [u64; AGES - 1] = ends();

const fn ends() -> [u64; AGES - 1] {
    let mut ends = [0; AGES - 1];
    let mut at = 0;
    while at < AGES - 1 {
        let whole = 1_000_u64 << (at / 2);
        ends[at] = if at % 2 == 0 { whole } else { whole * 1_414 / 1_000 };
        at += 1;
    }
    ends
}

/// Weights of uses and of survivals, for each age.
#[derive(Clone, Debug)]
pub struct Histogram {
    used: [f32; AGES],
    survived: [f32; AGES],
    // The period up to which it has faded.
    period: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { used: [0.0; AGES], survived: [0.0; AGES], period: 0 }
    }
}

/// The chance of a use while in each age.
pub type Chances = [f32; AGES];

impl Histogram {
    /// Blocks were used again at this age.
    pub fn add_used(&mut self, bucket: usize, weight: f32) {
        self.used[bucket] += weight;
    }

    /// Blocks outlived this age without a use.
    pub fn add_survived(&mut self, bucket: usize, weight: f32) {
        self.survived[bucket] += weight;
    }

    /// What was seen in earlier periods counts less: `factor` for each period.
    pub fn fade(&mut self, period: u64, factor: f32) {
        let periods = period.saturating_sub(self.period);
        self.period = period;
        if periods > 0 {
            let factor = factor.powf(periods as f32);
            for weight in self.used.iter_mut().chain(&mut self.survived) {
                let faded = *weight * factor;
                // What is next to nothing is nothing: such numbers are slow to compute with.
                *weight = if faded < 1e-6 { 0.0 } else { faded };
            }
        }
    }

    /// The chances seen here; where little was seen, near those of `others`, which count as
    /// `weight` blocks.
    pub fn chances(&self, others: &Chances, weight: f32) -> Chances {
        std::array::from_fn(|at| {
            let seen = self.used[at] + self.survived[at];
            (self.used[at] + weight * others[at]) / (seen + weight)
        })
    }
}

/// Uses per second that can be expected.
#[derive(Clone, Copy, Debug)]
pub struct Density {
    /// At some age: the largest that some tau gives.
    pub here: f32,
    /// The least of all younger ages.
    pub least_younger: f32,
}

/// The density at each age.
pub fn densities(chances: &Chances) -> [Density; AGES] {
    let mut least = f32::INFINITY;
    std::array::from_fn(|from| {
        let (mut alive, mut uses, mut secs, mut best) = (1.0_f32, 0.0_f32, 0.0_f32, 0.0_f32);
        for (bucket, &chance) in chances.iter().enumerate().skip(from) {
            uses += alive * chance;
            secs += alive * width_secs(bucket) * (1.0 - chance / 2.0);
            alive *= 1.0 - chance;
            best = best.max(uses / secs);
        }
        let density = Density { here: best, least_younger: least };
        least = least.min(best);
        density
    })
}

fn width_secs(bucket: usize) -> f32 {
    let start = if bucket == 0 { 0 } else { ENDS_MILLIS[bucket - 1] };
    let end = ENDS_MILLIS.get(bucket).copied().unwrap_or(start * 2);
    (end - start) as f32 / 1_000.0
}
