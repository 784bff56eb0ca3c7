//! From an archive to a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use serde::{Deserialize, Serialize};
use tar::EntryType;

use super::ArchiveError;
use super::manifest::{MANIFEST, Manifest, ManifestEntry, object_entry, slot_entry};
use crate::fingerprint::Fingerprint;
use crate::format::{Object, SlotRecord};
use crate::id::{BlockId, ConversationId, ModelHash};
use crate::maintenance::Skipped;
use crate::store::{Store, StoreReader};
use crate::sweep::LiveRefs;
use crate::time::Timestamp;
use crate::ttl::TtlClass;

/// The longest manifest that is read: some 300,000 objects.
const MANIFEST_BYTES: u64 = 64 << 20;

/// An archive, every byte of which was read and verified.
#[derive(Debug)]
pub struct Archive {
    file: File,
    manifest: Manifest,
    records: Vec<SlotRecord>,
    /// Where each object is in the file, and how long it is.
    objects: BTreeMap<BlockId, (u64, ManifestEntry)>,
}

/// How an archive is to be taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportOptions {
    /// Also in place of a conversation that was used later than the archive's.
    pub force: bool,
    /// Also when nobody here has used its model.
    pub keep_foreign: bool,
    /// In this class instead of the archive's.
    pub class: Option<TtlClass>,
}

/// What was taken in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// The model whose KV it is.
    pub fingerprint: ModelHash,
    /// The conversations that are here now.
    pub imported: Vec<ImportedConversation>,
    /// Those that were left alone.
    pub skipped: Vec<Skipped>,
    /// Bytes written: what was here already is not written again.
    pub written_bytes: u64,
}

/// A conversation that was taken in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedConversation {
    /// Whose it is.
    pub conversation: String,
    /// How long its timeline is.
    pub tokens: u32,
    /// Its class.
    pub class: TtlClass,
}

impl Archive {
    /// Reads all of an archive and verifies every byte that anything would be made of.
    pub fn open(mut file: File) -> Result<Self, ArchiveError> {
        file.rewind()?;
        let length = file.metadata()?.len();
        let mut archive = tar::Archive::new(&file);
        // Raw: names and links that other entries stand for are not interpreted, and so refused.
        let mut entries = archive.entries()?.raw(true);
        let manifest = match entries.next() {
            Some(entry) => {
                let mut entry = entry.map_err(not_tar)?;
                let name = name_of(&entry);
                if name != MANIFEST {
                    let what = format!("it begins with {name:?} instead of {MANIFEST}");
                    return Err(ArchiveError::NotABundle { what });
                }
                let bytes = read(&mut entry, &name, MANIFEST_BYTES.min(length))?;
                let text = String::from_utf8(bytes);
                let text = text.map_err(|_| damaged(&name, "it is no text"))?;
                Manifest::from_toml(&text)?
            }
            None => return Err(ArchiveError::NotABundle { what: "it is empty".to_owned() }),
        };
        let mut expected = Expected::of(&manifest)?;
        let mut records = BTreeMap::new();
        let mut objects = BTreeMap::new();
        for entry in entries {
            let mut entry = entry.map_err(not_tar)?;
            let name = name_of(&entry);
            let Some((what, facts)) = expected.0.remove(&name) else {
                return Err(damaged(&name, "the manifest does not name it, or names it once"));
            };
            let bytes = read(&mut entry, &name, facts.bytes.min(length))?;
            if ManifestEntry::of(&bytes) != facts {
                return Err(damaged(&name, "its checksum is another one than the manifest's"));
            }
            match what {
                What::Slot(number) => {
                    records.insert(number, slot(&manifest, number, &name, &bytes)?);
                }
                What::Object(number) => {
                    let id = manifest.objects[number].id;
                    object(&manifest, number, &name, bytes)?;
                    objects.insert(id, (entry.raw_file_position(), facts));
                }
            }
        }
        if let Some(name) = expected.0.keys().next() {
            return Err(damaged(name, "it is missing"));
        }
        let records: Vec<SlotRecord> = records.into_values().collect();
        let named: BTreeSet<BlockId> =
            records.iter().flat_map(SlotRecord::objects).map(|(id, _)| id).collect();
        if !named.iter().eq(objects.keys()) {
            return Err(damaged(MANIFEST, "its objects are not those that its conversations need"));
        }
        Ok(Self { file, manifest, records, objects })
    }

