//! The values of a header's entries.

/// One entry's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer that is not negative.
    Unsigned(u64),
    /// A signed integer.
    Signed(i64),
    /// A number with a fraction.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Text; bytes that are not UTF-8 are replaced.
    Text(String),
    /// Several values of one type.
    Array(Array),
}

/// An array, of which only a short one keeps its items.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// How many items the file holds.
    pub len: u64,
    /// The items; empty when there are too many to be worth keeping.
    pub items: Vec<Value>,
}

impl Value {
    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if it is whole and not negative.
    pub fn as_number(&self) -> Option<u64> {
        match self {
            Self::Unsigned(number) => Some(*number),
            Self::Signed(number) => u64::try_from(*number).ok(),
            Self::Bool(flag) => Some(u64::from(*flag)),
            _ => None,
        }
    }

    /// The array, if it is one.
    pub fn as_array(&self) -> Option<&Array> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }
}
