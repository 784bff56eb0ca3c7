//! The groups of rounded numbers of a section: rows of equally many numbers, one for each cell.

use hob_slots::Lossy;

use crate::backend::numbers::{BLOCK, of_f16, to_f16};

/// The largest f16. No number that is rounded is larger, and none becomes larger.
pub const MAX: f32 = 65_504.0;

/// Numbers of a group of 4 bits.
const GROUP: usize = 64;

/// Steps between the least and the largest number of a group of 4 bits.
const STEPS: f32 = 15.0;

/// How the numbers are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// 32 of a row: a factor, and 8 bits for each.
    Bytes,
    /// 64 of a row: the least, a step, and 4 bits for each.
    NibblesOfRows,
    /// 64 cells of one channel. First the minimum of each channel, then the steps, then the rows.
    NibblesOfChannels,
}

impl Groups {
    pub fn of(lossy: Lossy, is_k: bool) -> Self {
        match (lossy, is_k) {
            (Lossy::Q8, _) => Self::Bytes,
            (Lossy::Q4, true) => Self::NibblesOfChannels,
            (Lossy::Q4, false) => Self::NibblesOfRows,
        }
    }

    /// Bytes of `cells` rows of `numbers`.
    pub fn bytes(self, cells: usize, numbers: usize) -> usize {
        match self {
            Self::Bytes => cells * (2 * numbers.div_ceil(BLOCK) + numbers),
            Self::NibblesOfRows => cells * (4 * numbers.div_ceil(GROUP) + numbers.div_ceil(2)),
            Self::NibblesOfChannels => {
                4 * numbers * cells.div_ceil(GROUP) + cells * numbers.div_ceil(2)
            }
        }
    }

    /// Appends rows of `width` numbers, rounded.
    pub fn write(self, numbers: &[f32], width: usize, to: &mut Vec<u8>) {
        match self {
            Self::Bytes => {
                for group in numbers.chunks_exact(width).flat_map(|row| row.chunks(BLOCK)) {
                    write_bytes(group, to);
                }
            }
            Self::NibblesOfRows => {
                for row in numbers.chunks_exact(width) {
                    let scales: Vec<Scale> = row.chunks(GROUP).map(Scale::of).collect();
                    for scale in &scales {
                        to.extend(scale.least.to_le_bytes());
                        to.extend(scale.step.to_le_bytes());
                    }
                    let nibble = |at: usize, number: f32| scales[at / GROUP].nibble(number);
                    write_nibbles(row, nibble, to);
                }
            }
            Self::NibblesOfChannels => {
                for rows in numbers.chunks(GROUP * width) {
                    let channel = |at: usize| -> Vec<f32> {
                        rows.chunks_exact(width).map(|row| row[at]).collect()
                    };
                    let scales: Vec<Scale> = (0..width).map(|at| Scale::of(&channel(at))).collect();
                    to.extend(scales.iter().flat_map(|scale| scale.least.to_le_bytes()));
                    to.extend(scales.iter().flat_map(|scale| scale.step.to_le_bytes()));
                    for row in rows.chunks_exact(width) {
                        write_nibbles(row, |at, number| scales[at].nibble(number), to);
                    }
                }
            }
        }
    }

