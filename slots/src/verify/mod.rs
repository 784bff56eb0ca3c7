//! Verifies every file and reports damage and its cost.
//!
//! - Reads every slot file and object, also unreferenced ones, and moves nothing. The owner may
//!   then [`condemn`] the damaged files.
//! - The cost of damage is tokens to recompute, from the first damaged block on.
//! - A file removed meanwhile by a daemon is not damage.

mod condemn;
mod cost;
mod reading;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::PathBuf;

use crate::format::SlotRecord;
use crate::id::{ConversationId, ModelHash};
use crate::store::{StoreError, StoreReader, StoredFile};

pub use condemn::condemn;
pub use cost::Cost;
pub use reading::{Fault, Reading};

/// All files of these models.
pub fn all_files(
    reader: &StoreReader,
    models: &[ModelHash],
) -> Result<Vec<StoredFile>, StoreError> {
    let mut files = Vec::new();
    for model in models {
        files.extend(reader.stored_files(*model)?);
    }
    Ok(files)
}

/// The files of a conversation; `None` when none of these models has it.
pub fn files_of(
    reader: &StoreReader,
    models: &[ModelHash],
    conversation: &ConversationId,
) -> Result<Option<Vec<StoredFile>>, StoreError> {
    let named = models.iter().filter_map(|&model| named(reader, model, conversation));
    let wanted: Vec<(ModelHash, PathBuf)> = named.flatten().collect();
    if wanted.is_empty() {
        return Ok(None);
    }
    let wanted: HashSet<_> = wanted.into_iter().collect();
    let mut files = all_files(reader, models)?;
    files.retain(|file| wanted.contains(&(file.model, file.path.clone())));
    Ok(Some(files))
}

/// `None` when there is no slot file.
fn named(
    reader: &StoreReader,
    model: ModelHash,
    conversation: &ConversationId,
) -> Option<Vec<(ModelHash, PathBuf)>> {
    let slots = reader.slot_paths(model, conversation);
    let slots: Vec<PathBuf> = slots.into_iter().filter(|path| path.exists()).collect();
    if slots.is_empty() {
        return None;
    }
    let record = reader.get_slot(model, conversation).ok();
    let objects = record.iter().flat_map(SlotRecord::objects);
    let objects = objects.map(|(object, _)| reader.object_path(model, object));
    Some(slots.into_iter().chain(objects).map(|path| (model, path)).collect())
}
