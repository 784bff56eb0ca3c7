//! SHA-256 of a model's content, which identifies its KV whatever the path of the file.
//!
//! - Reading gigabytes takes seconds, so [`HashCache`] stores a hash with path, size, modification
//!   time and inode, and reads the file again when any of them differs.
//! - The cache is disposable: a damaged or missing one costs a second read.
//! - Only regular files are read: opening a pipe waits for a writer, and a device may have no end.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;
use std::{fmt, process};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// SHA-256 of all bytes of a model's files, in the order of its shards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub [u8; 32]);

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({self})")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub done_bytes: u64,
    pub total_bytes: u64,
}

/// # Errors
/// When a file cannot be read, or is no regular file.
pub fn hash_files(
    files: &[PathBuf],
    progress: &mut dyn FnMut(Progress),
) -> io::Result<ContentHash> {
    let total_bytes = files.iter().map(|path| Ok(facts_of(path)?.len())).sum::<io::Result<_>>()?;
    let mut done_bytes = 0;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    progress(Progress { done_bytes, total_bytes });
    for path in files {
        let mut file = File::open(path)?;
        loop {
            let len = match file.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if len == 0 {
                break;
            }
            digest.update(&buffer[..len]);
            done_bytes += len as u64;
            progress(Progress { done_bytes, total_bytes });
        }
    }
    Ok(ContentHash(digest.finalize().into()))
}

fn facts_of(path: &Path) -> io::Result<Metadata> {
    let facts = fs::metadata(path)?;
    if facts.is_file() {
        Ok(facts)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"))
    }
}

/// The hashes computed so far, in one file of the data directory.
#[derive(Debug)]
pub struct HashCache {
    path: PathBuf,
}

type Entries = BTreeMap<String, (Vec<Stamp>, String)>;

/// Metadata of a file. Equal stamps stand for equal content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    bytes: u64,
    modified_ns: u64,
    inode: u64,
}

impl HashCache {
    /// The cache in the file at `path`, which need not exist.
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// The hash of these files, from the cache when none has changed. A failure to write the cache
    /// is not an error.
    pub fn hash(
        &self,
        files: &[PathBuf],
        progress: &mut dyn FnMut(Progress),
    ) -> io::Result<ContentHash> {
        let key = key(files);
        let before = stamps(files)?;
        if let Some(hash) = self.lookup(&key, &before) {
            return Ok(hash);
        }
        let hash = hash_files(files, progress)?;
        if stamps(files)? == before {
            let _ = self.store(key, before, hash);
        }
        Ok(hash)
    }

    /// The cached hash of these files, if none has changed. Reads no model file.
    pub fn cached(&self, files: &[PathBuf]) -> Option<ContentHash> {
        self.lookup(&key(files), &stamps(files).ok()?)
    }

    fn lookup(&self, key: &str, now: &[Stamp]) -> Option<ContentHash> {
        let entry = self.load().remove(key).filter(|(stamps, _)| stamps == now);
        entry.and_then(|(_, hash)| parse(&hash))
    }

    /// The first file of a model that had this content when it was last hashed.
    pub fn path_of(&self, hash: ContentHash) -> Option<PathBuf> {
        let text = hash.to_string();
        let mut entries = self.load().into_iter();
        entries.find(|(_, (_, hash))| *hash == text).map(|(path, _)| path.into())
    }

    fn load(&self) -> Entries {
        let bytes = fs::read(&self.path).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    fn store(&self, key: String, stamps: Vec<Stamp>, hash: ContentHash) -> io::Result<()> {
        let _changes = changes();
        let mut entries = self.load();
        entries.insert(key, (stamps, hash.to_string()));
        replace_file(&self.path, &serde_json::to_vec(&entries)?)
    }
}

/// Held from the read of a cache to its replacement: otherwise the later of two threads writes what it has read
/// before, without the entry of the other.
pub(crate) fn changes() -> MutexGuard<'static, ()> {
    static CHANGES: Mutex<()> = Mutex::new(());
    CHANGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a file, and its directory where that is missing. Readers see the old or the new bytes, also of two threads
/// that write. A failure leaves no temporary file.
pub(crate) fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{number}.tmp", process::id()));
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary); // An error: it was not created.
    }
    written
}

