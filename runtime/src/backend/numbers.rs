//! The types of numbers in a state's rows, as ggml stores them.

/// The type of a row's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberType {
    F32,
    F16,
    Bf16,
    /// Blocks of [`BLOCK`] bytes, with a factor of 16 bits before each.
    Q8_0,
}

/// Numbers of a block of Q8_0.
pub(super) const BLOCK: usize = 32;
const BLOCK_BYTES: usize = 2 + BLOCK;

impl NumberType {
    /// The type that ggml numbers so.
    pub fn of(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::F32,
            1 => Self::F16,
            8 => Self::Q8_0,
            30 => Self::Bf16,
            _ => return None,
        })
    }

    /// Numbers in a row of this many bytes; `None` for a part of one.
    pub fn count(self, row_bytes: usize) -> Option<usize> {
        let (bytes, numbers) = match self {
            Self::F32 => (4, 1),
            Self::F16 | Self::Bf16 => (2, 1),
            Self::Q8_0 => (BLOCK_BYTES, BLOCK),
        };
        row_bytes.is_multiple_of(bytes).then_some(row_bytes / bytes * numbers)
    }

    /// The numbers of a row.
    pub fn read(self, bytes: &[u8], row: &mut Vec<f32>) {
        row.clear();
        let short = |bytes: &[u8; 2]| u16::from_le_bytes(*bytes);
        match self {
            Self::F32 => {
                row.extend(bytes.as_chunks::<4>().0.iter().map(|it| f32::from_le_bytes(*it)))
            }
            Self::F16 => row.extend(bytes.as_chunks::<2>().0.iter().map(|it| of_f16(short(it)))),
            Self::Bf16 => {
                let wide = |it| f32::from_bits(u32::from(short(it)) << 16);
                row.extend(bytes.as_chunks::<2>().0.iter().map(wide));
            }
            Self::Q8_0 => {
                for block in bytes.as_chunks::<BLOCK_BYTES>().0 {
                    let factor = of_f16(u16::from_le_bytes([block[0], block[1]]));
                    let number = |&byte: &u8| f32::from(byte.cast_signed()) * factor;
                    row.extend(block[2..].iter().map(number));
                }
            }
        }
    }

    /// Writes a row of as many numbers as were read.
    pub fn write(self, row: &[f32], bytes: &mut [u8]) {
        match self {
            Self::F32 => {
                for (to, number) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(row) {
                    *to = number.to_le_bytes();
                }
            }
            Self::F16 => {
                for (to, &number) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(row) {
                    *to = to_f16(number).to_le_bytes();
                }
            }
            Self::Bf16 => {
                for (to, &number) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(row) {
                    *to = to_bf16(number).to_le_bytes();
                }
            }
            Self::Q8_0 => {
                let blocks = bytes.as_chunks_mut::<BLOCK_BYTES>().0.iter_mut();
                for (to, numbers) in blocks.zip(row.as_chunks::<BLOCK>().0) {
                    quantise(numbers, to);
                }
            }
        }
    }
}

/// Writes numbers of less than 65,520 as [`NumberType::F16`] does, several at a time: there is no branch. Compiled into
/// each caller, for the instructions that it may use.
#[inline(always)]
pub(super) fn write_f16(row: &[f32], bytes: &mut [u8]) {
    for (to, &number) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(row) {
        // 2 to the power of -112: the exponents of f16 begin there.
        let bits = (number * f32::from_bits(0x0780_0000)).to_bits();
        let (sign, rest) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
        let rounded = (rest + 0xfff + (rest >> 13 & 1)) >> 13;
        #[expect(clippy::cast_possible_truncation, reason = "both fit 16 bits")]
        let narrow = (rounded | sign) as u16;
        *to = narrow.to_le_bytes();
    }
}

/// As `quantize_row_q8_0_ref` does.
#[expect(clippy::cast_possible_truncation, reason = "it is -127 to 127 after rounding")]
fn quantise(numbers: &[f32; BLOCK], to: &mut [u8; BLOCK_BYTES]) {
    let most = numbers.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
    let factor = most / 127.0;
    let inverse = if factor == 0.0 { 0.0 } else { factor.recip() };
    to[..2].copy_from_slice(&to_f16(factor).to_le_bytes());
    for (to, number) in to[2..].iter_mut().zip(numbers) {
        *to = ((number * inverse).round() as i8).cast_unsigned();
    }
}

