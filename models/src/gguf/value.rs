//! The values of a header's entries.

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    /// Bytes that are not UTF-8 are replaced.
    Text(String),
    Array(Array),
}

/// An array of values of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Number of items in the file.
    pub len: u64,
    /// Empty when `len` is greater than 1024, and of an array within an array.
    pub items: Vec<Value>,
}

impl Value {
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A whole number that is not negative.
    pub fn as_number(&self) -> Option<u64> {
        match self {
            Self::Unsigned(number) => Some(*number),
            Self::Signed(number) => u64::try_from(*number).ok(),
            Self::Bool(flag) => Some(u64::from(*flag)),
            _ => None,
        }
    }

    pub fn as_array(&self) -> Option<&Array> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }
}
