//! The kind of a file that is no tar archive, by its first bytes.

/// Bytes of a file that [`described`] needs.
pub const HEAD_BYTES: u64 = 8;

/// The first bytes of each kind.
const KINDS: [(&[u8], &str); 8] = [
    (b"PK", "it is a ZIP archive"),
    (b"\x1f\x8b", "it is compressed with gzip: import what `gunzip` makes of it"),
    (b"\x28\xb5\x2f\xfd", "it is compressed with zstd: import what `unzstd` makes of it"),
    (b"GGUF", "it is a model"),
    (b"HOBSLT", "it is a slot file: its conversation's KV is in objects beside it"),
    (b"HOBOBJ", "it is an object: a part of a conversation's KV"),
    (b"HOBSEA", "it is an encrypted file of a slots directory"),
    (b"{", "it is JSON"),
];

/// A file that begins with `head`.
pub fn described(head: &[u8]) -> &'static str {
    let kind = KINDS.iter().find(|(begin, _)| head.starts_with(begin));
    kind.map_or("it is no tar archive", |&(_, kind)| kind)
}
