//! An archive is read back whole, and a changed one changes nothing.

use std::fs::{self, File};
use std::io::Write;

use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

use super::manifest::MANIFEST;
use super::*;
use crate::fingerprint::{FileDigest, Fingerprint};
use crate::format::{BlockRef, BranchRef, Object, ObjectKind, SegmentRef, SlotRecord, SnapshotRef};
use crate::id::{BlockId, ConversationId, ModelHash, Token};
use crate::layer::Layer;
use crate::lineage::{Lineage, View, ViewRun};
use crate::store::{Store, StoreReader};
use crate::sweep::NoEngine;
use crate::time::Timestamp;
use crate::ttl::TtlClass;

const NOW: Timestamp = Timestamp(1_000_000_000);

#[test]
fn an_imported_conversation_equals_the_exported_one() {
    let (from, to) = (World::new(), World::new());
    from.save("one", 100, &[1, 2]);
    from.save("two/…", 200, &[1, 3]);
    let archive = from.export(&["one", "two/…"]);
    let done = to
        .import(&archive, ImportOptions { keep_foreign: true, ..ImportOptions::default() })
        .unwrap();
    assert_eq!((done.imported.len(), done.skipped.len()), (2, 0));
    for name in ["one", "two/…"] {
        let (ours, theirs) = (from.slot(name), to.slot(name));
        assert_eq!(theirs, SlotRecord { used_at: NOW, ..ours.clone() });
        for block in &ours.blocks {
            let object = |world: &World| {
                world.store.get_object(world.model, block.id, ObjectKind::Block).unwrap()
            };
            assert_eq!(object(&from), object(&to));
        }
    }
    assert_eq!(to.store.read_model_toml(to.model).unwrap(), fingerprint());
    let again =
        to.import(&archive, ImportOptions { force: true, ..ImportOptions::default() }).unwrap();
    assert!(again.written_bytes < 2_000, "objects that are here are not written again");
}

#[test]
fn an_archive_carries_what_tokens_saw_and_which_blocks_are_away() {
    let (from, to) = (World::new(), World::new());
    from.save("one", 100, &[1, 2, 3]);
    let mut record = from.slot("one");
    let runs = [(2, View::WHOLE), (10, View::without([0..1]))];
    let views = runs.map(|(end, view)| ViewRun { end, view }).to_vec();
    record.lineage = Lineage { views, away: vec![1..2] };
    record.segments =
        vec![SegmentRef { weight: 90, pinned: true, ..SegmentRef::new(10, Layer::User, "") }];
    from.store.put_slot(from.model, &record).unwrap();
    to.import(&from.export(&["one"]), ImportOptions::default()).unwrap();
    assert_eq!(to.slot("one"), SlotRecord { used_at: NOW, ..record });
}

#[test]
fn a_foreign_model_is_refused_with_its_differences() {
    let (from, to) = (World::new(), World::empty());
    from.save("one", 100, &[1]);
    let archive = from.export(&["one"]);
    let refused =
        |world: &World| world.import(&archive, ImportOptions::default()).unwrap_err().to_string();
    let alone = refused(&to);
    assert!(alone.contains(&from.model.to_string()) && alone.contains("--keep-foreign"), "{alone}");
    let mut other = fingerprint();
    other.cache_type_k = "q8_0".to_owned();
    to.store.write_model_toml(&other).unwrap();
    let told = refused(&to);
    assert!(told.contains(&format!("differs from {} in cache_type_k)", other.hash())), "{told}");
    assert_eq!(to.store.models().unwrap(), [other.hash()], "nothing was written");
}

#[test]
fn a_conversation_used_later_here_stays_unless_forced() {
    let (from, to) = (World::new(), World::new());
    from.save("one", 100, &[1]);
    to.save("one", 200, &[2, 3]);
    let archive = from.export(&["one"]);
    let done = to.import(&archive, ImportOptions::default()).unwrap();
    assert!(done.imported.is_empty() && done.skipped[0].reason.contains("--force"), "{done:?}");
    assert_eq!(to.slot("one").blocks.len(), 2);
    let options =
        ImportOptions { force: true, class: Some(TtlClass::Permanent), ..ImportOptions::default() };
    assert_eq!(to.import(&archive, options).unwrap().imported[0].class, TtlClass::Permanent);
    assert_eq!(to.slot("one").blocks.len(), 1);
}

