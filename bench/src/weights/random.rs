//! Reproducible, bell-shaped numbers; half a billion of them are made quickly.
//!
//! - A tensor's numbers depend only on its index in the file; those of [`Content::Shifted`] are the embeddings'.
//! - A Q8_0 block is one scale and 32 bell-shaped bytes: nothing is quantised, and the bytes cost
//!   as much to compute with as any others.

use std::ops::Range;

use super::tensor::{Content, Storage, Tensor};

/// The embeddings are the first tensor of every file.
const EMBEDDINGS_INDEX: usize = 0;

/// Added to the state for each 64 random bits.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The sum of four bytes, each around zero, divided by four: its standard deviation.
const BYTE_DEVIATION: f32 = 36.95;

/// A stream of random bits (SplitMix64).
pub struct Numbers(u64);

impl Numbers {
    /// The stream of a tensor that has this index.
    pub fn of(tensor: &Tensor, index: usize) -> Self {
        match tensor.content {
            Content::Shifted { .. } => {
                let row = (tensor.width / 2) as u64; // 64 bits make two numbers.
                let Self(first) = Self::of_tensor(EMBEDDINGS_INDEX);
                Self(first.wrapping_sub(STEP.wrapping_mul(row)))
            }
            Content::Same(_) | Content::Random { .. } | Content::FirstHalf => {
                Self::of_tensor(index)
            }
        }
    }

    fn of_tensor(index: usize) -> Self {
        Self(0x486f_6221_0000_0000 ^ index as u64)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Two bell-shaped bytes around zero.
    fn bells(&mut self) -> [i8; 2] {
        let bits = self.next();
        [bits as u32, (bits >> 32) as u32].map(|four| {
            let sum: i32 = four.to_le_bytes().iter().map(|&byte| i32::from(byte as i8)).sum();
            ((sum + 3) >> 2).max(-127) as i8 // Within a byte again; Q8_0 itself never uses -128.
        })
    }
}

/// Appends the `rows` of the tensor, which are the next ones of `numbers`.
pub fn fill(out: &mut Vec<u8>, tensor: &Tensor, rows: Range<usize>, numbers: &mut Numbers) {
    let elements = rows.len() * tensor.width;
    out.reserve(rows.len() * tensor.row_bytes());
    match (tensor.storage, tensor.content) {
        (Storage::F32, Content::Same(value)) => {
            out.extend(std::iter::repeat_n(value.to_le_bytes(), elements).flatten());
        }
        (Storage::F32, Content::Random { deviation }) => {
            let scale = deviation / BYTE_DEVIATION;
            let values = (0..elements).map(|_| f32::from(numbers.bells()[0]) * scale);
            out.extend(values.flat_map(f32::to_le_bytes));
        }
        (Storage::Q8_0, Content::Random { deviation } | Content::Shifted { deviation }) => {
            let scale = f16_bits(deviation / BYTE_DEVIATION).to_le_bytes();
            for _ in 0..elements / 32 {
                let mut block = [0; 34];
                block[..2].copy_from_slice(&scale);
                for pair in block[2..].chunks_exact_mut(2) {
                    pair.copy_from_slice(&numbers.bells().map(|byte| byte as u8));
                }
                out.extend_from_slice(&block);
            }
        }
        (Storage::Q8_0, Content::FirstHalf) => {
            let scale = f16_bits(1.0 / 127.0).to_le_bytes();
            for row in rows {
                for first in (0..tensor.width).step_by(32) {
                    let mut block = [0; 34];
                    block[..2].copy_from_slice(&scale);
                    if (first..first + 32).contains(&row) {
                        block[2 + row - first] = 127;
                    }
                    out.extend_from_slice(&block);
                }
            }
        }
        (storage, content) => unreachable!("no tensor has {content:?} as {storage:?}"),
    }
}

/// The nearest half-precision number below a positive one; halves reach from 2^-14 to 65504.
fn f16_bits(value: f32) -> u16 {
    assert!((6.2e-5..65504.0).contains(&value), "{value} has no normal half-precision form");
    let bits = value.to_bits();
    let exponent = (bits >> 23) - (127 - 15);
    ((exponent << 10) | (bits >> 13 & 0x3ff)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_those_of_the_standard() {
        assert_eq!(f16_bits(1.0), 0x3c00);
        assert_eq!(f16_bits(0.5), 0x3800);
        assert_eq!(f16_bits(0.000_1), 0x068d);
        assert_eq!(f16_bits(1024.0), 0x6400);
    }

    #[test]
    fn the_numbers_have_the_deviation_that_was_asked_for() {
        let mut numbers = Numbers::of_tensor(3);
        let sample: Vec<f32> = (0..50_000).flat_map(|_| numbers.bells()).map(f32::from).collect();

        let mean = sample.iter().sum::<f32>() / sample.len() as f32;
        let variance = sample.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / sample.len() as f32;

        assert!(mean.abs() < 0.5, "mean {mean}");
        assert!(
            (variance.sqrt() / BYTE_DEVIATION - 1.0).abs() < 0.02,
            "deviation {}",
            variance.sqrt()
        );
    }

    #[test]
    fn two_tensors_do_not_hold_the_same_numbers() {
        assert_ne!(Numbers::of_tensor(0).next(), Numbers::of_tensor(1).next());
    }
}
