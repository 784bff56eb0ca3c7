//! e^x for weights: the same bits on every platform, and quick over a whole vocabulary.
//!
//! - Only IEEE additions, multiplications and bit moves, so no libm decides which token is drawn.
//! - Branch-free, so loops over it become vector code.
//! - For `x <= 0`, relative error below 3e-7; below -87 the result is 0. NaN gives 0.

use std::f32::consts::LOG2_E;

/// Below this the result would be denormal.
const LOWEST: f32 = -87.0;
/// ln 2 in two parts: the first has trailing zero bits, so that its multiples are exact.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// Adding and subtracting this rounds a small float to the nearest integer.
const ROUNDER: f32 = 12_582_912.0;

/// e^x of a weight: `x` is at most 0.
#[inline]
pub(super) fn exp(x: f32) -> f32 {
    let weighs = x >= LOWEST;
    let clamped = if weighs { x } else { LOWEST };
    let rounded = clamped * LOG2_E + ROUNDER;
    let power = rounded - ROUNDER;
    let rest = (clamped - power * LN_2_HIGH) - power * LN_2_LOW;
    let mut series = 1.0 / 5040.0;
    for term in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        series = series * rest + term;
    }
    // The low bits of `rounded` are the power; shifted, they become the exponent of 2^power.
    let scale = f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    if weighs { series * scale } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_close_to_the_exact_value() {
        for step in 0..87_000 {
            let x = -(step as f32) * 1e-3;
            let exact = f64::from(x).exp();
            let error = (f64::from(exp(x)) - exact).abs() / exact;
            assert!(error < 3e-7, "e^{x}: relative error {error}");
        }
    }

    #[test]
    fn the_ends_are_exact() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-88.0), 0.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(f32::NAN), 0.0);
    }
}
