//! Rows of 8-bit groups as rows of f16, which most restores of rounded KV make. The same bytes as the general way, in a
//! third of its time where the processor has AVX2.

use super::groups::bounded;
use crate::backend::numbers::{BLOCK, of_f16, write_f16};

const GROUP_BYTES: usize = 2 + BLOCK;

/// Writes rows of `width` numbers over `rows`.
#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "instructions that not every processor has")
)]
pub fn write(groups: &[u8], width: usize, rows: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, which is all that the function needs beside safe code.
        return unsafe { write_with_avx2(groups, width, rows) };
    }
    write_rows(groups, width, rows);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn write_with_avx2(groups: &[u8], width: usize, rows: &mut [u8]) {
    write_rows(groups, width, rows);
}

/// Compiled into each caller, for the instructions that it may use.
#[inline(always)]
fn write_rows(groups: &[u8], width: usize, rows: &mut [u8]) {
    let (whole, rest) = (width / BLOCK, width % BLOCK);
    let row_groups = whole * GROUP_BYTES + if rest > 0 { 2 + rest } else { 0 };
    for (groups, row) in groups.chunks_exact(row_groups).zip(rows.chunks_exact_mut(2 * width)) {
        let (whole_groups, last) = groups.split_at(whole * GROUP_BYTES);
        let (numbers, rest) = row.as_chunks_mut::<{ 2 * BLOCK }>();
        for (numbers, group) in numbers.iter_mut().zip(whole_groups.as_chunks::<GROUP_BYTES>().0) {
            let [low, high, bytes @ ..] = group;
            let factor = of_f16(u16::from_le_bytes([*low, *high]));
            // Not `map`, which the compiler does one by one.
            let mut row = [0.0; BLOCK];
            for (number, byte) in row.iter_mut().zip(bytes) {
                *number = bounded(f32::from(byte.cast_signed()) * factor);
            }
            write_f16(&row, numbers);
        }
        if let [low, high, bytes @ ..] = last {
            let factor = of_f16(u16::from_le_bytes([*low, *high]));
            for (number, byte) in rest.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
                write_f16(&[bounded(f32::from(byte.cast_signed()) * factor)], number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::groups::Groups;
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_general_way() {
        let mut noise = 1_u32;
        let mut byte = || {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (noise >> 24) as u8
        };
        for width in [1, 31, 32, 33, 64, 70, 128, 500] {
            let bytes = Groups::Bytes.bytes(9, width);
            let mut groups: Vec<u8> = (0..bytes).map(|_| byte()).collect();
            for row in groups.chunks_mut(bytes / 9) {
                // No factor of what is rounded is infinite or no number.
                row.chunks_mut(GROUP_BYTES).for_each(|group| group[1] &= 0xbb);
            }
            let (mut fast, mut plain) = (vec![7; 2 * 9 * width], vec![7; 2 * 9 * width]);
            write(&groups, width, &mut fast);
            let mut rows = plain.chunks_exact_mut(2 * width);
            Groups::Bytes.read(&groups, 9, &mut vec![0.0; width], |row| {
                write_f16(row, rows.next().unwrap());
            });
            assert_eq!(fast, plain, "{width}");
        }
    }
}
