//! How KV is rounded to have fewer bytes.
//!
//! - The tier is the choice of the machine's owner. What is rounded has another name than what it was made
//!   of, see [`View::lossy`](crate::View::lossy), and is never taken for that.
//! - Rounding is a matter of the runtime, which knows the layout of a state; [`sweep`](crate::sweep) decides
//!   what is rounded, and when.

use std::fmt;

/// How the rows of aged KV are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lossy {
    /// 8 bits a number, in groups of 32 along each row, as llama.cpp's `q8_0`: half the bytes of 16-bit floats.
    Q8,
    /// 4 bits a number: K in groups along each channel, V along each row, as KIVI does: a quarter.
    Q4,
}

impl Lossy {
    pub const ALL: [Self; 2] = [Self::Q8, Self::Q4];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Q8 => "q8",
            Self::Q4 => "q4",
        }
    }

    /// Part of names and of the file formats.
    pub fn code(self) -> u8 {
        match self {
            Self::Q8 => 1,
            Self::Q4 => 2,
        }
    }

    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|lossy| lossy.code() == code)
    }
}

impl fmt::Display for Lossy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
