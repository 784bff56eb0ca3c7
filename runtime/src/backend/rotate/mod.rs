//! Moves the cells of a state to other positions: rotates K on the host. V does not depend on positions.
//!
//! - K of a position is K without one, rotated by angles that grow with the position. So it is moved by
//!   rotating it further, by the angles of the difference. A factor on its length (YaRN's) is in it already,
//!   and is not applied a second time.
//! - Angles are computed as llama.cpp computes those of a difference (`ggml_rope_cache_init`), in 32 bits.
//! - Other conversations' KV is moved from the bytes that were computed, so that K is rounded once, however often
//!   it is used. A conversation that is re-anchored moves what it moved before: after a hundred moves, K is off by
//!   0.2 % of its length in f16, 1.5 % in bf16, 4.3 % in q8_0 (tests).
//! - A quantised K has its Hadamard rotation, which the state tells, undone before and redone after.

use std::fmt;
use std::ops::Range;

pub use super::numbers::NumberType;
use super::state::{PlainState, put};

/// Which two numbers of a head are rotated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Neighbours: llama.cpp's NORM.
    Neighbours,
    /// A number of the first half of those rotated, and one of the second: NEOX.
    Halves,
}

/// How a model rotates K, equally in all of its layers.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    pub pairing: Pairing,
    /// Numbers of a head.
    pub head: usize,
    /// The first numbers of a head, which are rotated.
    pub rotated: usize,
    /// Base of the frequencies.
    pub base: f32,
    /// On the position: 1 over the factor by which the context was stretched.
    pub scale: f32,
    /// Divide the frequency of each pair; empty: none does.
    pub factors: Vec<f32>,
    pub yarn: Option<Yarn>,
}

/// High frequencies are not scaled, low ones are, and those between in part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yarn {
    /// Weight of the frequencies that are not scaled.
    pub extrapolated: f32,
    /// The pairs between which the weight falls.
    pub pairs: [f32; 2],
}

/// Why the cells of a model cannot be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Immovable {
    /// Windows or running states beside the cells, or instead of them.
    Memory(super::MemoryKind),
    /// Positions of several numbers, as for images.
    SeveralPositions,
    /// A latent in place of K and V, of which a part is rotated.
    LatentAttention,
    /// No rotation that this version knows of the architecture.
    Architecture(String),
    /// Frequencies that depend on the length of the context.
    LongRope,
    /// K of another type.
    CacheType(String),
}

impl fmt::Display for Immovable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(kind) => {
                write!(f, "the model has a {kind} memory, whose KV cannot be moved")
            }
            Self::SeveralPositions => {
                f.write_str("the model rotates KV by positions of several numbers (M-RoPE)")
            }
            Self::LatentAttention => f.write_str(
                "the model keeps a latent in place of K and V (MLA), and moving that is not known",
            ),
            Self::Architecture(name) => {
                write!(f, "moving KV is not known for the architecture `{name}`")
            }
            Self::LongRope => {
                f.write_str("the model rotates KV by the length of the context (LongRoPE)")
            }
            Self::CacheType(name) => write!(
                f,
                "KV of the type `{name}` cannot be moved: set `cache_type_k` to f32, f16, bf16 or q8_0"
            ),
        }
    }
}

impl Yarn {
    /// `fast`, `slow`: rotations within the `trained` context of the pairs between which the weight falls.
    pub fn new(rope: &Rope, extrapolated: f32, trained: f32, [fast, slow]: [f32; 2]) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a head has some hundred numbers")]
        let rotated = rope.rotated as f32;
        let pair = |turns: f32| {
            rotated * (trained / (turns * 2.0 * std::f32::consts::PI)).ln() / (2.0 * rope.base.ln())
        };
        let pairs = [pair(fast).floor().max(0.0), pair(slow).ceil().min(rotated - 1.0)];
        Self { extrapolated, pairs }
    }

    /// How much of the frequency of `pair` is not scaled.
    fn weight(&self, pair: f32) -> f32 {
        let [low, high] = self.pairs;
        let ramp = (pair - low) / (high - low).max(0.001);
        (1.0 - ramp.clamp(0.0, 1.0)) * self.extrapolated
    }
}

