//! Parses bytes into a [`Header`], and checks every count, length and offset against the file's
//! size.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Seek};
use std::path::Path;

use super::cursor::{Cursor, MAX_HEADER_BYTES};
use super::ggml::GgmlType;
use super::header::{Header, Tensor};
use super::value::{Array, Value};
use crate::error::{GgufError, ModelError};

const MAX_KEY_BYTES: u64 = 65_535; // The format's own limit.
const MAX_TEXT_BYTES: u64 = 16 << 20; // Chat templates have some kilobytes.
const MAX_ENTRIES: u64 = 4_096; // Models have about a hundred.
const MAX_TENSORS: u64 = 65_536; // Models have up to some thousands.
const MAX_ITEMS: u64 = 1_024; // Of a returned array: more than the layers of any model.
const MAX_ARRAY_DEPTH: u32 = 4;
const MAX_DIMENSIONS: u32 = 4; // GGML_MAX_DIMS

// A file cannot have more entries and tensors than fit into it.
const MIN_ENTRY_BYTES: u64 = 8 + 4 + 1;
const MIN_TENSOR_BYTES: u64 = 8 + 4 + 8 + 4 + 8;

impl Header {
    /// Reads the header of the file at `path`.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let unreadable = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => ModelError::Missing { path: path.to_owned() },
            _ => ModelError::Unreadable { path: path.to_owned(), source },
        };
        // Before it is opened: opening a pipe waits for a writer.
        let facts = fs::metadata(path).map_err(unreadable)?;
        if !facts.is_file() {
            return Err(ModelError::NotAFile { path: path.to_owned() });
        }
        let file = File::open(path).map_err(unreadable)?;
        let invalid = |source| ModelError::Invalid { path: path.to_owned(), source };
        read(BufReader::with_capacity(1 << 16, file), facts.len()).map_err(invalid)
    }
}

/// Reads a header from the start of a file of `file_bytes`.
pub fn read(reader: impl BufRead + Seek, file_bytes: u64) -> Result<Header, GgufError> {
    let mut cursor = Cursor::new(reader, file_bytes);
    let version = preamble(&mut cursor)?;
    let n_tensors = cursor.u64()?;
    let n_entries = cursor.u64()?;
    cursor.expect(n_entries.saturating_mul(MIN_ENTRY_BYTES))?;
    cursor.expect(n_tensors.saturating_mul(MIN_TENSOR_BYTES))?;
    // A file of zeros, which takes no disk, would be empty tensors: 32 bytes each, and several times that in memory.
    if n_entries > MAX_ENTRIES || n_tensors > MAX_TENSORS {
        return Err(cursor.damaged("there are implausibly many entries or tensors"));
    }

    let mut metadata = BTreeMap::new();
    for _ in 0..n_entries {
        let key = cursor.text(MAX_KEY_BYTES)?;
        let kind = cursor.u32()?;
        let value = value(&mut cursor, kind, 0)?;
        if metadata.insert(key, value).is_some() {
            return Err(cursor.damaged("two entries have the same key"));
        }
        if cursor.position() > MAX_HEADER_BYTES {
            return Err(cursor.damaged("the header is implausibly large"));
        }
    }

    let alignment = match metadata.get("general.alignment") {
        None => 32,
        Some(value) => value
            .as_number()
            .filter(|alignment| alignment.is_power_of_two() && *alignment <= 1 << 20)
            .ok_or_else(|| cursor.damaged("the alignment is not a power of two"))?,
    };
    let mut tensors = Vec::new();
    for _ in 0..n_tensors {
        tensors.push(tensor(&mut cursor, alignment)?);
    }
    let start = cursor.position().next_multiple_of(alignment);
    place(&mut tensors, start, &cursor)?;
    Ok(Header { version, metadata, tensors, file_bytes })
}

fn preamble(cursor: &mut Cursor<impl BufRead + Seek>) -> Result<u32, GgufError> {
    let magic = match cursor.bytes::<4>() {
        Err(GgufError::Truncated { .. }) => return Err(GgufError::NotGguf),
        other => other?,
    };
    if magic != *b"GGUF" {
        return Err(GgufError::NotGguf);
    }
    match cursor.u32()? {
        version @ (2 | 3) => Ok(version),
        version if matches!(version.swap_bytes(), 1..=3) => Err(GgufError::BigEndian),
        version => Err(GgufError::Version { version }),
    }
}

