//! The ages at which blocks were reused, and the number that were not.
//!
//! - Ages are in half octaves from one second; the last bucket is open.
//! - The density of an age is the chance of a use within tau over the expected time until that use
//!   or tau, for the best tau.

use std::time::Duration;

/// The number of buckets.
pub const AGES: usize = 36;

pub fn bucket(age: Duration) -> usize {
    let millis = age.as_millis() as u64;
    ENDS_MILLIS.partition_point(|&end| end <= millis)
}

/// The lower bound of the bucket of `age`; `None` for the first.
pub fn younger_than(age: Duration) -> Option<Duration> {
    let bucket = bucket(age);
    (bucket > 0).then(|| Duration::from_millis(ENDS_MILLIS[bucket - 1]))
}

/// The upper bound of a bucket; `None` for the last.
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

/// Weights of uses and survivals by age.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    used: [f32; AGES],
    survived: [f32; AGES],
    // The last period that has faded.
    period: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { used: [0.0; AGES], survived: [0.0; AGES], period: 0 }
    }
}

/// The chance of a use in each bucket.
pub type Chances = [f32; AGES];

impl Histogram {
    pub fn of(used: [f32; AGES], survived: [f32; AGES]) -> Self {
        Self { used, survived, period: 0 }
    }

    /// The weights of uses and of survivals, by age.
    pub fn weights(&self) -> ([f32; AGES], [f32; AGES]) {
        (self.used, self.survived)
    }

    /// The weight of all blocks that have lived through the first bucket, or were used in it.
    pub fn seen(&self) -> f32 {
        self.used[0] + self.survived[0]
    }

    /// Adds all observations of `other`.
    pub fn add(&mut self, other: &Self) {
        for at in 0..AGES {
            self.used[at] += other.used[at];
            self.survived[at] += other.survived[at];
        }
    }

    pub fn scale(&mut self, factor: f32) {
        self.used.iter_mut().chain(&mut self.survived).for_each(|weight| *weight *= factor);
    }

    /// Blocks were reused at this age.
    pub fn add_used(&mut self, bucket: usize, weight: f32) {
        self.used[bucket] += weight;
    }

    /// Blocks survived this bucket unused.
    pub fn add_survived(&mut self, bucket: usize, weight: f32) {
        self.survived[bucket] += weight;
    }

    /// Earlier periods count less: `factor` per period.
    pub fn fade(&mut self, period: u64, factor: f32) {
        let periods = period.saturating_sub(self.period);
        self.period = period;
        if periods > 0 {
            let factor = factor.powf(periods as f32);
            for weight in self.used.iter_mut().chain(&mut self.survived) {
                let faded = *weight * factor;
                // Rounds tiny weights to zero: subnormal numbers are slow.
                *weight = if faded < 1e-6 { 0.0 } else { faded };
            }
        }
    }

    /// The chances seen here, smoothed towards those of `others`, which count as `weight` blocks.
    pub fn chances(&self, others: &Chances, weight: f32) -> Chances {
        std::array::from_fn(|at| {
            let seen = self.used[at] + self.survived[at];
            (self.used[at] + weight * others[at]) / (seen + weight)
        })
    }
}

/// Expected uses per second.
#[derive(Clone, Copy, Debug)]
pub struct Density {
    /// By age, with the best tau.
    pub here: f32,
    /// The minimum over all younger ages.
    pub least_younger: f32,
}

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