/// The rotation of a head by `delta` positions.
struct Rotation {
    pairing: Pairing,
    /// Cosine and sine of each pair.
    pairs: Vec<[f32; 2]>,
}

impl Rotation {
    #[expect(clippy::cast_precision_loss, reason = "llama.cpp computes angles in 32 bits")]
    fn of(rope: &Rope, delta: i64) -> Self {
        let step = rope.base.powf(-2.0 / rope.rotated as f32);
        let mut theta = delta as f32;
        let pairs = (0..rope.rotated / 2).map(|pair| {
            let unscaled = theta / rope.factors.get(pair).copied().unwrap_or(1.0);
            theta *= step;
            let scaled = rope.scale * unscaled;
            let weight = rope.yarn.map_or(0.0, |yarn| yarn.weight(pair as f32));
            let angle = scaled * (1.0 - weight) + unscaled * weight;
            [angle.cos(), angle.sin()]
        });
        Self { pairing: rope.pairing, pairs: pairs.collect() }
    }

    fn apply(&self, head: &mut [f32]) {
        let half = self.pairs.len();
        for (pair, [cos, sin]) in self.pairs.iter().enumerate() {
            let [one, other] = match self.pairing {
                Pairing::Neighbours => [2 * pair, 2 * pair + 1],
                Pairing::Halves => [pair, pair + half],
            };
            let (x, y) = (head[one], head[other]);
            head[one] = x * cos - y * sin;
            head[other] = x * sin + y * cos;
        }
    }
}

/// The cells of `state` at the positions `wanted`, moved by `delta`: a state as llama.cpp writes one. `None`
/// where the state lacks such a position, or has another layout.
pub fn moved(state: &[u8], wanted: &Range<usize>, delta: i64, rope: &Rope) -> Option<Vec<u8>> {
    let plain = PlainState::parse(state)?;
    let position = |cell: i32| usize::try_from(cell).ok();
    let cells: Vec<usize> = plain
        .positions()
        .enumerate()
        .filter(|(_, at)| position(*at).is_some_and(|at| wanted.contains(&at)))
        .map(|(cell, _)| cell)
        .collect();
    if cells.len() != wanted.len() {
        return None;
    }
    let mut moved = plain.of_cells(&cells);
    for (index, at) in plain
        .positions()
        .enumerate()
        .filter_map(|(cell, at)| cells.binary_search(&cell).ok().map(|index| (index, at)))
    {
        let at = i32::try_from(i64::from(at) + delta).ok().filter(|at| *at >= 0)?;
        put(&mut moved, PlainState::position_at(index), &at.to_le_bytes());
    }
    let hadamard = plain.rotation_of_k();
    let (rotation, parsed) = (Rotation::of(rope, delta), PlainState::parse(&moved)?);
    let keys: Vec<_> = parsed.keys().collect();
    let mut row = Vec::new();
    for section in keys {
        let number_type = NumberType::of(section.number_type)?;
        for bytes in moved[section.rows].chunks_exact_mut(section.row_bytes) {
            number_type.read(bytes, &mut row);
            if row.len() % rope.head != 0 || (hadamard > 0 && row.len() % hadamard != 0) {
                return None;
            }
            turn(&mut row, hadamard);
            row.chunks_exact_mut(rope.head).for_each(|head| rotation.apply(head));
            turn(&mut row, hadamard);
            number_type.write(&row, bytes);
        }
    }
    Some(moved)
}

/// Multiplies each `size` numbers with the orthonormal Walsh-Hadamard matrix, which is its own inverse. 0:
/// does nothing.
#[expect(clippy::cast_precision_loss, reason = "a head has some hundred numbers")]
fn turn(row: &mut [f32], size: usize) {
    if size == 0 {
        return;
    }
    let length = (size as f32).sqrt().recip();
    for part in row.chunks_exact_mut(size) {
        let mut half = 1;
        while half < size {
            for start in (0..size).step_by(2 * half) {
                for at in start..start + half {
                    let (x, y) = (part[at], part[at + half]);
                    (part[at], part[at + half]) = (x + y, x - y);
                }
            }
            half *= 2;
        }
        part.iter_mut().for_each(|number| *number *= length);
    }
}

#[cfg(test)]
mod tests;