    /// Calls `each` with every row, of as many numbers as `row` has.
    ///
    /// # Panics
    /// When `groups` has another length than [`Groups::bytes`] says.
    pub fn read(self, groups: &[u8], cells: usize, row: &mut [f32], mut each: impl FnMut(&[f32])) {
        let width = row.len();
        assert_eq!(groups.len(), self.bytes(cells, width), "the groups are whole");
        match self {
            Self::Bytes => {
                for groups in groups.chunks_exact(self.bytes(1, width)) {
                    read_bytes(groups, row);
                    each(row);
                }
            }
            Self::NibblesOfRows => {
                for groups in groups.chunks_exact(self.bytes(1, width)) {
                    let (scales, nibbles) = groups.split_at(4 * width.div_ceil(GROUP));
                    read_nibbles(nibbles, row);
                    for (part, scale) in row.chunks_mut(GROUP).zip(scales.as_chunks::<4>().0) {
                        let [least, step] = [[scale[0], scale[1]], [scale[2], scale[3]]].map(float);
                        for number in part {
                            *number = bounded(least + *number * step);
                        }
                    }
                    each(row);
                }
            }
            Self::NibblesOfChannels => {
                let floats = |bytes: &[u8]| -> Vec<f32> {
                    bytes.as_chunks::<2>().0.iter().map(|it| float(*it)).collect()
                };
                let row_bytes = width.div_ceil(2);
                for groups in groups.chunks(4 * width + GROUP * row_bytes) {
                    let (scales, rows) = groups.split_at(4 * width);
                    let (least, steps) = scales.split_at(2 * width);
                    let (least, steps) = (floats(least), floats(steps));
                    for nibbles in rows.chunks_exact(row_bytes) {
                        read_nibbles(nibbles, row);
                        for ((number, least), step) in row.iter_mut().zip(&least).zip(&steps) {
                            *number = bounded(least + *number * step);
                        }
                        each(row);
                    }
                }
            }
        }
    }
}

/// The least number of a group of 4 bits, and the step to the next one, as f16.
struct Scale {
    least: u16,
    step: u16,
}

impl Scale {
    fn of(group: &[f32]) -> Self {
        let least = group.iter().copied().fold(f32::INFINITY, f32::min);
        let most = group.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let least = to_f16(least);
        let step = (most - of_f16(least)).max(0.0) / STEPS;
        let nearest = to_f16(step);
        // A smaller step would not reach the largest number.
        Self { least, step: nearest + u16::from(of_f16(nearest) < step) }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is 0 to 15")]
    fn nibble(&self, number: f32) -> u8 {
        let (least, step) = (of_f16(self.least), of_f16(self.step));
        if step == 0.0 { 0 } else { ((number - least) / step).round().clamp(0.0, STEPS) as u8 }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "it is -127 to 127")]
fn write_bytes(group: &[f32], to: &mut Vec<u8>) {
    let most = group.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
    let factor = to_f16(most / 127.0);
    let inverse = if factor == 0 { 0.0 } else { of_f16(factor).recip() };
    to.extend(factor.to_le_bytes());
    to.extend(
        group
            .iter()
            .map(|number| ((number * inverse).round().clamp(-127.0, 127.0) as i8).cast_unsigned()),
    );
}

fn read_bytes(groups: &[u8], row: &mut [f32]) {
    for (numbers, group) in row.chunks_mut(BLOCK).zip(groups.chunks(2 + BLOCK)) {
        let (factor, bytes) = group.split_first_chunk::<2>().expect("a group has a factor");
        let factor = float(*factor);
        for (number, byte) in numbers.iter_mut().zip(bytes) {
            *number = bounded(f32::from(byte.cast_signed()) * factor);
        }
    }
}

/// Two in a byte, the first in its low half.
fn write_nibbles(row: &[f32], nibble: impl Fn(usize, f32) -> u8, to: &mut Vec<u8>) {
    for (pair, numbers) in row.chunks(2).enumerate() {
        let high = numbers.get(1).map_or(0, |&number| nibble(2 * pair + 1, number));
        to.push(nibble(2 * pair, numbers[0]) | high << 4);
    }
}

fn read_nibbles(nibbles: &[u8], row: &mut [f32]) {
    for (pair, byte) in row.chunks_mut(2).zip(nibbles) {
        pair[0] = f32::from(byte & 15);
        if let Some(second) = pair.get_mut(1) {
            *second = f32::from(byte >> 4);
        }
    }
}

fn float(bytes: [u8; 2]) -> f32 {
    of_f16(u16::from_le_bytes(bytes))
}

/// Rounding must not make a number infinite.
pub fn bounded(number: f32) -> f32 {
    number.clamp(-MAX, MAX)
}