    /// What it says it holds.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The conversations in it.
    pub fn records(&self) -> &[SlotRecord] {
        &self.records
    }

    /// Gives its only conversation another name: KV is named by what it holds, not by whose it is.
    pub fn rename(&mut self, conversation: &ConversationId) {
        if let [record] = &mut self.records[..] {
            record.conversation = conversation.clone();
        }
    }

    /// Refuses an archive of a model that nobody has used with this directory, and says why.
    pub fn check_model(&self, reader: &StoreReader) -> Result<(), ArchiveError> {
        let (fingerprint, known) = (self.manifest.model, reader.models()?);
        if known.contains(&fingerprint) {
            return Ok(());
        }
        let known = known.into_iter();
        let known = known.filter_map(|model| Some((model, reader.read_model_toml(model).ok()?)));
        let difference = self.manifest.fingerprint.as_ref().map(|ours| nearest(ours, known));
        Err(ArchiveError::Foreign { fingerprint, difference: difference.unwrap_or_default() })
    }

    /// Writes what is not there yet of the objects. Returns the bytes written.
    pub fn put_objects(&self, store: &Store) -> Result<u64, ArchiveError> {
        Ok(self.put_some(store, 0, u64::MAX)?.1)
    }

    /// The same in steps: from the object `first` on, until `max_bytes` of the archive are read.
    /// Returns where to go on, if anywhere, and the bytes written.
    pub fn put_some(
        &self,
        store: &Store,
        first: usize,
        max_bytes: u64,
    ) -> Result<(Option<usize>, u64), ArchiveError> {
        let (mut read, mut written) = (0, 0);
        for (number, (id, (_, entry))) in self.objects.iter().enumerate().skip(first) {
            if read >= max_bytes {
                return Ok((Some(number), written));
            }
            read += entry.bytes;
            written += self.put_object(store, *id)?;
        }
        Ok((None, written))
    }

    /// Makes the conversations visible, after [`Archive::put_objects`]. They count as used now.
    pub fn put_slots(
        &self,
        store: &Store,
        live_refs: &dyn LiveRefs,
        options: ImportOptions,
        now: Timestamp,
    ) -> Result<Imported, ArchiveError> {
        let model = self.manifest.model;
        let mut report = Imported {
            fingerprint: model,
            imported: Vec::new(),
            skipped: Vec::new(),
            written_bytes: 0,
        };
        if let Some(fingerprint) = &self.manifest.fingerprint {
            store.write_model_toml(fingerprint)?;
        }
        for record in &self.records {
            let id = &record.conversation;
            let here = store.reader().get_slot(model, id).ok();
            let newer = here.is_some_and(|here| here.used_at > record.used_at);
            if live_refs.is_open(model, id) {
                report.skipped.push(Skipped::in_use(model, id));
                continue;
            }
            if newer && !options.force {
                let reason = "what is kept here was used later; --force replaces it".to_owned();
                let conversation = id.as_str().to_owned();
                report.skipped.push(Skipped { conversation, fingerprint: model, reason });
                continue;
            }
            // Somebody may have removed one since it was written.
            for (object, _) in record.objects() {
                if !store.has_object(model, object) {
                    report.written_bytes += self.put_object(store, object)?;
                }
            }
            let class = options.class.unwrap_or(record.class);
            let record = SlotRecord { class, used_at: now, ..record.clone() };
            report.written_bytes += store.put_slot(model, &record)?;
            live_refs.slot_file_replaced(model, id);
            let (conversation, tokens) = (id.as_str().to_owned(), record.tokens.len() as u32);
            report.imported.push(ImportedConversation { conversation, tokens, class });
        }
        Ok(report)
    }

    fn put_object(&self, store: &Store, id: BlockId) -> Result<u64, ArchiveError> {
        let (position, entry) = &self.objects[&id];
        let mut bytes = vec![0; entry.bytes as usize];
        let mut file = &self.file;
        file.seek(SeekFrom::Start(*position))?;
        file.read_exact(&mut bytes)?;
        // Decoded once more: the file may have changed since it was verified.
        let name = object_entry(id);
        let object = Object::decode(bytes).map_err(|error| damaged(&name, error))?;
        if (object.model, object.id()) != (self.manifest.model, id) {
            return Err(damaged(&name, "it has changed meanwhile"));
        }
        Ok(store.put_object(object.model, id, &object)?)
    }
}

