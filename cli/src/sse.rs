//! Reads server-sent events line by line.
//!
//! - Skips comments and fields other than `data`; `[DONE]` ends the stream.
//! - A line is bounded: a peer that is not a daemon cannot fill the memory.

use std::io::{self, BufRead, Read};

const MAX_LINE_BYTES: u64 = 16 << 20;

/// The data of each event.
pub struct Events<R> {
    reader: R,
    done: bool,
}

impl<R: BufRead> Events<R> {
    pub fn new(reader: R) -> Self {
        Self { reader, done: false }
    }

    fn next_line(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        let len = (&mut self.reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        match len as u64 {
            0 => Ok(None),
            MAX_LINE_BYTES => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "a line is longer than 16 MiB"))
            }
            _ => Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned())),
        }
    }
}

impl<R: BufRead> Iterator for Events<R> {
    type Item = io::Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.done {
            let line = match self.next_line() {
                Ok(Some(line)) => line,
                // Without `[DONE]` the answer is incomplete.
                Ok(None) => {
                    self.done = true;
                    return Some(Err(io::ErrorKind::UnexpectedEof.into()));
                }
                Err(error) => {
                    self.done = true;
                    return Some(Err(error));
                }
            };
            match line.strip_prefix("data:").map(str::trim_start) {
                Some("[DONE]") => self.done = true,
                Some(data) => return Some(Ok(data.to_owned())),
                None => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(text: &str) -> Vec<Result<String, io::ErrorKind>> {
        Events::new(text.as_bytes()).map(|event| event.map_err(|error| error.kind())).collect()
    }

    #[test]
    fn data_lines_are_events_until_done() {
        let text =
            ": waiting\n\ndata: {\"a\":1}\r\n\nevent: x\ndata:2\n\ndata: [DONE]\n\ndata: 3\n";
        assert_eq!(events(text), [Ok("{\"a\":1}".to_owned()), Ok("2".to_owned())]);
    }

    #[test]
    fn a_stream_without_done_is_an_error() {
        let broken = events("data: 1\n\n");
        assert_eq!(broken, [Ok("1".to_owned()), Err(io::ErrorKind::UnexpectedEof)]);
    }
}