fn value(
    cursor: &mut Cursor<impl BufRead + Seek>,
    kind: u32,
    depth: u32,
) -> Result<Value, GgufError> {
    Ok(match kind {
        0 => Value::Unsigned(u8::from_le_bytes(cursor.bytes()?).into()),
        1 => Value::Signed(i8::from_le_bytes(cursor.bytes()?).into()),
        2 => Value::Unsigned(u16::from_le_bytes(cursor.bytes()?).into()),
        3 => Value::Signed(i16::from_le_bytes(cursor.bytes()?).into()),
        4 => Value::Unsigned(cursor.u32()?.into()),
        5 => Value::Signed(i32::from_le_bytes(cursor.bytes()?).into()),
        6 => Value::Float(f32::from_le_bytes(cursor.bytes()?).into()),
        7 => Value::Bool(cursor.bytes::<1>()?[0] != 0),
        8 => Value::Text(cursor.text(MAX_TEXT_BYTES)?),
        9 if depth < MAX_ARRAY_DEPTH => Value::Array(array(cursor, depth)?),
        9 => return Err(cursor.damaged("arrays are nested too deeply")),
        10 => Value::Unsigned(cursor.u64()?),
        11 => Value::Signed(i64::from_le_bytes(cursor.bytes()?)),
        12 => Value::Float(f64::from_le_bytes(cursor.bytes()?)),
        _ => return Err(cursor.damaged("an entry has an unknown type")),
    })
}

fn array(cursor: &mut Cursor<impl BufRead + Seek>, depth: u32) -> Result<Array, GgufError> {
    let kind = cursor.u32()?;
    let len = cursor.u64()?;
    let min_bytes = fixed_bytes(kind).unwrap_or(8); // A text or an array begins with its length.
    let bytes = len.saturating_mul(min_bytes);
    cursor.expect(bytes)?;
    if cursor.position().saturating_add(bytes) > MAX_HEADER_BYTES {
        return Err(cursor.damaged("the header is implausibly large"));
    }

    let mut items = Vec::new();
    match fixed_bytes(kind) {
        Some(item_bytes) if len > MAX_ITEMS => cursor.skip(len * item_bytes)?,
        None if kind == 8 && len > MAX_ITEMS => {
            for _ in 0..len {
                cursor.skip_text()?;
            }
        }
        _ => {
            for _ in 0..len {
                let item = value(cursor, kind, depth + 1)?;
                if len <= MAX_ITEMS && depth == 0 {
                    items.push(item);
                }
            }
        }
    }
    Ok(Array { len, items })
}

