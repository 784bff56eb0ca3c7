//! What a block is about, in 256 bits: similar sets of tokens have similar sketches.
//!
//! - SimHash (Charikar, 2002, "Similarity estimation techniques from rounding algorithms"): of two
//!   blocks with the angle `a` between their sets of tokens, `a / pi` of the bits differ. So the
//!   cosine is estimated without a model and without the text, with a standard deviation of at most
//!   0.1.
//! - Tokens, not meaning: a synonym is another token.

use std::array;
use std::f32::consts::PI;
use std::sync::LazyLock;

use super::random::mix;
use crate::id::Token;

/// A sketch of no tokens, the default, is similar to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sketch([u64; WORDS]);

const WORDS: usize = 4;

/// The estimated cosine by the number of bits that differ.
static COSINES: LazyLock<[f32; Sketch::BITS + 1]> = LazyLock::new(|| {
    array::from_fn(|differing| (PI * differing as f32 / Sketch::BITS as f32).cos())
});

impl Sketch {
    pub const BITS: usize = WORDS * u64::BITS as usize;

    /// The sketch of the distinct tokens of a block. How often a token occurs does not count: otherwise the most
    /// common ones would make all texts similar.
    pub fn of(tokens: &[Token]) -> Self {
        let mut distinct = tokens.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        Self::majority(distinct.into_iter().map(Self::of_token))
    }

    /// Each bit as in most of `sketches`; where as many have it as not, as in the first.
    pub fn majority(sketches: impl IntoIterator<Item = Self>) -> Self {
        let mut sketches = sketches.into_iter().peekable();
        let first = sketches.peek().copied().unwrap_or_default();
        let mut counts = Counts::default();
        sketches.for_each(|sketch| counts.add(sketch));
        counts.majority(first)
    }

    /// The signs of `votes`.
    pub(super) fn of_votes(votes: &[f32; Self::BITS]) -> Self {
        let mut words = [0; WORDS];
        for (at, _) in votes.iter().enumerate().filter(|(_, vote)| **vote > 0.0) {
            words[at / 64] |= 1 << (at % 64);
        }
        Self(words)
    }

    /// Each bit as 1 or -1.
    pub(super) fn signs(self) -> [f32; Self::BITS] {
        array::from_fn(|at| if self.0[at / 64] >> (at % 64) & 1 == 1 { 1.0 } else { -1.0 })
    }

    /// The estimated cosine of the angle between two sets of tokens: 1 of equal ones, about 0 of
    /// disjoint ones and of none.
    pub fn similarity(&self, other: &Self) -> f32 {
        if self.is_empty() || other.is_empty() {
            return 0.0;
        }
        let differing: u32 =
            self.0.iter().zip(&other.0).map(|(one, other)| (one ^ other).count_ones()).sum();
        COSINES[differing as usize]
    }

    /// Whether it is of no tokens.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    fn of_token(token: Token) -> Self {
        let state = mix(u64::from(token.0.cast_unsigned()));
        Self(array::from_fn(|word| mix(state ^ word as u64)))
    }
}

/// How many sketches have each bit: 256 binary counters, added to in words.
#[derive(Default)]
struct Counts {
    // The counters' lowest bits, then the next ones.
    places: Vec<[u64; WORDS]>,
    sketches: usize,
}

impl Counts {
    fn add(&mut self, sketch: Sketch) {
        self.sketches += 1;
        let mut carry = sketch.0;
        for place in &mut self.places {
            for (bits, carry) in place.iter_mut().zip(&mut carry) {
                (*bits, *carry) = (*bits ^ *carry, *bits & *carry);
            }
        }
        if carry != [0; WORDS] {
            self.places.push(carry);
        }
    }

    /// The bits that more than half of the sketches have, and those of `tie` that half of them have.
    fn majority(&self, tie: Sketch) -> Sketch {
        let half = self.sketches / 2;
        let places = self.places.len().max((usize::BITS - half.leading_zeros()) as usize);
        Sketch(array::from_fn(|word| {
            let (mut above, mut equal) = (0, u64::MAX);
            // From the highest place on: a counter is above half at the first place that differs.
            for at in (0..places).rev() {
                let bits = self.places.get(at).map_or(0, |place| place[word]);
                let of_half = if half >> at & 1 == 1 { u64::MAX } else { 0 };
                above |= equal & bits & !of_half;
                equal &= !(bits ^ of_half);
            }
            let is_even = self.sketches.is_multiple_of(2);
            if is_even { above | equal & tie.0[word] } else { above }
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use proptest::prelude::*;

    use super::super::fixtures;
    use super::*;

    #[test]
    fn order_and_repetition_of_tokens_do_not_matter() {
        let (one, other) = ([7, 8, 9, 9, 9].map(Token), [9, 8, 7].map(Token));
        assert_eq!(Sketch::of(&one), Sketch::of(&other));
        assert_eq!(Sketch::of(&one).similarity(&Sketch::of(&other)), 1.0);
    }

    #[test]
    fn similarity_estimates_the_cosine_of_the_sets() {
        // Of n tokens each, of which k are shared, the cosine is k / n.
        for (shared, cosine) in [(0, 0.0), (16, 0.25), (32, 0.5), (48, 0.75), (60, 0.9375)] {
            let mut sum = 0.0;
            for trial in 0..100 {
                let text = |start: i32| (start..start + 64).map(Token).collect::<Vec<_>>();
                let one = Sketch::of(&text(trial * 1_000));
                let similarity = one.similarity(&Sketch::of(&text(trial * 1_000 + 64 - shared)));
                assert!((similarity - cosine).abs() < 0.4, "{similarity} for {cosine}");
                sum += similarity;
            }
            assert!((sum / 100.0 - cosine).abs() < 0.04, "{} for {cosine}", sum / 100.0);
        }
    }

    #[test]
    fn a_sketch_of_no_tokens_is_similar_to_nothing() {
        let some = fixtures::sketch(1);
        assert_eq!(Sketch::of(&[]), Sketch::default());
        assert_eq!(Sketch::default().similarity(&some), 0.0);
        assert_eq!(Sketch::default().similarity(&Sketch::default()), 0.0);
    }

    proptest! {
        #[test]
        fn a_majority_has_the_bits_of_most_and_of_the_first(
            sketches in prop::collection::vec(any::<[u64; WORDS]>().prop_map(Sketch), 0..70),
        ) {
            let majority = Sketch::majority(sketches.iter().copied());
            let has = |sketch: &Sketch, bit: usize| sketch.0[bit / 64] >> (bit % 64) & 1 == 1;
            for bit in 0..Sketch::BITS {
                let count = sketches.iter().filter(|sketch| has(sketch, bit)).count();
                let expected = match (2 * count).cmp(&sketches.len()) {
                    Ordering::Equal => sketches.first().is_some_and(|first| has(first, bit)),
                    order => order == Ordering::Greater,
                };
                prop_assert_eq!(has(&majority, bit), expected);
            }
        }
    }
}
