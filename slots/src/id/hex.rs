//! Lower-case hex, the text form of every digest.

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseIdError {
    #[error("a {what} has {digits} hex digits in lower case")]
    Hex { what: &'static str, digits: usize },
    #[error("a conversation id has at least one character")]
    Empty,
    #[error("a conversation id has at most {max} bytes, this one has {bytes}")]
    TooLong { bytes: usize, max: usize },
    #[error("a conversation id has no control characters, this one has one at byte {at}")]
    Control { at: usize },
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Two lower-case digits a byte.
pub fn hex_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)] as char);
        text.push(DIGITS[usize::from(byte & 15)] as char);
    }
    text
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
    let mut seen = 0;
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let (high, low) = (VALUES[usize::from(pair[0])], VALUES[usize::from(pair[1])]);
        *byte = high << 4 | low;
        seen |= high | low;
    }
    // One pass over the digits: a sweep parses 100,000 names.
    if seen == NO_DIGIT { Err(wrong()) } else { Ok(bytes) }
}

const NO_DIGIT: u8 = 0xff;

/// Upper case is refused: a name has one text, so names can be compared as texts and file names.
const VALUES: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        values[DIGITS[value as usize] as usize] = value;
        value += 1;
    }
    values
};
