//! Writes the slot file and the objects of a conversation as an archive.

use std::collections::BTreeMap;
use std::io::Write;

use tar::{Builder, EntryType, Header};

use super::ArchiveError;
use super::manifest::{
    MANIFEST, Manifest, ManifestConversation, ManifestEntry, ManifestObject, object_entry,
    slot_entry,
};
use crate::format::{ObjectKind, SlotRecord};
use crate::id::{BlockId, ConversationId, ModelHash};
use crate::store::{Miss, StoreReader};
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The model that computed the KV.
    pub model: ModelHash,
    /// The conversations and their tokens.
    pub conversations: Vec<(ConversationId, u32)>,
    /// The number of objects.
    pub objects: usize,
    /// Bytes of all files in the archive.
    pub bytes: u64,
}

/// Writes conversations of one model to an archive and verifies every file.
///
/// Each object is read twice, for its checksum is in the manifest, which comes first; those of branches once more.
pub fn export(
    reader: &StoreReader,
    conversations: &[ConversationId],
    model: Option<ModelHash>,
    now: Timestamp,
    out: impl Write,
) -> Result<Exported, ArchiveError> {
    let model = model_of(reader, conversations, model)?;
    let fingerprint = reader.read_model_toml(model).ok();
    let mut manifest = Manifest::new(model, fingerprint, now.0 / 1000);
    let mut records: Vec<Vec<u8>> = Vec::new();
    let mut objects: BTreeMap<BlockId, (ObjectKind, &ConversationId)> = BTreeMap::new();
    for id in conversations {
        let mut record = reader.get_slot(model, id).map_err(|miss| match miss {
            Miss::Absent => ArchiveError::Absent { conversation: id.to_string() },
            miss => not_whole(id, "its slot file".to_owned(), miss),
        })?;
        // A conversation is whole without a branch that was lost or damaged.
        record.branches.retain(|object| {
            let read = reader.get_object(model, object.id, object.kind);
            !read.is_err_and(|miss| matches!(miss, Miss::Absent) || miss.condemns_the_file())
        });
        objects.extend(record.placed().map(|object| (object.id, (object.kind, id))));
        let file = record.encode(model);
        manifest.conversations.push(slot_of(&record, &file));
        records.push(file);
    }
    let read = |id: BlockId, kind: ObjectKind, whose: &ConversationId| {
        let object = reader.get_object(model, id, kind);
        object
            .map(|object| object.encode())
            .map_err(|miss| not_whole(whose, format!("the object {id}"), miss))
    };
    for (&id, &(kind, whose)) in &objects {
        let entry = ManifestEntry::of(&read(id, kind, whose)?);
        manifest.objects.push(ManifestObject { id, kind: kind.into(), entry });
    }

    let mut archive = Builder::new(out);
    append(&mut archive, MANIFEST, manifest.to_toml().as_bytes())?;
    for (&id, &(kind, whose)) in &objects {
        append(&mut archive, &object_entry(id), &read(id, kind, whose)?)?;
    }
    for (number, file) in records.iter().enumerate() {
        append(&mut archive, &slot_entry(number), file)?;
    }
    archive.into_inner()?.flush()?;
    let slots = manifest.conversations.iter();
    let entries = slots.clone().map(|slot| &slot.entry);
    let entries = entries.chain(manifest.objects.iter().map(|object| &object.entry));
    Ok(Exported {
        model,
        bytes: entries.map(|entry| entry.bytes).sum(),
        conversations: slots.map(|slot| (slot.id.clone(), slot.tokens)).collect(),
        objects: objects.len(),
    })
}

/// The one model that has all of them, beside a draft model.
fn model_of(
    reader: &StoreReader,
    conversations: &[ConversationId],
    wanted: Option<ModelHash>,
) -> Result<ModelHash, ArchiveError> {
    let drafts = |model: &ModelHash| reader.read_model_toml(*model).is_ok_and(|it| it.drafts);
    let mut all = reader.models()?;
    all.retain(|model| wanted.map_or_else(|| !drafts(model), |wanted| wanted == *model));
    let mut models = all.clone();
    for id in conversations {
        let is_there =
            |model: &&ModelHash| !matches!(reader.get_slot(**model, id), Err(Miss::Absent));
        let theirs: Vec<ModelHash> = all.iter().filter(is_there).copied().collect();
        let conversation = id.to_string();
        if theirs.is_empty() {
            return Err(ArchiveError::Absent { conversation });
        }
        if !models.iter().any(|model| theirs.contains(model)) {
            return Err(ArchiveError::OtherModel { conversation, theirs, models });
        }
        models.retain(|model| theirs.contains(model));
    }
    match (&models[..], conversations.first()) {
        (&[model], Some(_)) => Ok(model),
        (_, first) => {
            let conversation = first.map(ToString::to_string).unwrap_or_default();
            Err(ArchiveError::Ambiguous { conversation, models })
        }
    }
}

fn slot_of(record: &SlotRecord, file: &[u8]) -> ManifestConversation {
    ManifestConversation {
        id: record.conversation.clone(),
        class: record.class,
        tokens: record.tokens.len() as u32,
        entry: ManifestEntry::of(file),
    }
}

fn append(archive: &mut Builder<impl Write>, name: &str, bytes: &[u8]) -> Result<(), ArchiveError> {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_size(bytes.len() as u64);
    header.set_mode(0o600);
    header.set_path(name)?;
    header.set_cksum();
    Ok(archive.append(&header, bytes)?)
}

fn not_whole(conversation: &ConversationId, what: String, miss: Miss) -> ArchiveError {
    ArchiveError::NotWhole { conversation: conversation.to_string(), what, miss }
}