#[test]
fn a_damaged_conversation_is_not_exported() {
    let world = World::new();
    world.save("one", 100, &[1]);
    let export = |names: &[&str]| world.try_export(names).unwrap_err().to_string();
    assert!(export(&["nobody"]).contains("`nobody` has no saved KV"));
    let object = world.store.object_path(world.model, block(world.model, 1).id());
    fs::write(object, "damaged").unwrap();
    let told = export(&["one"]);
    assert!(told.contains("`one` is not whole") && told.contains("not a Hob object"), "{told}");
}

#[test]
fn a_conversation_is_exported_without_a_damaged_branch() {
    let (from, to) = (World::new(), World::new());
    from.save("one", 100, &[1]);
    let branch = |number: i32| {
        let object = block(from.model, number);
        from.store.put_object(from.model, object.id(), &object).unwrap();
        let (id, bytes) = (object.id(), object.file_bytes());
        BranchRef { kind: ObjectKind::Block, start: 0, end: 1, id, bytes }
    };
    let (damaged, whole) = (branch(5), branch(6));
    let record = SlotRecord { branches: vec![damaged, whole], ..from.slot("one") };
    from.store.put_slot(from.model, &record).unwrap();
    fs::write(from.store.object_path(from.model, damaged.id), "damaged").unwrap();
    to.import(&from.export(&["one"]), ImportOptions::default()).unwrap();
    assert_eq!(to.slot("one").branches, [whole]);
}

#[test]
fn conversations_of_different_models_are_not_exported_together() {
    let world = World::new();
    world.save("one", 100, &[1]);
    let other = Fingerprint { cache_type_k: "q8_0".into(), ..fingerprint() };
    world.store.write_model_toml(&other).unwrap();
    let two = SlotRecord::empty(id("two"), TtlClass::Long, Timestamp(60));
    world.store.put_slot(other.hash(), &two).unwrap();
    let told = world.try_export(&["one", "two"]).unwrap_err().to_string();
    let (first, second) = (world.model, other.hash());
    let expected = format!("`two` has saved KV for {second}, and those before it for {first}");
    assert!(told.contains(&expected), "{told}");
    let told = world.try_export(&["one", "three"]).unwrap_err().to_string();
    assert!(told.contains("`three` has no saved KV"), "{told}");
}

#[test]
fn beside_kv_of_a_draft_model_that_of_the_model_is_exported() {
    let (from, to) = (World::new(), World::new());
    from.save("one", 100, &[1]);
    let draft_model = Fingerprint { drafts: true, ..fingerprint() };
    from.store.write_model_toml(&draft_model).unwrap();
    let drafts = SlotRecord::empty(id("one"), TtlClass::Long, Timestamp(60));
    from.store.put_slot(draft_model.hash(), &drafts).unwrap();
    to.import(&from.export(&["one"]), ImportOptions::default()).unwrap();
    assert_eq!(to.slot("one"), SlotRecord { used_at: NOW, ..from.slot("one") });
    let alone = SlotRecord::empty(id("two"), TtlClass::Long, Timestamp(60));
    from.store.put_slot(draft_model.hash(), &alone).unwrap();
    for names in [&["one", "two"][..], &["two"]] {
        let told = from.try_export(names).unwrap_err().to_string();
        assert!(told.contains("`two` has no saved KV"), "{told}");
    }
}

#[test]
fn every_flipped_byte_is_refused_or_changes_nothing() {
    let (from, to) = (World::new(), World::new());
    from.save("one", 100, &[1]);
    let archive = from.export(&["one"]);
    let expected = Archive::open(file(&archive)).unwrap();
    for at in 0..archive.len() {
        let mut flipped = archive.clone();
        flipped[at] ^= 1 << (at % 8);
        // Padding and tar's owner fields are not verified.
        if let Ok(archive) = Archive::open(file(&flipped)) {
            let mut manifest = archive.manifest().clone();
            manifest.created_at = expected.manifest().created_at;
            assert_eq!(&manifest, expected.manifest(), "byte {at}");
        }
    }
    assert!(
        to.store.models().unwrap().iter().all(|m| to.store.slots(*m).unwrap().slots.is_empty())
    );
}

#[test]
fn every_truncated_archive_is_refused() {
    let from = World::new();
    from.save("one", 100, &[1]);
    let archive = from.export(&["one"]);
    // The rest is padding and the end mark.
    let whole = archive.len() - 1024 - 512;
    for length in (0..whole).step_by(7) {
        assert!(Archive::open(file(&archive[..length])).is_err(), "{length} bytes");
    }
}

