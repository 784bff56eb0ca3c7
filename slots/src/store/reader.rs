//! Reading the directory, beside its owner or as it.
//!
//! An object is read at once into one buffer, verified there, and handed out in that buffer.

use std::fs;
use std::path::PathBuf;

use super::error::{Miss, Rejected, StoreError, io_error};
use super::layout::Layout;
use crate::fingerprint::Fingerprint;
use crate::format::{FormatError, Object, ObjectKind, SlotRecord};
use crate::id::{BlockId, ConversationId, ModelHash};

/// Reads a directory of kept KV and changes nothing.
#[derive(Clone, Debug)]
pub struct StoreReader {
    pub(super) layout: Layout,
}

impl StoreReader {
    /// Reads `dir`, which must be there.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let dir = dir.into();
        fs::read_dir(&dir).map_err(io_error("read", &dir))?;
        Ok(Self::at(dir))
    }

    pub(super) fn at(root: PathBuf) -> Self {
        Self { layout: Layout { root } }
    }

    /// Reads and verifies an object.
    pub fn get_object(
        &self,
        model: ModelHash,
        id: BlockId,
        kind: ObjectKind,
    ) -> Result<Object, Miss> {
        self.find_object(model, id, kind).map_err(|rejected| rejected.miss)
    }

    /// Whether an object's file is there; says nothing about its bytes.
    pub fn has_object(&self, model: ModelHash, id: BlockId) -> bool {
        self.layout.object(model, id).is_file()
    }

    /// Reads and verifies a conversation's slot file.
    pub fn get_slot(
        &self,
        model: ModelHash,
        conversation: &ConversationId,
    ) -> Result<SlotRecord, Miss> {
        self.find_slot(model, conversation).map_err(|rejected| rejected.miss)
    }

    /// The models that have a directory here, in order.
    pub fn models(&self) -> Result<Vec<ModelHash>, StoreError> {
        let root = &self.layout.root;
        let mut models = Vec::new();
        for entry in fs::read_dir(root).map_err(io_error("read", root))? {
            let entry = entry.map_err(io_error("read", root))?;
            let name = entry.file_name();
            let model = name.to_str().and_then(|name| name.parse::<ModelHash>().ok());
            models.extend(model.filter(|_| entry.path().is_dir()));
        }
        models.sort();
        Ok(models)
    }

    /// What a model's directory is named after.
    pub fn read_model_toml(&self, model: ModelHash) -> Result<Fingerprint, Miss> {
        let text = fs::read_to_string(self.layout.model_toml(model))?;
        let malformed = |what: String| FormatError::Record { what };
        let fingerprint =
            Fingerprint::from_toml(&text).map_err(|error| malformed(error.to_string()))?;
        match fingerprint.hash() {
            hash if hash == model => Ok(fingerprint),
            found => Err(Miss::OtherModel { expected: model, found }),
        }
    }

    pub(super) fn find_object(
        &self,
        model: ModelHash,
        id: BlockId,
        kind: ObjectKind,
    ) -> Result<Object, Rejected> {
        let path = self.layout.object(model, id);
        let read = || -> Result<Object, Miss> {
            let object = Object::decode(fs::read(&path)?)?;
            if object.model != model {
                return Err(Miss::OtherModel { expected: model, found: object.model });
            }
            if object.kind != kind || object.id() != id {
                return Err(Miss::Misnamed { found: format!("{:?} {}", object.kind, object.id()) });
            }
            Ok(object)
        };
        read().map_err(|miss| Rejected { path: path.clone(), miss })
    }

    /// The newest of the files that can be the conversation's: a crash while its class changed
    /// leaves two.
    pub(super) fn find_slot(
        &self,
        model: ModelHash,
        conversation: &ConversationId,
    ) -> Result<SlotRecord, Rejected> {
        let (mut newest, mut rejected) = (None::<SlotRecord>, None);
        for (path, class) in self.layout.slot_candidates(model, conversation) {
            let read = || -> Result<SlotRecord, Miss> {
                let (found_model, record) = SlotRecord::decode(&fs::read(&path)?)?;
                check_belongs(model, conversation, found_model, &record.conversation)?;
                Ok(SlotRecord { class, ..record })
            };
            match read() {
                Ok(record) if newest.as_ref().is_none_or(|n| n.used_at < record.used_at) => {
                    newest = Some(record);
                }
                Ok(_) | Err(Miss::Absent) => {}
                Err(miss) => rejected = Some(Rejected { path, miss }),
            }
        }
        let absent = || Rejected { path: self.layout.model(model), miss: Miss::Absent };
        newest.ok_or_else(|| rejected.unwrap_or_else(absent))
    }
}

fn check_belongs(
    model: ModelHash,
    conversation: &ConversationId,
    found_model: ModelHash,
    found: &ConversationId,
) -> Result<(), Miss> {
    if found_model != model {
        return Err(Miss::OtherModel { expected: model, found: found_model });
    }
    if found != conversation {
        return Err(Miss::Misnamed { found: format!("conversation {found}") });
    }
    Ok(())
}
