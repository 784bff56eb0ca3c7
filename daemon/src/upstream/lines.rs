//! The data of server-sent events, from bytes as they arrive.

/// A longer line is no event.
const MAX_LINE_BYTES: usize = 16 << 20;

#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Before it, there is no end of a line.
    searched: usize,
}

/// A line that is too long.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

impl Lines {
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The data of the next event; `None`: more bytes are needed. Names of events and comments are skipped.
    pub fn next(&mut self) -> Result<Option<String>, TooLong> {
        loop {
            let end = self.bytes[self.searched..].iter().position(|&byte| byte == b'\n');
            let Some(end) = end.map(|end| self.searched + end) else {
                self.searched = self.bytes.len();
                return if self.searched > MAX_LINE_BYTES { Err(TooLong) } else { Ok(None) };
            };
            let line = String::from_utf8_lossy(&self.bytes[..end]).into_owned();
            self.bytes.drain(..=end);
            self.searched = 0;
            if let Some(data) = line.strip_prefix("data:") {
                return Ok(Some(data.trim().to_owned()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_arrive_in_pieces_between_comments_and_names() {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for piece in ["da", "ta: {\"a\"", ": 1}\r\n\r\n: waiting\n\nevent: x\nda", "ta:[DONE]\n\nx"]
        {
            lines.push(piece.as_bytes());
            while let Some(data) = lines.next().unwrap() {
                found.push(data);
            }
        }
        assert_eq!(found, ["{\"a\": 1}", "[DONE]"]);
    }

    #[test]
    fn a_line_without_an_end_is_not_read_for_ever() {
        let mut lines = Lines::default();
        lines.push(&vec![b'x'; MAX_LINE_BYTES + 1]);
        assert_eq!(lines.next(), Err(TooLong));
    }
}
