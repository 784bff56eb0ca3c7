//! Damaged files and the reasons.
//!
//! - No reader can ever use them. The newest [`MAX_BYTES`] stay for people who want to know what
//!   happened.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::Store;
use super::error::{Miss, StoreError, io_error};
use super::files::{Facts, Kind, read_all, write_all};
use super::reader::StoreReader;
use super::write;
use crate::format::SlotRecord;
use crate::id::{BlockId, ConversationId, ModelHash};

/// Bytes of a model's quarantine after a sweep.
pub const MAX_BYTES: u64 = 256 << 20;

/// The maximum length of a reason.
const REASON_BYTES: u64 = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    pub model: ModelHash,
    pub path: PathBuf,
    pub bytes: u64,
    pub written: SystemTime,
    /// `None` when unknown.
    pub since: Option<SystemTime>,
    pub reason: String,
}

impl StoreReader {
    /// The quarantined files of a model, the newest first.
    pub fn quarantined(&self, model: ModelHash) -> Result<Vec<Quarantined>, StoreError> {
        let dir = self.layout.quarantine(model);
        let mut found = Vec::new();
        for entry in write::list(&*self.files, &dir)? {
            let path = dir.join(&entry.name);
            if entry.kind != Kind::File || path.extension().is_some_and(|end| end == "txt") {
                continue;
            }
            let Ok(Facts { bytes, modified, .. }) = self.files.stat(&path) else { continue };
            let reason = self.reason(&path).unwrap_or("no reason was written down".into());
            let since = self.files.stat(&reason_of(&path)).ok().map(|facts| facts.modified);
            found.push(Quarantined { model, path, bytes, written: modified, since, reason });
        }
        found.sort_by(|a, b| b.written.cmp(&a.written).then_with(|| a.path.cmp(&b.path)));
        Ok(found)
    }

    /// Why a conversation's slot file was rejected.
    pub fn rejected(&self, model: ModelHash, conversation: &ConversationId) -> Option<String> {
        let dir = self.layout.quarantine(model);
        let names = self.layout.slot_candidates(model, conversation).into_iter();
        let mut moved = names.filter_map(|(path, _)| Some(dir.join(path.file_name()?)));
        moved.find_map(|path| self.reason(&path))
    }

    /// The note beside a quarantined file.
    fn reason(&self, path: &Path) -> Option<String> {
        let file = self.files.open(&reason_of(path)).ok()?;
        let reason = read_all(&*file, REASON_BYTES).ok()?;
        Some(String::from_utf8_lossy(&reason).trim().to_owned())
    }
}

impl Store {
    /// Moves a file to quarantine and writes the reason beside it.
    pub(super) fn quarantine(
        &self,
        model: ModelHash,
        path: &Path,
        miss: &Miss,
    ) -> Result<(), StoreError> {
        let dir = self.layout.quarantine(model);
        write::ensure_dir(&*self.files, &dir)?;
        let moved = dir.join(path.file_name().expect("a rejected file has a name"));
        self.files.rename(path, &moved).map_err(io_error("move", path))?;
        let reason = reason_of(&moved);
        write::remove(&*self.files, &reason)?;
        let written = self
            .files
            .create(&reason)
            .and_then(|mut file| write_all(&mut *file, format!("{miss}\n").as_bytes()));
        written.map_err(io_error("write", &reason))
    }

    /// Removes the oldest files beyond `max_bytes`, usually [`MAX_BYTES`]. Returns the bytes freed.
    pub fn trim_quarantine(&self, model: ModelHash, max_bytes: u64) -> Result<u64, StoreError> {
        let (mut kept, mut freed) = (0, 0);
        for file in self.quarantined(model)? {
            kept += file.bytes;
            if kept > max_bytes {
                freed += self.remove_quarantined(&file)?;
            }
        }
        Ok(freed)
    }

    /// Empties the quarantine of a model. Returns the number of files and their bytes.
    pub fn empty_quarantine(&self, model: ModelHash) -> Result<(usize, u64), StoreError> {
        let files = self.quarantined(model)?;
        let mut freed = 0;
        for file in &files {
            freed += self.remove_quarantined(file)?;
        }
        Ok((files.len(), freed))
    }

    /// Removes the slot files of a conversation from quarantine, and the objects in `named` and those that its slot
    /// files there name.
    pub fn forget_quarantined(
        &self,
        model: ModelHash,
        conversation: &ConversationId,
        named: &BTreeSet<BlockId>,
    ) -> Result<(), StoreError> {
        let dir = self.layout.quarantine(model);
        let entries = write::list(&*self.files, &dir)?.into_iter();
        let there: HashSet<OsString> = entries.map(|entry| entry.name).collect();
        if there.is_empty() {
            return Ok(());
        }
        let quarantined = |path: PathBuf| Some(path.file_name()?.to_owned());
        let is_there = |name: &OsString| there.contains(name);
        let candidates = self.layout.slot_candidates(model, conversation).into_iter();
        let slots: Vec<OsString> =
            candidates.filter_map(|(path, _)| quarantined(path)).filter(is_there).collect();
        let mut ids = named.clone();
        for slot in &slots {
            ids.extend(self.named_in_quarantine(&dir.join(slot), conversation));
        }
        let paths = ids.iter().map(|&id| self.layout.object(model, self.name(id)));
        let objects = paths.filter_map(quarantined).filter(is_there);
        // Slot files last: after a crash they still tell which objects go with them.
        for name in objects.chain(slots.iter().cloned()) {
            let path = dir.join(name);
            write::remove(&*self.files, &reason_of(&path))?;
            write::remove(&*self.files, &path)?;
        }
        Ok(())
    }

    /// The objects of a slot file that is whole: crashes have condemned it.
    fn named_in_quarantine(&self, slot: &Path, conversation: &ConversationId) -> Vec<BlockId> {
        let decoded = self.read(slot).ok().and_then(|file| SlotRecord::decode(&file).ok());
        let record =
            decoded.map(|(_, record)| record).filter(|record| record.conversation == *conversation);
        record.iter().flat_map(SlotRecord::objects).map(|(id, _)| id).collect()
    }

    pub(super) fn remove_quarantined(&self, file: &Quarantined) -> Result<u64, StoreError> {
        write::remove(&*self.files, &reason_of(&file.path))?;
        write::remove(&*self.files, &file.path)?;
        Ok(file.bytes)
    }
}

fn reason_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".txt");
    name.into()
}
