//! A hash of a window of tokens, which moves by one token in constant time (Rabin and Karp).

use crate::id::Token;

/// A Mersenne prime: products of two residues fit 128 bits.
const PRIME: u64 = (1 << 61) - 1;
const BASE: u64 = 0x1f3_5a7b_9c2d_4e61;

/// The hash of a window of `window` tokens.
#[derive(Clone, Copy, Debug)]
pub struct Rolling {
    hash: u64,
    /// The factor of a window's first token.
    first: u64,
}

impl Rolling {
    pub fn of(window: &[Token]) -> Self {
        let hash = window.iter().fold(0, |hash, &token| step(hash, token));
        let first = (1..window.len()).fold(1, |factor, _| times(factor, BASE));
        Self { hash, first }
    }

    pub fn hash(self) -> u64 {
        self.hash
    }

    /// The window loses its first token and gets one more.
    pub fn slide(&mut self, first: Token, next: Token) {
        let without = self.hash + PRIME - times(value(first), self.first);
        self.hash = step(without % PRIME, next);
    }
}

fn step(hash: u64, token: Token) -> u64 {
    (times(hash, BASE) + value(token)) % PRIME
}

/// Not 0, so that leading tokens count.
fn value(token: Token) -> u64 {
    u64::from(token.0.cast_unsigned()) + 1
}

fn times(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other) % u128::from(PRIME);
    u64::try_from(product).expect("a residue fits")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_window_that_has_slid_has_the_hash_of_its_tokens(
            tokens in prop::collection::vec((0..500_i32).prop_map(Token), 9..80),
        ) {
            let mut rolling = Rolling::of(&tokens[..8]);
            for at in 1..=tokens.len() - 8 {
                rolling.slide(tokens[at - 1], tokens[at + 7]);
                prop_assert_eq!(rolling.hash(), Rolling::of(&tokens[at..at + 8]).hash());
            }
        }
    }
}