/// The shards of a model are in one directory, so its first file identifies them all.
fn key(files: &[PathBuf]) -> String {
    let first = files.first().map_or(Path::new(""), PathBuf::as_path);
    fs::canonicalize(first).unwrap_or_else(|_| first.to_owned()).to_string_lossy().into_owned()
}

fn stamps(files: &[PathBuf]) -> io::Result<Vec<Stamp>> {
    files.iter().map(|path| fs::metadata(path).map(|facts| stamp(&facts))).collect()
}

fn stamp(facts: &Metadata) -> Stamp {
    let modified = facts.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let modified_ns = modified.map_or(0, |time| time.as_nanos() as u64);
    Stamp { bytes: facts.len(), modified_ns, inode: facts.ino() }
}

fn parse(text: &str) -> Option<ContentHash> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(ContentHash(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_shards_in_order() {
        let dir = Dir::new(&[("a", "ab"), ("b", "c")]);
        let hash = hash_files(&dir.files(), &mut |_| {}).unwrap();
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), abc);
        assert_eq!(parse(abc), Some(hash));
    }

    #[test]
    fn what_is_no_regular_file_is_refused_and_not_read() {
        let dir = Dir::new(&[]);
        let pipe = dir.0.path().join("pipe");
        assert!(process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [pipe, "/dev/zero".into()] {
            let cache = HashCache::at(dir.0.path().join("cache.json"));
            let error = cache.hash(&[path], &mut |_| {}).unwrap_err();
            assert_eq!(error.to_string(), "it is no regular file");
        }
    }

    #[test]
    fn an_unchanged_file_is_not_read_again() {
        let dir = Dir::new(&[("a", "ab")]);
        let first = dir.hash();
        assert_eq!(dir.hash(), (first.0, 0));
        assert_eq!(first.1, 2);
    }

    #[test]
    fn a_cached_hash_is_returned_without_reading() {
        let dir = Dir::new(&[("a", "ab")]);
        let cached = || HashCache::at(dir.0.path().join("cache.json")).cached(&dir.files());
        assert_eq!(cached(), None);
        let (hash, _) = dir.hash();
        assert_eq!(cached(), Some(hash));
        fs::write(dir.0.path().join("a"), "abc").unwrap();
        assert_eq!(cached(), None);
    }

    #[test]
    fn a_changed_file_is_read_again() {
        let dir = Dir::new(&[("a", "ab")]);
        let first = dir.hash();
        fs::write(dir.0.path().join("a"), "abc").unwrap();
        let second = dir.hash();
        assert_ne!(first.0, second.0);
        assert_eq!(second.1, 3);
    }

    #[test]
    fn a_damaged_cache_costs_a_second_read() {
        let dir = Dir::new(&[("a", "ab")]);
        let first = dir.hash();
        fs::write(dir.0.path().join("cache.json"), "{").unwrap();
        assert_eq!(dir.hash(), first);
        assert_eq!(dir.hash().1, 0);
    }

    struct Dir(tempfile::TempDir, Vec<&'static str>);

    impl Dir {
        fn new(files: &[(&'static str, &str)]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            for (name, text) in files {
                fs::write(dir.path().join(name), text).unwrap();
            }
            Self(dir, files.iter().map(|(name, _)| *name).collect())
        }

        fn files(&self) -> Vec<PathBuf> {
            self.1.iter().map(|name| self.0.path().join(name)).collect()
        }

        /// The hash, and the bytes read for it.
        fn hash(&self) -> (ContentHash, u64) {
            let mut read = 0;
            let cache = HashCache::at(self.0.path().join("cache.json"));
            let hash = cache.hash(&self.files(), &mut |progress| read = progress.done_bytes);
            (hash.unwrap(), read)
        }
    }
}
