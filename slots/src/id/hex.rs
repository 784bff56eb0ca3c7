//! Lower-case hex, the text form of every digest.

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseIdError {
    /// A digest of another length, or with other characters.
    #[error("a {what} has {digits} hex digits in lower case")]
    Hex {
        /// Which kind of name was expected.
        what: &'static str,
        /// How many digits it has.
        digits: usize,
    },
    /// A conversation id of no bytes.
    #[error("a conversation id is not empty")]
    Empty,
    /// A conversation id that is too long.
    #[error("a conversation id has at most {most} bytes, this one has {bytes}")]
    TooLong {
        /// Bytes given.
        bytes: usize,
        /// Bytes allowed.
        most: usize,
    },
    /// A conversation id with a line break, an escape or the like.
    #[error("a conversation id has no control characters, this one has one at byte {at}")]
    Control {
        /// Where the first one is.
        at: usize,
    },
}

pub(crate) fn hex_text(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| DIGITS[usize::from(nibble)] as char;
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

pub(crate) fn parse_hex<const N: usize>(
    what: &'static str,
    text: &str,
) -> Result<[u8; N], ParseIdError> {
    let wrong = || ParseIdError::Hex { what, digits: 2 * N };
    if text.len() != 2 * N {
        return Err(wrong());
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let high = digit_value(pair[0]).ok_or_else(wrong)?;
        let low = digit_value(pair[1]).ok_or_else(wrong)?;
        *byte = high << 4 | low;
    }
    Ok(bytes)
}

/// Upper case is refused: one name has one text, so it can be compared as text and as a file name.
fn digit_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}
