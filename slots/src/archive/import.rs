//! Reads an archive, verifies all of it, and then writes its objects and its slot file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use serde::{Deserialize, Serialize};
use tar::EntryType;

use super::ArchiveError;
use super::content::{HEAD_BYTES, described};
use super::manifest::{MANIFEST, Manifest, ManifestEntry, object_entry, slot_entry};
use crate::fingerprint::Fingerprint;
use crate::format::{Object, ObjectHeader, SlotHeader, SlotRecord, check_length};
use crate::id::{BlockId, ConversationId, ModelHash};
use crate::maintenance::Skipped;
use crate::store::{Store, StoreReader};
use crate::sweep::{LiveRefs, replace_slot};
use crate::time::Timestamp;
use crate::ttl::TtlClass;

/// The maximum length of a manifest: some 300,000 objects.
const MANIFEST_BYTES: u64 = 64 << 20;

/// The maximum length of a slot file: the most tokens have 256 MiB.
const SLOT_BYTES: u64 = 1 << 30;

/// An archive, every byte of which was read and verified.
#[derive(Debug)]
pub struct Archive {
    file: File,
    manifest: Manifest,
    records: Vec<SlotRecord>,
    /// The offset and entry of each object.
    objects: BTreeMap<BlockId, (u64, ManifestEntry)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportOptions {
    /// Replace a conversation that was used later than the archive's.
    pub force: bool,
    /// Import KV of a model that was never used with this directory.
    pub keep_foreign: bool,
    /// Replaces the archive's class.
    pub class: Option<TtlClass>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// The model that computed the KV.
    pub fingerprint: ModelHash,
    pub imported: Vec<ImportedConversation>,
    pub skipped: Vec<Skipped>,
    /// Bytes written; what the directory has already is not written again.
    pub written_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedConversation {
    pub conversation: String,
    /// The length of its timeline.
    pub tokens: u32,
    pub class: TtlClass,
}

impl Archive {
    /// Reads an archive and verifies all of its bytes.
    pub fn open(mut file: File) -> Result<Self, ArchiveError> {
        file.rewind()?;
        let length = file.metadata()?.len();
        let mut archive = tar::Archive::new(&file);
        // Raw entries: extended names and links are refused, not interpreted.
        let mut entries = archive.entries()?.raw(true);
        let Some(first) = entries.next() else {
            return Err(ArchiveError::NotABundle { what: "it is empty".to_owned() });
        };
        let first = first.map_err(|error| not_archive(&file, error));
        let manifest = read_manifest(&mut first?, length)?;
        let mut expected = Expected::of(&manifest)?;
        let mut records = BTreeMap::new();
        let mut objects = BTreeMap::new();
        for entry in entries {
            let mut entry = entry.map_err(not_tar)?;
            let name = name_of(&entry);
            let Some((what, facts)) = expected.0.remove(&name) else {
                return Err(damaged(&name, "the manifest does not name it, or names it once"));
            };
            let bytes = read_file(&mut entry, &name, what, facts.bytes.min(length))?;
            if ManifestEntry::of(&bytes) != facts {
                return Err(damaged(&name, "its checksum is another one than the manifest's"));
            }
            match what {
                ManifestLine::Slot(number) => {
                    records.insert(number, slot(&manifest, number, &name, &bytes)?);
                }
                ManifestLine::Object(number) => {
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

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    pub fn records(&self) -> &[SlotRecord] {
        &self.records
    }

    /// Renames its only conversation. KV does not depend on the conversation's name.
    pub fn rename(&mut self, conversation: &ConversationId) {
        if let [record] = &mut self.records[..] {
            record.conversation = conversation.clone();
        }
    }

    /// Refuses an archive of a model that was never used with this directory.
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

    /// Writes the objects that the directory lacks. Returns the bytes written.
    pub fn put_objects(&self, store: &Store) -> Result<u64, ArchiveError> {
        Ok(self.put_some(store, 0, usize::MAX, u64::MAX)?.1)
    }

    /// [`Self::put_objects`] in steps: from object `first` on, `max_objects` at most, until `max_bytes` of the
    /// archive are read. Returns the next object, if there is one, and the bytes written.
    pub fn put_some(
        &self,
        store: &Store,
        first: usize,
        max_objects: usize,
        max_bytes: u64,
    ) -> Result<(Option<usize>, u64), ArchiveError> {
        let (mut read, mut written) = (0, 0);
        for (number, (id, (_, entry))) in self.objects.iter().enumerate().skip(first) {
            if read >= max_bytes || number - first >= max_objects {
                return Ok((Some(number), written));
            }
            read += entry.bytes;
            written += self.put_object(store, *id)?;
        }
        Ok((None, written))
    }

    /// Writes the slot files, after [`Archive::put_objects`]. The conversations count as used now.
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
                let reason = "the saved one here was used later; --force replaces it".to_owned();
                let conversation = id.as_str().to_owned();
                report.skipped.push(Skipped { conversation, fingerprint: model, reason });
                continue;
            }
            // The collector may have removed an object since it was written.
            for (object, _) in record.objects() {
                if !store.has_object(model, object) {
                    report.written_bytes += self.put_object(store, object)?;
                }
            }
            let class = options.class.unwrap_or(record.class);
            let record = SlotRecord { class, used_at: now, ..record.clone() };
            report.written_bytes += replace_slot(store, live_refs, model, &record)?;
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
        // Decoded again: the file may have changed since it was verified.
        let name = object_entry(id);
        let object = Object::decode(bytes).map_err(|error| damaged(&name, error))?;
        if (object.model, object.id()) != (self.manifest.model, id) {
            return Err(damaged(&name, "it has changed meanwhile"));
        }
        Ok(store.put_object(object.model, id, &object)?)
    }
}

/// The entries still to come, by name.
struct Expected(BTreeMap<String, (ManifestLine, ManifestEntry)>);

/// A line of the manifest.
#[derive(Clone, Copy)]
enum ManifestLine {
    Slot(usize),
    Object(usize),
}

impl Expected {
    fn of(manifest: &Manifest) -> Result<Self, ArchiveError> {
        let slots = manifest.conversations.iter().enumerate();
        let slots =
            slots.map(|(n, slot)| (slot_entry(n), (ManifestLine::Slot(n), slot.entry.clone())));
        let objects = manifest.objects.iter().enumerate();
        let objects = objects.map(|(n, object)| {
            (object_entry(object.id), (ManifestLine::Object(n), object.entry.clone()))
        });
        let mut expected = BTreeMap::new();
        for (name, entry) in slots.chain(objects) {
            if expected.insert(name.clone(), entry).is_some() {
                return Err(damaged(MANIFEST, format!("it names {name} twice")));
            }
        }
        let ids: BTreeSet<_> = manifest.conversations.iter().map(|slot| &slot.id).collect();
        if ids.len() == manifest.conversations.len() {
            Ok(Self(expected))
        } else {
            Err(damaged(MANIFEST, "it names a conversation twice"))
        }
    }
}

/// The manifest in the first entry of an archive of `length` bytes.
fn read_manifest(
    entry: &mut tar::Entry<'_, impl Read>,
    length: u64,
) -> Result<Manifest, ArchiveError> {
    let name = name_of(entry);
    if name != MANIFEST {
        let what = format!("it begins with {name:?} instead of {MANIFEST}");
        return Err(ArchiveError::NotABundle { what });
    }
    let bytes = read(entry, &name, MANIFEST_BYTES.min(length))?;
    let text = String::from_utf8(bytes).map_err(|_| damaged(&name, "not UTF-8 text"))?;
    Manifest::from_toml(&text)
}

fn slot(
    manifest: &Manifest,
    number: usize,
    name: &str,
    bytes: &[u8],
) -> Result<SlotRecord, ArchiveError> {
    let (model, record) = SlotRecord::decode(bytes).map_err(|error| damaged(name, error))?;
    let listed = &manifest.conversations[number];
    let facts = (&record.conversation, record.class, record.tokens.len() as u32);
    if model != manifest.model || facts != (&listed.id, listed.class, listed.tokens) {
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
    let listed = &manifest.objects[number];
    let is_listed = object.model == manifest.model
        && object.id() == listed.id
        && listed.kind == object.kind.into();
    if is_listed {
        Ok(())
    } else {
        Err(damaged(name, "it holds another object than the manifest says"))
    }
}

/// The bytes of a regular entry, at most `max_bytes`.
fn read(
    entry: &mut tar::Entry<'_, impl Read>,
    name: &str,
    max_bytes: u64,
) -> Result<Vec<u8>, ArchiveError> {
    check_entry(entry, name, max_bytes)?;
    let mut bytes = Vec::new();
    read_on(entry, name, max_bytes, &mut bytes)?;
    check_end(entry, name, &bytes)?;
    Ok(bytes)
}

/// The bytes of a slot file or an object, at most `max_bytes`. Reads its header alone, unless that is of a file as long
/// as the entry.
fn read_file(
    entry: &mut tar::Entry<'_, impl Read>,
    name: &str,
    line: ManifestLine,
    max_bytes: u64,
) -> Result<Vec<u8>, ArchiveError> {
    let is_slot = matches!(line, ManifestLine::Slot(_));
    let max_bytes = if is_slot { max_bytes.min(SLOT_BYTES) } else { max_bytes };
    check_entry(entry, name, max_bytes)?;
    let mut bytes = Vec::new();
    let head_bytes = if is_slot { SlotHeader::MAX_BYTES } else { ObjectHeader::BYTES };
    read_on(entry, name, head_bytes as u64, &mut bytes)?;
    let announced = if is_slot {
        SlotHeader::decode(&bytes).map(|header| header.file_bytes())
    } else {
        ObjectHeader::decode(&bytes).map(|header| header.file_bytes())
    };
    let fits = announced.and_then(|announced| check_length(announced, entry.size()));
    fits.map_err(|error| damaged(name, error))?;
    read_on(entry, name, max_bytes, &mut bytes)?;
    check_end(entry, name, &bytes)?;
    Ok(bytes)
}

/// Refuses an entry that is no regular file or longer than `max_bytes`.
fn check_entry(
    entry: &tar::Entry<'_, impl Read>,
    name: &str,
    max_bytes: u64,
) -> Result<(), ArchiveError> {
    if entry.header().entry_type() != EntryType::Regular {
        return Err(damaged(name, "not a regular file"));
    }
    if entry.size() > max_bytes {
        return Err(damaged(name, format!("it claims to have {} bytes", entry.size())));
    }
    Ok(())
}

/// Appends the next bytes of an entry, at most `max_bytes`.
fn read_on(
    entry: &mut tar::Entry<'_, impl Read>,
    name: &str,
    max_bytes: u64,
    bytes: &mut Vec<u8>,
) -> Result<(), ArchiveError> {
    let read = entry.by_ref().take(max_bytes).read_to_end(bytes);
    read.map(drop).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged(name, "it is cut short"),
        _ => not_tar(error),
    })
}

/// Refuses an entry of which there are fewer bytes than its archive announces.
fn check_end(
    entry: &tar::Entry<'_, impl Read>,
    name: &str,
    bytes: &[u8],
) -> Result<(), ArchiveError> {
    let is_whole = bytes.len() as u64 == entry.size();
    if is_whole { Ok(()) } else { Err(damaged(name, "it is cut short")) }
}

/// As [`not_tar`], of a file without a first entry: it is something else.
fn not_archive(mut file: &File, error: io::Error) -> ArchiveError {
    if error.raw_os_error().is_some() {
        return error.into();
    }
    let mut head = Vec::new();
    let read = file.rewind().and_then(|()| file.take(HEAD_BYTES).read_to_end(&mut head));
    match read {
        Ok(_) => ArchiveError::NotABundle { what: described(&head).to_owned() },
        Err(error) => error.into(),
    }
}

/// An error of the operating system is a disk failure; any other is about the bytes.
fn not_tar(error: io::Error) -> ArchiveError {
    match error.raw_os_error() {
        Some(_) => error.into(),
        None => damaged("the archive", error),
    }
}

fn name_of(entry: &tar::Entry<'_, impl Read>) -> String {
    String::from_utf8_lossy(&entry.path_bytes()).into_owned()
}

/// The fields in which the archive's model differs from the most similar known one.
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
