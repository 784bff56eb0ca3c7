//! Why bytes are not a file of ours.

/// What is wrong with the bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The first bytes are something else.
    #[error("it is no {expected}")]
    NotOurs {
        /// What should have been there.
        expected: &'static str,
    },
    /// A later version of Hob wrote it.
    #[error("its format version is {version}, this program reads up to {readable}")]
    Newer {
        /// The version that wrote it.
        version: u16,
        /// The latest version that is understood.
        readable: u16,
    },
    /// Some of it is missing.
    #[error("it ends after {got} of {expected} bytes")]
    Truncated {
        /// How long it should be, as far as that can be told.
        expected: u64,
        /// How long it is.
        got: u64,
    },
    /// There is more than there should be.
    #[error("{surplus} bytes follow its end")]
    Trailing {
        /// How many.
        surplus: u64,
    },
    /// A byte has changed.
    #[error("the checksum of its {part} is wrong")]
    Checksum {
        /// Which part.
        part: &'static str,
    },
    /// A field has a value that is never written.
    #[error("its field {field} holds {value}")]
    Field {
        /// Which field.
        field: &'static str,
        /// What it holds.
        value: u64,
    },
    /// The record does not decode, or contradicts the header.
    #[error("its record is malformed: {what}")]
    Record {
        /// In which way.
        what: String,
    },
    /// It is sealed, and was read as if it were not.
    #[error("it is sealed: set slots.encrypt = true and provide the key that sealed it")]
    Sealed,
    /// It does not open: it was changed, or the key or its name are not those that it was sealed
    /// with. Which of these cannot be told.
    #[error(
        "it does not open: provide the key that sealed it; if that is the right one, the file was \
         damaged or renamed and can only be removed"
    )]
    Seal,
    /// A compressed part does not unpack to what the header says.
    #[error("what it holds does not unpack: {what}")]
    Packed {
        /// In which way.
        what: &'static str,
    },
}
