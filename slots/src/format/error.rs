//! Why bytes cannot be decoded.

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Another magic.
    #[error("not a Hob {expected}")]
    NotOurs { expected: &'static str },
    /// Written by a later version of Hob.
    #[error("its format version is {version}, this program reads up to {readable}")]
    Newer { version: u16, readable: u16 },
    #[error("it ends after {got} of {expected} bytes")]
    Truncated { expected: u64, got: u64 },
    #[error("{surplus} bytes follow its end")]
    Trailing { surplus: u64 },
    #[error("the checksum of its {part} is wrong")]
    Checksum { part: &'static str },
    #[error("its field {field} holds {value}")]
    Field { field: &'static str, value: u64 },
    #[error("its record is malformed: {what}")]
    Record { what: String },
    /// A sealed file, read without a key.
    #[error("it is sealed: set slots.encrypt = true and provide the key that sealed it")]
    Sealed,
    /// The file was changed, or it was sealed with another key or under another name. The tag does
    /// not tell which.
    #[error(
        "it does not open: provide the key that sealed it; if that is the right one, the file was \
         damaged or renamed and can only be removed"
    )]
    Seal,
    #[error("its content does not unpack: {what}")]
    Packed { what: &'static str },
}
