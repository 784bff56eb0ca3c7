//! Element types of tensors and caches, and their sizes.

use std::str::FromStr;

/// An element type of ggml, with the geometry of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GgmlType {
    id: u32,
    name: &'static str,
    block_elements: u64,
    block_bytes: u64,
}

const fn ggml(id: u32, name: &'static str, block_elements: u64, block_bytes: u64) -> GgmlType {
    GgmlType { id, name, block_elements, block_bytes }
}

/// As in `ggml.h` and `ggml-common.h`. The gaps are types that were removed from files.
#[rustfmt::skip]
const TYPES: &[GgmlType] = &[
    ggml(0, "f32", 1, 4), ggml(1, "f16", 1, 2), ggml(2, "q4_0", 32, 18), ggml(3, "q4_1", 32, 20),
    ggml(6, "q5_0", 32, 22), ggml(7, "q5_1", 32, 24), ggml(8, "q8_0", 32, 34),
    ggml(9, "q8_1", 32, 36), ggml(10, "q2_K", 256, 84), ggml(11, "q3_K", 256, 110),
    ggml(12, "q4_K", 256, 144), ggml(13, "q5_K", 256, 176), ggml(14, "q6_K", 256, 210),
    ggml(15, "q8_K", 256, 292), ggml(16, "iq2_xxs", 256, 66), ggml(17, "iq2_xs", 256, 74),
    ggml(18, "iq3_xxs", 256, 98), ggml(19, "iq1_s", 256, 50), ggml(20, "iq4_nl", 32, 18),
    ggml(21, "iq3_s", 256, 110), ggml(22, "iq2_s", 256, 82), ggml(23, "iq4_xs", 256, 136),
    ggml(24, "i8", 1, 1), ggml(25, "i16", 1, 2), ggml(26, "i32", 1, 4), ggml(27, "i64", 1, 8),
    ggml(28, "f64", 1, 8), ggml(29, "iq1_m", 256, 56), ggml(30, "bf16", 1, 2),
    ggml(34, "tq1_0", 256, 54), ggml(35, "tq2_0", 256, 66), ggml(39, "mxfp4", 32, 17),
    ggml(40, "nvfp4", 64, 36), ggml(41, "q1_0", 128, 18), ggml(42, "q2_0", 64, 18),
];

impl GgmlType {
    /// Half precision: the default type of a cache.
    pub const F16: Self = ggml(1, "f16", 1, 2);

    /// The type with this number in a file.
    pub fn of_id(id: u32) -> Option<Self> {
        TYPES.iter().find(|kind| kind.id == id).copied()
    }

    /// ggml's name.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Bytes of a row of `elements`; `None` when they do not fill whole blocks or overflow.
    pub fn row_bytes(self, elements: u64) -> Option<u64> {
        let whole = elements.is_multiple_of(self.block_elements);
        let blocks = elements / self.block_elements;
        blocks.checked_mul(self.block_bytes).filter(|_| whole)
    }

    /// Bytes of `elements` in a cache, where a partial block has the size of a whole one.
    pub fn cache_bytes(self, elements: u64) -> u64 {
        elements.div_ceil(self.block_elements).saturating_mul(self.block_bytes)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{got}` is not an element type of ggml")]
pub struct GgmlTypeError {
    pub got: String,
}

impl FromStr for GgmlType {
    type Err = GgmlTypeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = TYPES.iter().find(|kind| kind.name.eq_ignore_ascii_case(text));
        found.copied().ok_or_else(|| GgmlTypeError { got: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_consists_of_whole_blocks() {
        let q8: GgmlType = "q8_0".parse().unwrap();
        assert_eq!(q8.row_bytes(64), Some(68));
        assert_eq!(q8.row_bytes(63), None);
        assert_eq!(q8.cache_bytes(63), 68);
        assert_eq!(GgmlType::F16.row_bytes(u64::MAX), None);
        assert_eq!(GgmlType::of_id(1), Some(GgmlType::F16));
        assert_eq!(GgmlType::of_id(4), None, "q4_2 was removed");
    }
}