/// What must still come, by name.
struct Expected(BTreeMap<String, (What, ManifestEntry)>);

/// Which line of the manifest it is.
#[derive(Clone, Copy)]
enum What {
    Slot(usize),
    Object(usize),
}

impl Expected {
    fn of(manifest: &Manifest) -> Result<Self, ArchiveError> {
        let slots = manifest.conversations.iter().enumerate();
        let slots = slots.map(|(n, slot)| (slot_entry(n), (What::Slot(n), slot.entry.clone())));
        let objects = manifest.objects.iter().enumerate();
        let objects = objects
            .map(|(n, object)| (object_entry(object.id), (What::Object(n), object.entry.clone())));
        let mut expected = BTreeMap::new();
        for (name, entry) in slots.chain(objects) {
            if expected.insert(name.clone(), entry).is_some() {
                return Err(damaged(MANIFEST, format!("it names {name} twice")));
            }
        }
        let ids: BTreeSet<_> = manifest.conversations.iter().map(|slot| &slot.id).collect();
        match ids.len() == manifest.conversations.len() {
            true => Ok(Self(expected)),
            false => Err(damaged(MANIFEST, "it names a conversation twice")),
        }
    }
}

fn slot(
    manifest: &Manifest,
    number: usize,
    name: &str,
    bytes: &[u8],
) -> Result<SlotRecord, ArchiveError> {
    let (model, record) = SlotRecord::decode(bytes).map_err(|error| damaged(name, error))?;
    let told = &manifest.conversations[number];
    let facts = (&record.conversation, record.class, record.tokens.len() as u32);
    if model != manifest.model || facts != (&told.id, told.class, told.tokens) {
        return Err(damaged(name, "it holds another conversation than the manifest says"));
    }
    Ok(record)
}

fn object(
    manifest: &Manifest,
    number: usize,
    name: &str,
    bytes: Vec<u8>,
) -> Result<(), ArchiveError> {
    let object = Object::decode(bytes).map_err(|error| damaged(name, error))?;
    let told = &manifest.objects[number];
    match object.model == manifest.model
        && object.id() == told.id
        && told.kind == object.kind.into()
    {
        true => Ok(()),
        false => Err(damaged(name, "it holds another object than the manifest says")),
    }
}

/// The bytes of an entry, which must have the length that is announced and not be `most` exceeded.
fn read(
    entry: &mut tar::Entry<'_, impl Read>,
    name: &str,
    most: u64,
) -> Result<Vec<u8>, ArchiveError> {
    if entry.header().entry_type() != EntryType::Regular {
        return Err(damaged(name, "it is no plain file"));
    }
    if entry.size() > most {
        return Err(damaged(name, format!("it claims to have {} bytes", entry.size())));
    }
    let mut bytes = Vec::new();
    let announced = entry.size();
    entry.take(most).read_to_end(&mut bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged(name, "it is cut short"),
        _ => not_tar(error),
    })?;
    match bytes.len() as u64 == announced {
        true => Ok(bytes),
        false => Err(damaged(name, "it is cut short")),
    }
}

/// What the system says is a failure of the disk; anything else is about the bytes.
fn not_tar(error: io::Error) -> ArchiveError {
    match error.raw_os_error() {
        Some(_) => error.into(),
        None => damaged("the archive", error),
    }
}

fn name_of(entry: &tar::Entry<'_, impl Read>) -> String {
    String::from_utf8_lossy(&entry.path_bytes()).into_owned()
}

/// In which fields the archive's model differs from the one that is most like it.
fn nearest(ours: &Fingerprint, known: impl Iterator<Item = (ModelHash, Fingerprint)>) -> String {
    let differences = known.map(|(model, theirs)| (ours.difference(&theirs), model));
    match differences.min_by_key(|(fields, _)| fields.len()) {
        Some((fields, model)) => format!(", which differs from {model} in {}", fields.join(", ")),
        None => String::new(),
    }
}

fn damaged(entry: &str, what: impl ToString) -> ArchiveError {
    ArchiveError::Damaged { entry: entry.to_owned(), what: what.to_string() }
}
