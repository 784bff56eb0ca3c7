//! Synthesised phrases on disk: `voice/<hash of command and voice>/<hash of phrase>.wav`, beside
//! `name`, the name of the voice.
//!
//! - Only the owner can read the files. A file is written completely or not at all.
//! - The start removes phrases of another command, phrases that are no longer configured, and damaged
//!   ones. Files with other names stay.
//! - Losing the cache costs synthesising the phrases again.

use std::fs::{self, DirEntry, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use hob_prewarm::phrase::{PhraseId, VoiceName, VoicePhrase};
use hob_slots::{Timestamp, hex_text};

use crate::private_dir;
use sha2::{Digest, Sha256};

use super::command::VoiceCommand;
use super::wav;

const NAME: &str = "name";
const UNFINISHED: &str = ".writing-";
const HASH_DIGITS: usize = 16;

/// Twice the output limit of the command, because 8-bit samples become 16-bit ones.
const MAX_BYTES: u64 = 8 << 20;

#[derive(Debug)]
pub struct CachedVoice {
    pub name: VoiceName,
    /// The time of its latest phrase.
    pub made: Timestamp,
    pub sounds: Vec<(PhraseId, Vec<u8>)>,
}

#[derive(Debug)]
pub struct PhraseCache {
    dir: PathBuf,
    command: String,
    files: Vec<String>,
}

impl PhraseCache {
    /// Uses the directory `voice` in `data_dir`.
    pub fn new(data_dir: &Path, command: &VoiceCommand, phrases: &[String]) -> Self {
        let words = std::iter::once(command.program());
        let words = words.chain(command.arguments().iter().map(String::as_str));
        Self {
            dir: data_dir.join("voice"),
            command: words.collect::<Vec<_>>().join("\0"),
            files: phrases.iter().map(|text| format!("{}.wav", hash(&[text]))).collect(),
        }
    }

    /// Reads the phrases, the latest voice first, and removes stale and damaged ones.
    ///
    /// # Errors
    /// When the directory cannot be created or listed.
    pub fn open(&self) -> io::Result<Vec<CachedVoice>> {
        private_dir::create(&self.dir)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir)?.flatten() {
            if !is_hash(&entry.file_name().to_string_lossy()) || !is_dir(&entry) {
                continue;
            }
            match self.open_voice(&entry.path()) {
                Some(voice) => found.push(voice),
                None => remove_voice(&entry.path()),
            }
        }
        found.sort_by(|a, b| b.made.cmp(&a.made).then_with(|| a.name.cmp(&b.name)));
        Ok(found)
    }

    /// # Errors
    /// When the file cannot be written; the old one stays.
    pub fn write(&self, phrase: &VoicePhrase, wav: &[u8]) -> io::Result<()> {
        let dir = self.dir_of(&phrase.0);
        private_dir::create(&dir)?;
        let name = dir.join(NAME);
        if !name.exists() {
            write_whole(&dir, &name, phrase.0.as_str().as_bytes())?;
        }
        write_whole(&dir, &self.path(phrase), wav)
    }

    pub fn remove(&self, phrase: &VoicePhrase) {
        if let Err(error) = fs::remove_file(self.path(phrase))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(voice = %phrase.0, %error, "a phrase could not be removed");
        }
    }

    fn dir_of(&self, voice: &VoiceName) -> PathBuf {
        self.dir.join(hash(&[&self.command, voice.as_str()]))
    }

    fn path(&self, (voice, id): &VoicePhrase) -> PathBuf {
        self.dir_of(voice).join(&self.files[id.0])
    }

    /// `None`: the voice of another command, or one without phrases.
    fn open_voice(&self, dir: &Path) -> Option<CachedVoice> {
        let name = read(&dir.join(NAME)).ok()?;
        let name: VoiceName = String::from_utf8(name).ok()?.parse().ok()?;
        if self.dir_of(&name) != dir {
            return None;
        }
        let (mut sounds, mut made) = (Vec::new(), Timestamp(0));
        for entry in fs::read_dir(dir).ok()?.flatten() {
            let (path, file) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if file.starts_with(UNFINISHED) {
                let _ = fs::remove_file(&path);
            }
            let Some(stem) = file.strip_suffix(".wav").filter(|stem| is_hash(stem)) else {
                continue;
            };
            let id = self.files.iter().position(|known| known.strip_suffix(".wav") == Some(stem));
            let sound = id.and_then(|id| Some((PhraseId(id), playable(&path)?)));
            let Some(sound) = sound else {
                let _ = fs::remove_file(&path);
                continue;
            };
            sounds.push(sound);
            let modified = entry.metadata().and_then(|data| data.modified());
            made = made.max(modified.map(Timestamp::from).unwrap_or_default());
        }
        sounds.sort_by_key(|(id, _)| *id);
        (!sounds.is_empty()).then_some(CachedVoice { name, made, sounds })
    }
}

/// The content of a file that [`wav::checked`] would write in the same way.
fn playable(path: &Path) -> Option<Vec<u8>> {
    let bytes = read(path).ok()?;
    wav::checked(bytes.clone()).is_ok_and(|checked| checked == bytes).then_some(bytes)
}

/// Follows no links.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Removes our files, and the directory if it is empty then.
fn remove_voice(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        if file == NAME
            || file.starts_with(UNFINISHED)
            || file.strip_suffix(".wav").is_some_and(is_hash)
        {
            let _ = fs::remove_file(entry.path());
        }
    }
    let _ = fs::remove_dir(dir);
}

fn is_dir(entry: &DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_dir())
}

fn is_hash(name: &str) -> bool {
    name.len() == HASH_DIGITS
        && name.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn hash(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hex_text(&hasher.finalize()[..HASH_DIGITS / 2])
}

/// Temporary files have mode 0600.
fn write_whole(dir: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(dir)?;
    file.write_all(bytes)?;
    file.persist(path).map(drop).map_err(|error| error.error)
}