pub(super) fn of_f16(bits: u16) -> f32 {
    let (sign, rest) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7fff));
    let wide = if rest >= 0x7c00 {
        (rest << 13) | 0x7f80_0000 // Infinite, or no number.
    } else {
        (f32::from_bits(rest << 13) * f32::from_bits(0x7780_0000)).to_bits() // 2 to the power of 112.
    };
    f32::from_bits(wide | sign)
}

/// Rounds to the nearest, ties to even.
#[expect(clippy::cast_possible_truncation, reason = "all of them fit 16 bits")]
pub(super) fn to_f16(number: f32) -> u16 {
    let bits = number.to_bits();
    let (sign, rest) = ((bits >> 16 & 0x8000) as u16, bits & 0x7fff_ffff);
    let narrow = if rest > 0x7f80_0000 {
        0x7e00
    } else if rest >= 0x4780_0000 {
        0x7c00
    } else if rest < 0x3880_0000 {
        // Adding 1/2 leaves the bits of a subnormal number.
        ((f32::from_bits(rest) + 0.5).to_bits() - 0.5_f32.to_bits()) as u16
    } else {
        let odd = rest >> 13 & 1;
        ((rest - 0x3800_0000 + 0xfff + odd) >> 13) as u16
    };
    narrow | sign
}

fn to_bf16(number: f32) -> u16 {
    let bits = number.to_bits();
    if number.is_nan() {
        return (bits >> 16) as u16 | 64;
    }
    ((bits + (0x7fff + (bits >> 16 & 1))) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_is_read_and_written_as_it_is() {
        for bits in 0..=u16::MAX {
            let number = of_f16(bits);
            if number.is_nan() {
                assert!(of_f16(to_f16(number)).is_nan());
            } else {
                assert_eq!(to_f16(number), bits, "{number}");
            }
        }
        assert_eq!(
            [of_f16(0x3c00), of_f16(0xc000), of_f16(0x0001)],
            [1.0, -2.0, 2.0_f32.powi(-24)]
        );
    }

    #[test]
    fn numbers_between_are_rounded_to_the_nearest_and_ties_to_even() {
        let step = 2.0_f32.powi(-10);
        let cases =
            [(1.0 + 0.4 * step, 0x3c00), (1.0 + 0.5 * step, 0x3c00), (1.0 + 1.5 * step, 0x3c02)];
        for (number, bits) in cases {
            assert_eq!(to_f16(number), bits, "{number}");
        }
        assert_eq!([to_f16(65_504.0), to_f16(65_520.0), to_f16(1e9)], [0x7bff, 0x7c00, 0x7c00]);
        assert_eq!([to_bf16(1.0), to_bf16(1.0 + 2.0_f32.powi(-8))], [0x3f80, 0x3f80]);
    }

    #[test]
    fn f16_is_written_without_branches_as_with_them() {
        let mut numbers: Vec<f32> =
            (0..=u16::MAX).map(of_f16).filter(|it| it.is_finite()).collect();
        let between = numbers.windows(2).map(|pair| pair[0] * 0.3 + pair[1] * 0.7);
        let halves = numbers.windows(2).map(|pair| f32::midpoint(pair[0], pair[1]));
        let more: Vec<f32> = between.chain(halves).collect();
        numbers.extend(more);
        let mut bytes = vec![0; 2 * numbers.len()];
        write_f16(&numbers, &mut bytes);
        for (number, bytes) in numbers.iter().zip(bytes.as_chunks::<2>().0) {
            assert_eq!(u16::from_le_bytes(*bytes), to_f16(*number), "{number:e}");
        }
    }

    #[test]
    fn each_type_writes_what_it_reads() {
        let numbers: Vec<f32> = (-32_i16..32).map(|n| f32::from(n) / 4.0).collect();
        let types = [(0, 256), (1, 128), (30, 128), (8, 68)];
        for (number, bytes) in types {
            let number_type = NumberType::of(number).unwrap();
            let mut row = vec![0; bytes];
            number_type.write(&numbers, &mut row);
            let (mut read, mut again) = (Vec::new(), vec![0; bytes]);
            number_type.read(&row, &mut read);
            number_type.write(&read, &mut again);
            assert_eq!(row, again, "{number_type:?}");
            let furthest = numbers.iter().zip(&read).map(|(a, b)| (a - b).abs());
            assert!(furthest.fold(0.0, f32::max) <= 8.0 / 127.0 / 2.0 + 0.01, "{number_type:?}");
        }
        assert_eq!(NumberType::of(2), None);
    }
}
