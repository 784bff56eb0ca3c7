//! Phrases on disk: `voice/<hash of command and voice>/<hash of phrase>.wav`, and beside them
//! `name`, the voice's own.
//!
//! - Only the owner reads them. A file appears whole or not at all.
//! - What another command made, phrases that are no longer set, and what cannot be played are
//!   removed at the start. Nothing else is: a file of another name is not ours.
//! - Losing all of it costs a few synthesised phrases.

use std::fs::{self, DirBuilder, DirEntry, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use hob_prewarm::phrase::{PhraseId, VoiceName, VoicePhrase};
use hob_slots::Timestamp;
use sha2::{Digest, Sha256};

use super::command::VoiceCommand;
use super::wav;

const NAME: &str = "name";
const UNFINISHED: &str = ".writing-";
const HASH_DIGITS: usize = 16;

/// The largest file that is read: twice what a command may write, because 8 bits become 16.
const MOST_BYTES: u64 = 8 << 20;

/// What was found of one voice.
#[derive(Debug)]
pub struct FoundVoice {
    /// The voice.
    pub name: VoiceName,
    /// When a phrase of it was last made.
    pub made: Timestamp,
    /// Its phrases, in order.
    pub sounds: Vec<(PhraseId, Vec<u8>)>,
}

/// The directory.
#[derive(Debug)]
pub struct KeptPhrases {
    dir: PathBuf,
    command: String,
    files: Vec<String>,
}

impl KeptPhrases {
    /// The directory `voice` in `data_dir`, for what `command` makes of `phrases`.
    pub fn new(data_dir: &Path, command: &VoiceCommand, phrases: &[String]) -> Self {
        let words = std::iter::once(command.program());
        let words = words.chain(command.arguments().iter().map(String::as_str));
        Self {
            dir: data_dir.join("voice"),
            command: words.collect::<Vec<_>>().join("\0"),
            files: phrases.iter().map(|text| format!("{}.wav", hash(&[text]))).collect(),
        }
    }

    /// Reads what was made before, the latest voice first, and removes what is of no use.
    ///
    /// # Errors
    /// When the directory cannot be made or listed.
    pub fn open(&self) -> io::Result<Vec<FoundVoice>> {
        private_dir(&self.dir)?;
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

    /// Keeps a phrase.
    ///
    /// # Errors
    /// When it cannot be written; what was there before is still there.
    pub fn write(&self, spoken: &VoicePhrase, wav: &[u8]) -> io::Result<()> {
        let dir = self.dir_of(&spoken.0);
        private_dir(&dir)?;
        let name = dir.join(NAME);
        if !name.exists() {
            write_whole(&dir, &name, spoken.0.as_str().as_bytes())?;
        }
        write_whole(&dir, &self.path(spoken), wav)
    }

    /// Keeps a phrase no longer.
    pub fn remove(&self, spoken: &VoicePhrase) {
        if let Err(error) = fs::remove_file(self.path(spoken))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(voice = %spoken.0, %error, "a phrase could not be removed");
        }
    }

    fn dir_of(&self, voice: &VoiceName) -> PathBuf {
        self.dir.join(hash(&[&self.command, voice.as_str()]))
    }

    fn path(&self, (voice, id): &VoicePhrase) -> PathBuf {
        self.dir_of(voice).join(&self.files[id.0])
    }

    /// `None`: of another command, or no phrase of it is left.
    fn open_voice(&self, dir: &Path) -> Option<FoundVoice> {
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
        (!sounds.is_empty()).then_some(FoundVoice { name, made, sounds })
    }
}

/// The sound in a file, if it is one that this program would write.
fn playable(path: &Path) -> Option<Vec<u8>> {
    let bytes = read(path).ok()?;
    wav::checked(bytes.clone()).is_ok_and(|checked| checked == bytes).then_some(bytes)
}

/// No link is followed.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Removes the files that are ours, and the directory if nothing else is in it.
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
    hasher.finalize().iter().take(HASH_DIGITS / 2).map(|byte| format!("{byte:02x}")).collect()
}

fn private_dir(dir: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// Temporary files are made so that only their owner reads them.
fn write_whole(dir: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(dir)?;
    file.write_all(bytes)?;
    file.persist(path).map(drop).map_err(|error| error.error)
}
