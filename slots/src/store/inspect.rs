//! Every file of a model's directory: its length, and whether it is whole.
//!
//! - Includes files that a listing leaves out: unreferenced objects and temporary files.
//! - Checking reads the whole file and moves nothing.

use std::path::PathBuf;

use super::error::{Miss, Rejected, StoreError, io_error};
use super::files::{Facts, Kind};
use super::layout::{ObjectName, parse_slot_name};
use super::reader::StoreReader;
use super::verified::read_object;
use super::write;
use crate::format::{Object, SlotRecord};
use crate::id::{BlockId, ConversationId, ModelHash};

/// A slot file or an object, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    pub model: ModelHash,
    pub path: PathBuf,
    pub bytes: u64,
    /// `None` for a slot file.
    pub object: Option<ObjectName>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    Slot(Box<SlotRecord>),
    Object(ObjectName),
}

impl StoreReader {
    /// The slot files of a model, then its objects, each by name.
    pub fn stored_files(&self, model: ModelHash) -> Result<Vec<StoredFile>, StoreError> {
        let mut files = Vec::new();
        let mut add = |path: PathBuf, object| {
            // Removed since the directory was read.
            if let Ok(Facts { kind: Kind::File, bytes, .. }) = self.files.stat(&path) {
                files.push(StoredFile { model, path, bytes, object });
            }
        };
        let dir = self.layout.model(model);
        let mut slots = write::list(&*self.files, &dir)?;
        slots.retain(|entry| entry.name.to_str().and_then(parse_slot_name).is_some());
        slots.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in slots {
            add(dir.join(entry.name), None);
        }
        let mut objects = self.object_files(model)?;
        objects.sort();
        for name in objects {
            add(self.layout.object(model, name), Some(name));
        }
        Ok(files)
    }

    /// Every possible path of a conversation's slot file.
    pub fn slot_paths(&self, model: ModelHash, conversation: &ConversationId) -> Vec<PathBuf> {
        let candidates = self.layout.slot_candidates(model, conversation);
        candidates.into_iter().map(|(path, _)| path).collect()
    }

    /// Bytes of a conversation's slot files, whether they can be read or not; `None` where there are none.
    pub fn slot_file_bytes(&self, model: ModelHash, conversation: &ConversationId) -> Option<u64> {
        let paths = self.slot_paths(model, conversation).into_iter();
        let found = paths.filter_map(|path| self.files.stat(&path).ok());
        let bytes = found.filter(|facts| facts.kind == Kind::File).map(|facts| facts.bytes);
        bytes.reduce(|sum, bytes| sum + bytes)
    }

    /// The path of an object's file, if it exists.
    pub fn object_path(&self, model: ModelHash, id: BlockId) -> PathBuf {
        self.layout.object(model, self.layout.object_name(id))
    }

    /// Verifies every byte of a file, and that its content matches its name.
    pub fn check(&self, file: &StoredFile) -> Result<Checked, Rejected> {
        let checked = match file.object {
            Some(name) => self.check_object(file, name).map(|()| Checked::Object(name)),
            None => self.check_slot(file).map(|record| Checked::Slot(Box::new(record))),
        };
        checked.map_err(|miss| Rejected { path: file.path.clone(), miss })
    }

    fn check_object(&self, file: &StoredFile, name: ObjectName) -> Result<(), Miss> {
        let object = match &self.layout.seal {
            Some(_) => Object::decode(self.read(&file.path)?)?,
            None => read_object(&*self.files.open(&file.path)?, Vec::new())?,
        };
        if object.model != file.model {
            return Err(Miss::OtherModel { expected: file.model, found: object.model });
        }
        if self.name(object.id()) == name {
            Ok(())
        } else {
            Err(Miss::Misnamed { found: format!("{:?} {}", object.kind, object.id()) })
        }
    }

    fn check_slot(&self, file: &StoredFile) -> Result<SlotRecord, Miss> {
        let (found, record) = SlotRecord::decode(&self.read(&file.path)?)?;
        let name = file.path.file_name().and_then(|name| name.to_str());
        let (stem, class) = name.and_then(parse_slot_name).expect("slot files are named so");
        if found != file.model {
            return Err(Miss::OtherModel { expected: file.model, found });
        }
        if self.layout.stem(&record.conversation) != stem {
            return Err(Miss::Misnamed { found: format!("conversation {}", record.conversation) });
        }
        Ok(SlotRecord { class, ..record })
    }

    /// Bytes of temporary files: of running writes, or of writers that died.
    pub fn temporary_bytes(&self, model: Option<ModelHash>) -> Result<u64, StoreError> {
        let dir = match model {
            Some(model) => self.layout.temporary(model),
            None => self.layout.root_temporary(),
        };
        let files = write::list(&*self.files, &dir)?;
        let bytes = files.iter().filter_map(|file| self.files.stat(&dir.join(&file.name)).ok());
        Ok(bytes.map(|facts| facts.bytes).sum())
    }

    /// The directory for other temporary files. The next owner empties it.
    pub fn temporary_dir(&self) -> PathBuf {
        self.layout.root_temporary()
    }

    /// Free bytes of the directory's disk.
    pub fn free_bytes(&self) -> Result<u64, StoreError> {
        let dir = &self.layout.root;
        self.files.free_bytes(dir).map_err(io_error("measure the free space of", dir))
    }
}
