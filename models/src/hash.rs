//! SHA-256 of a model's content, which names its KV wherever the file lies.
//!
//! - Reading gigabytes takes seconds, so a hash is remembered by path, size, time of change and
//!   file number, and read again when any of them differs.
//! - The cache is disposable: a damaged or missing one costs a second reading.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
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

/// How far the reading is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read so far.
    pub done_bytes: u64,
    /// Bytes to read.
    pub total_bytes: u64,
}

/// Reads the files and hashes them.
pub fn hash_files(
    files: &[PathBuf],
    progress: &mut dyn FnMut(Progress),
) -> io::Result<ContentHash> {
    let total_bytes =
        files.iter().map(|path| Ok(fs::metadata(path)?.len())).sum::<io::Result<_>>()?;
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

/// Hashes that were computed before, in one file of the data directory.
#[derive(Debug)]
pub struct HashCache {
    path: PathBuf,
}

type Remembered = BTreeMap<String, (Vec<Stamp>, String)>;

/// What a file looks like from outside. Equal stamps stand for equal content.
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

    /// The hash of these files, from the cache when none has changed. Failing to remember it is no
    /// error.
    pub fn hash(
        &self,
        files: &[PathBuf],
        progress: &mut dyn FnMut(Progress),
    ) -> io::Result<ContentHash> {
        let key = key(files);
        let before = stamps(files)?;
        if let Some(hash) = self.remembered(&key, &before) {
            return Ok(hash);
        }
        let hash = hash_files(files, progress)?;
        if stamps(files)? == before {
            let _ = self.remember(key, before, hash);
        }
        Ok(hash)
    }

    /// The hash of these files, if it is remembered and none has changed. Reads none of them.
    pub fn known(&self, files: &[PathBuf]) -> Option<ContentHash> {
        self.remembered(&key(files), &stamps(files).ok()?)
    }

    fn remembered(&self, key: &str, now: &[Stamp]) -> Option<ContentHash> {
        let known = self.load().remove(key).filter(|(stamps, _)| stamps == now);
        known.and_then(|(_, hash)| parse(&hash))
    }

    /// The first file of a model that had this content when it was hashed last.
    pub fn path_of(&self, hash: ContentHash) -> Option<PathBuf> {
        let text = hash.to_string();
        let mut remembered = self.load().into_iter();
        remembered.find(|(_, (_, known))| *known == text).map(|(path, _)| path.into())
    }

    fn load(&self) -> Remembered {
        let bytes = fs::read(&self.path).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    fn remember(&self, key: String, stamps: Vec<Stamp>, hash: ContentHash) -> io::Result<()> {
        let mut remembered = self.load();
        remembered.insert(key, (stamps, hash.to_string()));
        if let Some(dir) = self.path.parent() {
            fs::create_dir_all(dir)?;
        }
        let temporary = self.path.with_extension(format!("{}.tmp", process::id()));
        fs::write(&temporary, serde_json::to_vec(&remembered)?)?;
        fs::rename(&temporary, &self.path)
    }
}

/// The shards of a model lie side by side, so its first file names them all.
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
    Stamp { bytes: facts.len(), modified_ns, inode: inode(facts) }
}

#[cfg(unix)]
fn inode(facts: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(facts)
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
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
    fn an_unchanged_file_is_not_read_again() {
        let dir = Dir::new(&[("a", "ab")]);
        let first = dir.hash();
        assert_eq!(dir.hash(), (first.0, 0));
        assert_eq!(first.1, 2);
    }

    #[test]
    fn what_is_known_is_told_without_reading() {
        let dir = Dir::new(&[("a", "ab")]);
        let known = || HashCache::at(dir.0.path().join("cache.json")).known(&dir.files());
        assert_eq!(known(), None);
        let (hash, _) = dir.hash();
        assert_eq!(known(), Some(hash));
        fs::write(dir.0.path().join("a"), "abc").unwrap();
        assert_eq!(known(), None);
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
    fn a_damaged_cache_costs_a_second_reading() {
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

        /// The hash, and how many bytes were read for it.
        fn hash(&self) -> (ContentHash, u64) {
            let mut read = 0;
            let cache = HashCache::at(self.0.path().join("cache.json"));
            let hash = cache.hash(&self.files(), &mut |progress| read = progress.done_bytes);
            (hash.unwrap(), read)
        }
    }
}
