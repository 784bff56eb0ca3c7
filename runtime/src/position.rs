//! Positions and lengths in 32 bits, as files have them. They fit: llama.cpp's are `i32`.

use std::ops::Range;

pub(crate) fn narrow(position: usize) -> u32 {
    u32::try_from(position).expect("positions fit 32 bits")
}

pub(crate) fn narrow_range(range: &Range<usize>) -> Range<u32> {
    narrow(range.start)..narrow(range.end)
}