#[test]
fn an_entry_that_is_not_in_the_manifest_is_refused() {
    let from = World::new();
    from.save("one", 100, &[1]);
    let archive = from.export(&["one"]);
    let refused = |change: &dyn Fn(&mut Vec<Entry>)| {
        let mut entries = entries(&archive);
        change(&mut entries);
        Archive::open(file(&packed(&entries))).unwrap_err().to_string()
    };
    let again = |entries: &mut Vec<Entry>| entries.push(entries[1].clone());
    assert!(refused(&again).contains("does not name it, or names it once"));
    let outside = |entries: &mut Vec<Entry>| entries[1].name = "../../etc/passwd".to_owned();
    assert!(refused(&outside).contains("../../etc/passwd"));
    let absolute = |entries: &mut Vec<Entry>| entries[1].name = "/etc/passwd".to_owned();
    assert!(refused(&absolute).contains("does not name it"));
    let less = |entries: &mut Vec<Entry>| drop(entries.pop());
    assert!(refused(&less).contains("it is missing"));
    let late = |entries: &mut Vec<Entry>| entries.swap(0, 1);
    assert!(refused(&late).contains("instead of manifest.toml"));
    for kind in [EntryType::Symlink, EntryType::Link, EntryType::GNUSparse, EntryType::GNULongName]
    {
        let link = |entries: &mut Vec<Entry>| entries[1].kind = kind;
        assert!(refused(&link).contains("not a regular file"), "{kind:?}");
    }
    let huge = |entries: &mut Vec<Entry>| entries[2].size = Some(u64::MAX >> 2);
    assert!(refused(&huge).contains("claims to have"));
    let huge = |entries: &mut Vec<Entry>| entries[0].size = Some(1 << 40);
    assert!(refused(&huge).contains("claims to have"));
}

#[test]
fn an_entry_is_not_read_past_a_header_that_is_not_its_own() {
    let from = World::new();
    from.save("one", 100, &[1]);
    let archive = from.export(&["one"]);
    for (at, what) in [(1, "object"), (3, "slot file")] {
        let refused = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut entries = entries(&archive);
            change(&mut entries[at].bytes);
            Archive::open(file(&packed(&entries))).unwrap_err().to_string()
        };
        let told = refused(&|bytes| bytes.fill(b'x'));
        assert!(told.contains(&format!("not a Hob {what}")), "{told}");
        let told = refused(&|bytes| bytes.truncate(bytes.len() - 1));
        assert!(told.contains("it ends after"), "{told}");
    }
}

#[test]
fn a_wrong_manifest_is_refused() {
    let from = World::new();
    from.save("one", 100, &[1]);
    let archive = from.export(&["one"]);
    let refused = |old: &str, new: &str| {
        let mut entries = entries(&archive);
        let text = String::from_utf8(entries[0].bytes.clone()).unwrap();
        assert!(text.contains(old), "{text}");
        entries[0].bytes = text.replacen(old, new, 1).into_bytes();
        Archive::open(file(&packed(&entries))).unwrap_err().to_string()
    };
    assert!(refused("version = 1", "version = 2").contains("a later version of Hob"));
    assert!(refused("hob slots", "rob slots").contains("its manifest is another one"));
    assert!(refused("id = \"one\"", "id = \"two\"").contains("another conversation"));
    assert!(refused("kind = \"block\"", "kind = \"snapshot\"").contains("another object"));
    assert!(refused("swa_full = false", "swa_full = true").contains("another model"));
    assert!(refused("bytes = ", "bytes = 1").contains("its checksum"));
    assert!(refused("[[object]]", "[[objects]]").contains("does not name it"));
    assert!(Archive::open(file(b"PK\x03\x04")).is_err());
    assert!(Archive::open(file(b"")).unwrap_err().to_string().contains("it is empty"));
}

#[test]
fn a_file_that_is_no_archive_is_named() {
    let refused = |bytes: &[u8]| Archive::open(file(bytes)).unwrap_err().to_string();
    let long = |begin: &[u8]| [begin, &[b'x'; 2_000]].concat();
    let files: [(&[u8], &str); 7] = [
        (b"PK\x03\x04", "ZIP"),
        (b"\x1f\x8b\x08", "gunzip"),
        (b"GGUF", "a model"),
        (b"HOBSLT\0\x01", "slot file"),
        (b"HOBOBJ\0\x01", "an object"),
        (b"{\"id\"", "JSON"),
        (b"hello", "no tar archive"),
    ];
    for (begin, what) in files {
        for bytes in [begin.to_vec(), long(begin)] {
            let told = refused(&bytes);
            assert!(told.contains(what) && told.contains("`hob slots export`"), "{told}");
            assert!(told.contains("`hob import`") && !told.contains("damaged"), "{told}");
        }
    }
}

