//! Marks of the conversations whose saved KV is in use, so that the next start knows what a crash
//! interrupted.
//!
//! - A mark is a small file, written before restored KV reaches llama.cpp and removed when its turn
//!   ends. It is not synced: it outlives a process, and a power cut only loses a count.
//! - The next start counts the marks that are left. After [`MAX_CRASHES`] crashes in a row the
//!   conversation's files go to quarantine, and its tokens are computed again.
//! - A process that was killed during an answer has not crashed. Without word of a crash, only
//!   marks of turns without a first token count.

use std::path::{Path, PathBuf};

use super::Store;
use super::error::{Miss, StoreError};
use super::files::{read_all, write_all};
use super::write;
use crate::id::{ConversationId, ModelHash};

/// Crashes in a row on one conversation after which its saved KV is given up.
pub const MAX_CRASHES: u32 = 3;

/// Longer than any mark.
const MARK_BYTES: u64 = 64;

/// How far a turn with restored KV is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseStage {
    /// llama.cpp gets the KV, and computes with it for the first time.
    Restoring,
    /// The first token was computed.
    Answering,
}

/// Crashes so far, and the stage of the turn that runs, if one does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    crashes: u32,
    stage: Option<UseStage>,
}

impl Store {
    /// Marks the conversation's saved KV as in use.
    pub fn mark_use(
        &self,
        model: ModelHash,
        conversation: &ConversationId,
        stage: UseStage,
    ) -> Result<(), StoreError> {
        let path = self.mark_path(model, conversation);
        let Mark { crashes, .. } = self.read_mark(&path);
        self.write_mark(&path, Mark { crashes, stage: Some(stage) })
    }

    /// The turn has ended, so its crashes are no longer in a row.
    pub fn unmark_use(
        &self,
        model: ModelHash,
        conversation: &ConversationId,
    ) -> Result<(), StoreError> {
        write::remove(&*self.files, &self.mark_path(model, conversation)).map(drop)
    }

    /// Counts the marks of the process before. `crashed`: it is known to have crashed. Returns the
    /// conversations whose files were moved to quarantine.
    pub fn count_crashes(
        &self,
        model: ModelHash,
        crashed: bool,
    ) -> Result<Vec<ConversationId>, StoreError> {
        let dir = self.layout.crash_marks(model);
        let mut given_up = Vec::new();
        for entry in write::list(&*self.files, &dir)? {
            let path = dir.join(&entry.name);
            let mut mark = self.read_mark(&path);
            mark.crashes += match mark.stage.take() {
                Some(UseStage::Restoring) => 1,
                Some(UseStage::Answering) => u32::from(crashed),
                None => 0,
            };
            if mark.crashes >= MAX_CRASHES {
                given_up.push(path);
            } else {
                self.write_mark(&path, mark)?;
            }
        }
        let mut quarantined = Vec::new();
        if !given_up.is_empty() {
            for saved in self.contents(model)?.slots {
                let conversation = saved.entry.conversation;
                if given_up.contains(&self.mark_path(model, &conversation)) {
                    let objects = saved.objects.iter().map(|(id, _)| self.layout.object_name(*id));
                    let objects = objects.map(|name| self.layout.object(model, name));
                    self.give_up(model, objects.chain([saved.entry.path]))?;
                    quarantined.push(conversation);
                }
            }
        }
        // Last: a crash before this gives them up at the next start.
        for path in given_up {
            write::remove(&*self.files, &path)?;
        }
        Ok(quarantined)
    }

    /// Moves files to quarantine. Conversations that share an object lose it too: it may be the one
    /// that ends the process.
    fn give_up(
        &self,
        model: ModelHash,
        files: impl Iterator<Item = PathBuf>,
    ) -> Result<(), StoreError> {
        for path in files.filter(|path| self.files.stat(path).is_ok()) {
            self.quarantine(model, &path, &Miss::Crashed { times: MAX_CRASHES })?;
        }
        Ok(())
    }

    fn mark_path(&self, model: ModelHash, conversation: &ConversationId) -> PathBuf {
        self.layout.crash_marks(model).join(self.layout.stem(conversation))
    }

    /// The default, if there is none or if it is damaged.
    fn read_mark(&self, path: &Path) -> Mark {
        let file = self.files.open(path).and_then(|file| read_all(&*file, MARK_BYTES));
        let text = file.ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        Mark::of(&text).unwrap_or_default()
    }

    fn write_mark(&self, path: &Path, mark: Mark) -> Result<(), StoreError> {
        let dir = path.parent().expect("a mark is in a directory");
        write::remove(&*self.files, path)?;
        write::or_after_making(&*self.files, dir, || {
            write_all(&mut *self.files.create(path)?, mark.to_string().as_bytes())
        })
    }
}

impl Mark {
    fn of(text: &str) -> Option<Self> {
        let (crashes, stage) = text.trim().split_once(' ')?;
        let stage = match stage {
            "restoring" => Some(UseStage::Restoring),
            "answering" => Some(UseStage::Answering),
            "idle" => None,
            _ => return None,
        };
        Some(Self { crashes: crashes.parse().ok()?, stage })
    }
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let stage = match self.stage {
            Some(UseStage::Restoring) => "restoring",
            Some(UseStage::Answering) => "answering",
            None => "idle",
        };
        writeln!(f, "{} {stage}", self.crashes)
    }
}