fn fixed_bytes(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

/// Reads a tensor; its offset is relative to the start of the tensors' bytes.
fn tensor(cursor: &mut Cursor<impl BufRead + Seek>, alignment: u64) -> Result<Tensor, GgufError> {
    let name = cursor.text(MAX_KEY_BYTES)?;
    let n_dimensions = cursor.u32()?;
    if n_dimensions > MAX_DIMENSIONS {
        return Err(cursor.damaged("a tensor has more than four dimensions"));
    }
    let dimensions = (0..n_dimensions).map(|_| cursor.u64()).collect::<Result<Vec<_>, _>>()?;
    let id = cursor.u32()?;
    let offset = cursor.u64()?;
    let Some(kind) = GgmlType::of_id(id) else {
        return Err(GgufError::TensorType { tensor: name, id });
    };
    if !offset.is_multiple_of(alignment) {
        return Err(cursor.damaged("a tensor is not aligned"));
    }
    let row = dimensions.first().copied().unwrap_or(1);
    let rows = dimensions.iter().skip(1).try_fold(1u64, |rows, n| rows.checked_mul(*n));
    let size = kind.row_bytes(row).zip(rows).and_then(|(bytes, rows)| bytes.checked_mul(rows));
    let bytes = size.ok_or_else(|| cursor.damaged("a tensor has impossible dimensions"))?;
    Ok(Tensor { name, dimensions, kind, offset, bytes })
}

/// Makes offsets relative to the start of the file, and checks that every tensor is inside it.
fn place(
    tensors: &mut [Tensor],
    start: u64,
    cursor: &Cursor<impl BufRead + Seek>,
) -> Result<(), GgufError> {
    let mut expected_bytes = 0;
    for tensor in tensors {
        let offset = start.checked_add(tensor.offset);
        let end = offset.and_then(|offset| offset.checked_add(tensor.bytes));
        let (Some(offset), Some(end)) = (offset, end) else {
            return Err(cursor.damaged("a tensor is beyond the maximum size of a file"));
        };
        tensor.offset = offset;
        expected_bytes = expected_bytes.max(end);
    }
    if expected_bytes > cursor.end() {
        return Err(GgufError::Truncated { expected_bytes, actual_bytes: cursor.end() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor as Bytes;
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    use super::*;
    use crate::testing::{Gguf, asset};

    #[test]
    fn the_bundled_model_and_every_fixture_are_valid() {
        let header = Header::open(&asset("hob-tiny-f16.gguf")).unwrap();
        assert_eq!(header.text("general.architecture"), Some("llama"));
        assert_eq!(header.number("llama.context_length"), Some(4096));
        let tokens = header.metadata["tokenizer.ggml.tokens"].as_array().unwrap();
        assert_eq!((tokens.len, tokens.items.len()), (1536, 0), "a vocabulary is only counted");
        assert!(header.tensor_bytes() <= header.file_bytes);

        for family in ["qwen2", "qwen3", "gemma3", "lfm2", "mamba"] {
            let header = Header::open(&asset(&format!("fixtures/{family}.gguf"))).unwrap();
            assert_eq!(header.text("general.architecture"), Some(family));
        }
    }

    #[test]
    fn every_proper_prefix_of_a_file_is_refused() {
        let bytes = Gguf::new("llama").number("llama.block_count", 2).tensor("a", 64).bytes();
        parse(&bytes).unwrap();
        for len in 0..bytes.len() {
            assert!(parse(&bytes[..len]).is_err(), "{len} bytes of {} were accepted", bytes.len());
        }
    }

    #[test]
    fn a_byte_changed_anywhere_never_panics() {
        let bytes = Gguf::new("llama").number("llama.block_count", 2).tensor("a", 64).bytes();
        for at in 0..bytes.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut hostile = bytes.clone();
                hostile[at] ^= change;
                let _ = parse(&hostile);
            }
        }
    }

    #[test]
    fn counts_larger_than_the_file_are_refused_before_any_allocation() {
        for at in [8, 16] {
            let mut hostile = Gguf::new("llama").bytes();
            hostile[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
            assert!(matches!(parse(&hostile), Err(GgufError::Truncated { .. })));
        }
    }

    #[test]
    fn counts_that_no_model_has_are_refused_however_large_the_file() {
        let counts =
            [(8, MAX_TENSORS + 1, MIN_TENSOR_BYTES), (16, MAX_ENTRIES + 1, MIN_ENTRY_BYTES)];
        for (at, count, bytes) in counts {
            let mut hostile = Gguf::new("llama").bytes();
            hostile[at..at + 8].copy_from_slice(&count.to_le_bytes());
            hostile.resize(hostile.len() + (count * bytes) as usize, 0);
            let Err(GgufError::Damaged { what, .. }) = parse(&hostile) else {
                panic!("{count} at {at} were accepted");
            };
            assert!(what.contains("implausibly many"), "{what}");
        }
    }

    /// Of all names together: a file of zeros takes no disk, and each name may be long.
    #[test]
    fn a_name_beyond_the_largest_header_is_not_read() {
        const NAME_BYTES: u64 = 8_000;
        let mut head = b"GGUF".to_vec();
        head.extend(3_u32.to_le_bytes());
        head.extend([1_u64, 1].map(u64::to_le_bytes).concat()); // Tensors, entries.
        head.extend(1_u64.to_le_bytes());
        head.push(b'a');
        head.extend([9_u32, 0].map(u32::to_le_bytes).concat()); // An array of bytes, which is not read.
        let skipped = MAX_HEADER_BYTES - NAME_BYTES / 2;
        head.extend(skipped.to_le_bytes());
        let name = head.len() as u64 + skipped;

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sparse.gguf");
        let file = File::create(&path).unwrap();
        file.set_len(name + NAME_BYTES + 4096).unwrap();
        file.write_all_at(&head, 0).unwrap();
        file.write_all_at(&NAME_BYTES.to_le_bytes(), name).unwrap();
        let error = Header::open(&path).unwrap_err().to_string();
        assert!(error.contains("the header is implausibly large"), "{error}");
    }

    #[test]
    fn arrays_in_an_array_are_only_counted() {
        let mut outer = 9u32.to_le_bytes().to_vec();
        outer.extend(2u64.to_le_bytes());
        for _ in 0..2 {
            outer.extend(0u32.to_le_bytes());
            outer.extend(3u64.to_le_bytes());
            outer.extend([1, 2, 3]);
        }
        let header = Gguf::new("llama").entry("outer", 9, &outer).header();
        let outer = header.metadata["outer"].as_array().unwrap();
        let inner = outer.items.iter().map(|inner| inner.as_array().unwrap());
        let counts: Vec<_> = inner.map(|inner| (inner.len, inner.items.len())).collect();
        assert_eq!(counts, [(3, 0); 2]);
    }

    #[test]
    fn a_file_of_another_kind_byte_order_or_version_is_refused_as_such() {
        assert!(matches!(parse(b"PK\x03\x04 and so on"), Err(GgufError::NotGguf)));
        assert!(matches!(parse(b""), Err(GgufError::NotGguf)));
        let mut bytes = Gguf::new("llama").bytes();
        bytes[4..8].copy_from_slice(&3u32.to_be_bytes());
        assert!(matches!(parse(&bytes), Err(GgufError::BigEndian)));
        bytes[4..8].copy_from_slice(&9u32.to_le_bytes());
        assert!(matches!(parse(&bytes), Err(GgufError::Version { version: 9 })));
    }

    #[test]
    fn an_error_names_the_file_and_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cut.gguf");
        let whole = fs::read(asset("hob-tiny-f16.gguf")).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let error = Header::open(&path).unwrap_err().to_string();
        assert!(error.contains("cut.gguf") && error.contains("truncated"), "{error}");
        assert!(error.contains("fetch the file again"), "{error}");
        assert!(error.contains(&whole.len().to_string()), "{error}");

        let error = Header::open(Path::new("/no/such.gguf")).unwrap_err().to_string();
        assert!(error.contains("/no/such.gguf") && error.contains("hob models"), "{error}");
        assert!(Header::open(dir.path()).unwrap_err().to_string().contains("no regular file"));
    }

    fn parse(bytes: &[u8]) -> Result<Header, GgufError> {
        read(Bytes::new(bytes), bytes.len() as u64)
    }
}
