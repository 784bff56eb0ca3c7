//! A conversation and its KV in one file.
//!
//! - A tar archive: `conversation.json`, then, where KV is kept, `slots/bundle.tar`, which is what
//!   `hob slots export` writes and can be taken in by itself.
//! - Nothing is unpacked to a path of the archive's choosing. The text is bounded; the bundle is
//!   verified by whoever takes it in.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use serde_json::Value;
use tar::{Archive, Builder, EntryType, Header};

const TEXT: &str = "conversation.json";
const BUNDLE: &str = "slots/bundle.tar";

/// Why an archive is of no use.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// Its content is not what an export of Hob has.
    #[error("this archive cannot be read: {0}")]
    Malformed(String),
    /// The disk failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes both; `bundle` is read from its beginning.
///
/// # Errors
/// When the disk fails.
pub fn write(text: &Value, bundle: Option<&File>, out: impl Write) -> io::Result<()> {
    let mut archive = Builder::new(out);
    let text = text.to_string();
    archive.append(&header(TEXT, text.len() as u64)?, text.as_bytes())?;
    if let Some(mut bundle) = bundle {
        bundle.rewind()?;
        archive.append(&header(BUNDLE, bundle.metadata()?.len())?, bundle)?;
    }
    archive.into_inner()?.flush()
}

fn header(name: &str, bytes: u64) -> io::Result<Header> {
    // GNU's own, whose sizes have no bound of 8 GiB.
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_path(name)?;
    header.set_size(bytes);
    header.set_mode(0o600);
    header.set_cksum();
    Ok(header)
}

/// What an archive holds.
#[derive(Debug)]
pub struct Content {
    /// The text, not looked at yet.
    pub text: Value,
    /// Where the bundle is in the file, and how long it is.
    pub bundle: Option<(u64, u64)>,
}

/// Reads the text, of `most_bytes` at most, and finds the bundle.
///
/// # Errors
/// When it is something else.
pub fn read(mut file: &File, most_bytes: u64) -> Result<Content, ArchiveError> {
    file.rewind()?;
    let length = file.metadata()?.len();
    let mut archive = Archive::new(file);
    let (mut text, mut bundle) = (None, None);
    // Raw: names and links that other entries stand for are not interpreted, and so refused.
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry.map_err(not_tar)?;
        if entry.header().entry_type() != EntryType::Regular {
            return Err(malformed("it has an entry that is no plain file"));
        }
        let (name, bytes) = (entry.path_bytes().into_owned(), entry.size());
        match &name[..] {
            name if name == TEXT.as_bytes() && text.is_none() => {
                if bytes > most_bytes.min(length) {
                    return Err(malformed(&format!("its {TEXT} has more than {most_bytes} bytes")));
                }
                let mut json = Vec::new();
                entry.read_to_end(&mut json).map_err(not_tar)?;
                let json = serde_json::from_slice(&json)
                    .map_err(|error| malformed(&format!("its {TEXT} is not JSON: {error}")))?;
                text = Some(json);
            }
            name if name == BUNDLE.as_bytes() && bundle.is_none() && text.is_some() => {
                let begins = entry.raw_file_position();
                if begins.checked_add(bytes).is_none_or(|ends| ends > length) {
                    return Err(malformed("it is cut short"));
                }
                bundle = Some((begins, bytes));
            }
            _ => return Err(malformed("it has an entry that an export of Hob has not")),
        }
    }
    let text = text.ok_or_else(|| malformed(&format!("it has no {TEXT}")))?;
    Ok(Content { text, bundle })
}

/// Copies the bundle to `to`.
///
/// # Errors
/// When the disk fails.
pub fn extract(mut file: &File, bundle: (u64, u64), mut to: &File) -> io::Result<()> {
    let (begins, bytes) = bundle;
    file.seek(SeekFrom::Start(begins))?;
    io::copy(&mut file.take(bytes), &mut to)?;
    to.rewind()
}

/// What the system says is a failure of the disk; anything else is about the bytes.
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
    fn text_and_bundle_come_back() {
        let mut bundle = tempfile::tempfile().unwrap();
        bundle.write_all(b"a bundle").unwrap();
        let text = json!({"id": "a"});
        let whole = tempfile::tempfile().unwrap();
        write(&text, Some(&bundle), &whole).unwrap();
        let content = read(&whole, 100).unwrap();
        assert_eq!(content.text, text);
        let mut to = tempfile::tempfile().unwrap();
        extract(&whole, content.bundle.unwrap(), &to).unwrap();
        let mut read_back = String::new();
        to.read_to_string(&mut read_back).unwrap();
        assert_eq!(read_back, "a bundle");

        let alone = tempfile::tempfile().unwrap();
        write(&text, None, &alone).unwrap();
        assert_eq!(read(&alone, 100).unwrap().bundle, None);
    }

    #[test]
    fn whatever_else_an_archive_has_is_refused() {
        use EntryType::{Regular, Symlink};
        let json: &[u8] = b"{}";
        for entries in [
            &[][..],
            &[(BUNDLE, Regular, json)],
            &[(BUNDLE, Regular, json), (TEXT, Regular, json)],
            &[(TEXT, Symlink, json)],
            &[(TEXT, Regular, b"no JSON")],
            &[(TEXT, Regular, json), (TEXT, Regular, json)],
            &[(TEXT, Regular, json), ("elsewhere", Regular, json)],
            &[(TEXT, Regular, &[b' '; 200])],
        ] {
            assert!(matches!(read(&archive(entries), 100), Err(ArchiveError::Malformed(_))));
        }
        let whole = archive(&[(TEXT, Regular, json), (BUNDLE, Regular, &[1; 4000])]);
        whole.set_len(2048 + 100).unwrap();
        assert!(read(&whole, 100).is_err(), "cut short");
    }
}
