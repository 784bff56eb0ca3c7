//! JSON values over a pipe, each behind its length in bytes as a little-endian `u32`.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum size of a value: several times the longest prompt.
const MAX_BYTES: usize = 64 << 20;

/// # Errors
/// [`io::ErrorKind::InvalidData`] for a value of more than [`MAX_BYTES`].
pub(super) fn write(pipe: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    const LENGTH_BYTES: usize = size_of::<u32>();
    let mut frame = vec![0; LENGTH_BYTES];
    serde_json::to_writer(&mut frame, value)?;
    let length = frame.len() - LENGTH_BYTES;
    if length > MAX_BYTES {
        let message = format!("they are larger than {} MiB", MAX_BYTES >> 20);
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    frame[..LENGTH_BYTES].copy_from_slice(&u32::try_from(length).expect("bounded").to_le_bytes());
    pipe.write_all(&frame)?;
    pipe.flush()
}

/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] when the pipe is closed.
pub(super) fn read<T: DeserializeOwned>(pipe: &mut impl Read) -> io::Result<T> {
    let mut length = [0; size_of::<u32>()];
    pipe.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    pipe.read_exact(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_arrive_in_order_and_a_closed_pipe_is_an_end() {
        let mut pipe = Vec::new();
        write(&mut pipe, &"first").unwrap();
        write(&mut pipe, &Err::<String, _>("second")).unwrap();
        let mut pipe = pipe.as_slice();
        assert_eq!(read::<String>(&mut pipe).unwrap(), "first");
        assert_eq!(read::<Result<String, String>>(&mut pipe).unwrap(), Err("second".to_owned()));
        let end = read::<String>(&mut pipe).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_length_beyond_the_limit_is_not_read() {
        let length = u32::MAX.to_le_bytes();
        assert_eq!(
            read::<String>(&mut length.as_slice()).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }
}