struct World {
    store: Store,
    model: ModelHash,
    _dir: TempDir,
}

impl World {
    fn empty() -> Self {
        let dir = TempDir::new().unwrap();
        Self { store: Store::open(dir.path()).unwrap(), model: fingerprint().hash(), _dir: dir }
    }

    /// Makes the model known here.
    fn new() -> Self {
        let world = Self::empty();
        world.store.write_model_toml(&fingerprint()).unwrap();
        world
    }

    fn save(&self, name: &str, used_at: u64, numbers: &[i32]) {
        let mut blocks = Vec::new();
        for (n, &number) in numbers.iter().enumerate() {
            let object = block(self.model, number);
            self.store.put_object(self.model, object.id(), &object).unwrap();
            let end = n as u32 + 1;
            blocks.push(BlockRef { end, id: object.id(), bytes: object.file_bytes() });
        }
        let snapshot = Object {
            kind: ObjectKind::Snapshot,
            tokens: Vec::new(),
            start: 1,
            ..block(self.model, 9)
        };
        self.store.put_object(self.model, snapshot.id(), &snapshot).unwrap();
        let bytes = snapshot.file_bytes();
        let record = SlotRecord {
            created_at: Timestamp(50),
            turns: 1,
            tokens: (0..10).map(Token).collect(),
            blocks,
            snapshots: vec![SnapshotRef { position: 1, id: snapshot.id(), bytes }],
            ..SlotRecord::empty(id(name), TtlClass::Long, Timestamp(used_at))
        };
        self.store.put_slot(self.model, &record).unwrap();
    }

    fn slot(&self, name: &str) -> SlotRecord {
        self.store.get_slot(self.model, &id(name)).unwrap()
    }

    fn try_export(&self, names: &[&str]) -> Result<Vec<u8>, ArchiveError> {
        let names: Vec<_> = names.iter().map(|name| id(name)).collect();
        let (mut archive, reader) = (Vec::new(), self.store.reader());
        export(reader, &names, None, NOW, &mut archive).map(|_| archive)
    }

    fn export(&self, names: &[&str]) -> Vec<u8> {
        self.try_export(names).unwrap()
    }

    fn import(&self, archive: &[u8], options: ImportOptions) -> Result<Imported, ArchiveError> {
        let archive = Archive::open(file(archive))?;
        if !options.keep_foreign {
            archive.check_model(&StoreReader::open(self.store.dir()).unwrap())?;
        }
        let written = archive.put_objects(&self.store)?;
        let done = archive.put_slots(&self.store, &NoEngine, options, NOW)?;
        Ok(Imported { written_bytes: done.written_bytes + written, ..done })
    }
}

fn block(model: ModelHash, number: i32) -> Object {
    Object {
        kind: ObjectKind::Block,
        model,
        parent: BlockId::root(model),
        start: 0,
        tokens: vec![Token(number)],
        payload: vec![number as u8; 700].into(),
    }
}

fn id(name: &str) -> ConversationId {
    name.parse().unwrap()
}

fn fingerprint() -> Fingerprint {
    Fingerprint {
        model_sha256: FileDigest([3; 32]),
        drafts: false,
        cache_type_k: "f16".into(),
        cache_type_v: "f16".into(),
        flash_attention: true,
        swa_full: false,
        state_format: "test 1".into(),
        rope: Default::default(),
        loras: Vec::new(),
    }
}

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

/// A forged entry.
#[derive(Clone)]
struct Entry {
    name: String,
    kind: EntryType,
    size: Option<u64>,
    bytes: Vec<u8>,
}

fn entries(archive: &[u8]) -> Vec<Entry> {
    let mut archive = tar::Archive::new(archive);
    let read = |entry: std::io::Result<tar::Entry<'_, _>>| {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        Entry { name, kind: EntryType::Regular, size: None, bytes }
    };
    let entries: Vec<_> = archive.entries().unwrap().map(read).collect();
    assert_eq!(entries[0].name, MANIFEST);
    entries
}

fn packed(entries: &[Entry]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for entry in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(entry.kind);
        header.set_size(entry.size.unwrap_or(entry.bytes.len() as u64));
        header.as_mut_bytes()[..100].fill(0);
        header.as_mut_bytes()[..entry.name.len()].copy_from_slice(entry.name.as_bytes());
        header.set_mode(0o600);
        header.set_cksum();
        builder.append(&header, &entry.bytes[..]).unwrap();
    }
    builder.into_inner().unwrap()
}
