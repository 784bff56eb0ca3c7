//! How near passages are to a query in meaning: the cosine of unit vectors that an embedding model
//! made.

use std::collections::BTreeMap;

/// Unit vectors of passages, by block. The index need not know the block yet.
#[derive(Clone, Debug, Default)]
pub struct Vectors {
    by_block: BTreeMap<usize, Vec<f32>>,
}

impl Vectors {
    /// `vector` has length 1; one with a value that is no number counts as absent.
    pub fn add(&mut self, block: usize, vector: Vec<f32>) {
        if vector.iter().all(|value| value.is_finite()) {
            self.by_block.insert(block, vector);
        } else {
            self.by_block.remove(&block);
        }
    }

    pub fn remove(&mut self, block: usize) {
        self.by_block.remove(&block);
    }

    pub fn contains(&self, block: usize) -> bool {
        self.by_block.contains_key(&block)
    }

    /// The cosine of each block with `query`, by block; vectors of another model's length are left
    /// out.
    pub(super) fn cosines(&self, query: &[f32]) -> Vec<(usize, f64)> {
        if !query.iter().all(|value| value.is_finite()) {
            return Vec::new();
        }
        let fitting = self.by_block.iter().filter(|(_, vector)| vector.len() == query.len());
        fitting.map(|(&block, vector)| (block, dot(vector, query))).collect()
    }
}

/// Sums eight lanes apart, which the compiler turns into vector instructions.
fn dot(one: &[f32], other: &[f32]) -> f64 {
    let mut lanes = [0.0_f32; 8];
    let (one_chunks, other_chunks) = (one.chunks_exact(8), other.chunks_exact(8));
    let rest: f32 =
        one_chunks.remainder().iter().zip(other_chunks.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in one_chunks.zip(other_chunks) {
        for lane in 0..8 {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    f64::from(lanes.iter().sum::<f32>() + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosines_leave_out_what_does_not_fit() {
        let mut vectors = Vectors::default();
        vectors.add(1, vec![1.0, 0.0]);
        vectors.add(2, vec![0.6, 0.8]);
        vectors.add(3, vec![1.0, 0.0, 0.0]);
        vectors.add(4, vec![f32::NAN, 0.0]);
        let found: Vec<(usize, i64)> = vectors
            .cosines(&[0.0, 1.0])
            .into_iter()
            .map(|(block, cosine)| (block, (cosine * 1000.0).round() as i64))
            .collect();
        assert_eq!(found, [(1, 0), (2, 800)]);
    }
}
