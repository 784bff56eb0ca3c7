//! How near passages are to a query in meaning: the cosine of unit vectors that an embedding model
//! made, of the nearest sentence of each. A passage of several subjects is near to none as a whole.

use std::collections::BTreeMap;

/// Unit vectors of the sentences of passages, by block. The index need not know the block yet.
#[derive(Clone, Debug, Default)]
pub struct Vectors {
    by_block: BTreeMap<usize, Vec<Vec<f32>>>,
}

impl Vectors {
    /// Sets the vectors of a block, each of length 1, in place of its earlier ones. A vector with a value that is
    /// no number is left out.
    pub fn add(&mut self, block: usize, mut vectors: Vec<Vec<f32>>) {
        vectors.retain(|vector| vector.iter().all(|value| value.is_finite()));
        self.by_block.insert(block, vectors);
    }

    pub fn remove(&mut self, block: usize) {
        self.by_block.remove(&block);
    }

    pub fn contains(&self, block: usize) -> bool {
        self.by_block.contains_key(&block)
    }

    /// The cosine of each block's nearest sentence with `query`, by block; blocks without vectors, and
    /// vectors of another model's length, are left out.
    pub(super) fn cosines(&self, query: &[f32]) -> Vec<(usize, f64)> {
        if !query.iter().all(|value| value.is_finite()) {
            return Vec::new();
        }
        let nearest = |vectors: &[Vec<f32>]| {
            let fitting = vectors.iter().filter(|vector| vector.len() == query.len());
            fitting.map(|vector| dot(vector, query)).max_by(f64::total_cmp)
        };
        let blocks = self.by_block.iter();
        blocks.filter_map(|(&block, vectors)| Some((block, nearest(vectors)?))).collect()
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
        vectors.add(1, vec![vec![1.0, 0.0]]);
        vectors.add(2, vec![vec![1.0, 0.0], vec![0.6, 0.8], vec![0.8, 0.6]]);
        vectors.add(3, vec![vec![1.0, 0.0, 0.0]]);
        vectors.add(4, vec![vec![f32::NAN, 0.0]]);
        vectors.add(5, vec![]);
        let found: Vec<(usize, i64)> = vectors
            .cosines(&[0.0, 1.0])
            .into_iter()
            .map(|(block, cosine)| (block, (cosine * 1000.0).round() as i64))
            .collect();
        assert_eq!(found, [(1, 0), (2, 800)]);
    }
}
