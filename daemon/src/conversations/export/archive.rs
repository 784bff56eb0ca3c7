//! A conversation and its KV in one tar file.
//!
//! - `conversation.json`, then, if KV is saved, `slots/bundle.tar`: what `hob slots export` writes,
//!   and `hob slots import` reads.
//! - Nothing is unpacked to a path of the archive's choosing. The length of the text is bounded; the
//!   importer verifies the KV.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;

use serde_json::Value;
use tar::{Archive, Builder, EntryType, Header};

use crate::conversations::foreign::{Counted, MAX_VALUES};

const TEXT: &str = "conversation.json";
const KV: &str = "slots/bundle.tar";

#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// Hob's exports have other entries, or other content in them.
    #[error("this archive cannot be read: {0}")]
    Malformed(String),
    /// Its text has more than that.
    #[error("the text of this archive has more than {0}")]
    TooLarge(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes the text and the whole file `kv`.
///
/// # Errors
/// When the disk fails.
pub fn write(text: &Value, kv: Option<&File>, out: impl Write) -> io::Result<()> {
    let mut archive = Builder::new(out);
    let text = text.to_string();
    archive.append(&header(TEXT, text.len() as u64)?, text.as_bytes())?;
    if let Some(mut kv) = kv {
        kv.rewind()?;
        archive.append(&header(KV, kv.metadata()?.len())?, kv)?;
    }
    archive.into_inner()?.flush()
}

fn header(name: &str, bytes: u64) -> io::Result<Header> {
    // The GNU format has sizes beyond 8 GiB.
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_path(name)?;
    header.set_size(bytes);
    header.set_mode(0o600);
    header.set_cksum();
    Ok(header)
}

#[derive(Debug)]
pub struct Content {
    /// Not checked yet.
    pub text: Value,
    /// The bytes of the file that are the KV.
    pub kv: Option<Range<u64>>,
}

/// Reads the text, of `max_text_bytes` at most, and finds the KV.
///
/// # Errors
/// When the file is no archive of a conversation, or the disk fails.
pub fn read(mut file: &File, max_text_bytes: u64) -> Result<Content, ArchiveError> {
    file.rewind()?;
    let length = file.metadata()?.len();
    let mut archive = Archive::new(file);
    let (mut text, mut kv) = (None, None);
    // Raw: extensions that rename the next entry are not interpreted, and so refused.
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry.map_err(not_tar)?;
        if entry.header().entry_type() != EntryType::Regular {
            return Err(malformed("it has an entry that is no plain file"));
        }
        let (name, bytes) = (entry.path_bytes().into_owned(), entry.size());
        match &name[..] {
            name if name == TEXT.as_bytes() && text.is_none() => {
                if bytes > max_text_bytes {
                    return Err(ArchiveError::TooLarge(format!("{max_text_bytes} bytes")));
                }
                if bytes > length {
                    return Err(malformed("it is cut short"));
                }
                let mut json = Counted::new(&mut entry, 0, false);
                let read = serde_json::from_reader::<_, Value>(BufReader::new(&mut json));
                if json.into_parts().1 > MAX_VALUES {
                    return Err(ArchiveError::TooLarge(format!("{MAX_VALUES} values of JSON")));
                }
                text = Some(read.map_err(not_json)?);
            }
            name if name == KV.as_bytes() && kv.is_none() && text.is_some() => {
                let start = entry.raw_file_position();
                let end = start.checked_add(bytes).filter(|end| *end <= length);
                kv = Some(start..end.ok_or_else(|| malformed("it is cut short"))?);
            }
            _ => return Err(malformed("it has an entry that an export of Hob has not")),
        }
    }
    let text = text.ok_or_else(|| malformed(&format!("it has no {TEXT}")))?;
    Ok(Content { text, kv })
}

/// Copies the bytes `range` of `file` to `to`.
///
/// # Errors
/// When the disk fails.
pub fn extract(mut file: &File, range: Range<u64>, mut to: &File) -> io::Result<()> {
    file.seek(SeekFrom::Start(range.start))?;
    io::copy(&mut file.take(range.end - range.start), &mut to)?;
    to.rewind()
}

fn not_json(error: serde_json::Error) -> ArchiveError {
    if error.is_io() {
        return not_tar(error.into());
    }
    malformed(&format!("its {TEXT} is not JSON: {error}"))
}

/// An error with the system's number is one of the disk; others are about the archive's bytes.
fn not_tar(error: io::Error) -> ArchiveError {
    match error.raw_os_error() {
        Some(_) => error.into(),
        None => malformed(&error.to_string()),
    }
}

fn malformed(what: &str) -> ArchiveError {
    ArchiveError::Malformed(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn archive(entries: &[(&str, EntryType, &[u8])]) -> File {
        let mut builder = Builder::new(tempfile::tempfile().unwrap());
        for (name, kind, bytes) in entries {
            let mut header = header(name, bytes.len() as u64).unwrap();
            header.set_entry_type(*kind);
            header.set_cksum();
            builder.append(&header, *bytes).unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn text_and_kv_are_read_back() {
        let mut kv = tempfile::tempfile().unwrap();
        kv.write_all(b"some kv").unwrap();
        let text = json!({"id": "a"});
        let whole = tempfile::tempfile().unwrap();
        write(&text, Some(&kv), &whole).unwrap();
        let content = read(&whole, 100).unwrap();
        assert_eq!(content.text, text);
        let mut to = tempfile::tempfile().unwrap();
        extract(&whole, content.kv.unwrap(), &to).unwrap();
        let mut read_back = String::new();
        to.read_to_string(&mut read_back).unwrap();
        assert_eq!(read_back, "some kv");

        let alone = tempfile::tempfile().unwrap();
        write(&text, None, &alone).unwrap();
        assert_eq!(read(&alone, 100).unwrap().kv, None);
    }

    #[test]
    fn an_archive_with_other_entries_is_refused() {
        use EntryType::{Regular, Symlink};
        let json: &[u8] = b"{}";
        for entries in [
            &[][..],
            &[(KV, Regular, json)],
            &[(KV, Regular, json), (TEXT, Regular, json)],
            &[(TEXT, Symlink, json)],
            &[(TEXT, Regular, b"no JSON")],
            &[(TEXT, Regular, json), (TEXT, Regular, json)],
            &[(TEXT, Regular, json), ("elsewhere", Regular, json)],
        ] {
            assert!(matches!(read(&archive(entries), 100), Err(ArchiveError::Malformed(_))));
        }
        let long = archive(&[(TEXT, Regular, &[b' '; 200])]);
        assert!(matches!(read(&long, 100), Err(ArchiveError::TooLarge(_))));
        let whole = archive(&[(TEXT, Regular, json), (KV, Regular, &[1; 4000])]);
        whole.set_len(2048 + 100).unwrap();
        assert!(read(&whole, 100).is_err(), "cut short");
    }
}
