//! The distribution of the times to the first token.

use std::sync::atomic::AtomicU64;

use super::page::Page;
use super::{add, read};

/// Upper bounds of the time to first token, in seconds.
const TTFT_BOUNDS: [f64; 12] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

#[derive(Debug, Default)]
pub(super) struct Histogram {
    buckets: [AtomicU64; TTFT_BOUNDS.len()],
    count: AtomicU64,
    sum_micros: AtomicU64,
}

impl Histogram {
    pub(super) fn observe(&self, seconds: f64) {
        if let Some(bucket) = TTFT_BOUNDS.iter().position(|&bound| seconds <= bound) {
            add(&self.buckets[bucket], 1);
        }
        add(&self.count, 1);
        add(&self.sum_micros, (seconds * 1e6).max(0.0) as usize);
    }

    pub(super) fn render(&self, page: &mut Page, name: &str, help: &str) {
        page.family(name, "histogram", help);
        let mut below = 0;
        for (bound, bucket) in TTFT_BOUNDS.iter().zip(&self.buckets) {
            below += read(bucket);
            page.line(&format!("{name}_bucket"), &format!("le=\"{bound}\""), below);
        }
        let count = read(&self.count);
        page.line(&format!("{name}_bucket"), "le=\"+Inf\"", count);
        page.line(&format!("{name}_sum"), "", read(&self.sum_micros) as f64 / 1e6);
        page.line(&format!("{name}_count"), "", count);
    }
}
