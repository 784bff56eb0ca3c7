//! How the body of a request is framed: by its length, or in chunks (RFC 9112, sections 6 and 7.1).

use super::random::Random;

pub struct Framed {
    /// The field of the head, or several.
    pub field: String,
    /// What follows the head.
    pub bytes: Vec<u8>,
    pub is_chunked: bool,
}

/// Most are framed as HTTP demands it.
pub fn framed(random: &mut Random, body: Vec<u8>) -> Framed {
    if random.one_in(8) {
        return chunked(random, &body);
    }
    let length = match random.below(40) {
        0 => body.len() + random.below(50) as usize,
        1 => body.len() / 2,
        _ => body.len(),
    };
    Framed { field: format!("content-length: {length}"), bytes: body, is_chunked: false }
}

fn chunked(random: &mut Random, body: &[u8]) -> Framed {
    let field = match random.below(20) {
        0 => "transfer-encoding: gzip, chunked",
        1 => "transfer-encoding: gzip",
        2 => "transfer-encoding: chunked\r\ncontent-length: 3",
        _ => "transfer-encoding: chunked",
    };
    let size = 1 + random.below(body.len().max(1) as u64) as usize;
    let chunks: Vec<&[u8]> = body.chunks(size).collect();
    // The number of the one that is framed wrongly. The last one is empty, and ends the body.
    let wrong = random.one_in(6).then(|| random.below(chunks.len() as u64 + 1) as usize);
    let mut bytes = Vec::new();
    for (at, chunk) in chunks.iter().enumerate() {
        let size = if wrong == Some(at) {
            wrong_size(random, chunk.len())
        } else {
            format!("{:x}", chunk.len())
        };
        let extension = if random.one_in(8) { ";name=value" } else { "" };
        bytes.extend(format!("{size}{extension}\r\n").into_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    let end = if wrong == Some(chunks.len()) {
        *random.among(&["", "0\r\n", "0\r\nx: y", "-0\r\n\r\n", "0\r\n\u{0}: y\r\n\r\n"])
    } else if random.one_in(8) {
        "0\r\nx-trailer: y\r\n\r\n"
    } else {
        "0\r\n\r\n"
    };
    bytes.extend_from_slice(end.as_bytes());
    Framed { field: field.to_owned(), bytes, is_chunked: true }
}

fn wrong_size(random: &mut Random, length: usize) -> String {
    const SIZES: [&str; 6] = ["", "zz", "-1", "0x5", "ffffffffffffffff", "10000000000000000"];
    match random.below(5) {
        0 => format!("{:x}", length + 1),
        1 => format!("{:x}", length / 2),
        2 => format!("{length:x};{}", "a".repeat(20_000)), // More than hyper reads of extensions.
        _ => (*random.among(&SIZES)).to_owned(),
    }
}
