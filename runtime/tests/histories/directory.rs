//! Copies the directory of saved KV, and checks it name by name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hob_runtime::Model;
use hob_slots::Timeline;
use hob_slots::format::ObjectKind;
use hob_slots::store::StoreReader;

use crate::support::FINGERPRINT;

/// Every object that a slot file names exists, is whole, and has the name that its tokens give it.
pub fn check(directory: &Path, model: &dyn Model) {
    let memory = model.facts().memory;
    let store = StoreReader::open(directory).unwrap();
    let listing = store.slots(FINGERPRINT).unwrap();
    assert!(listing.rejected.is_empty(), "{:?}", listing.rejected);
    for entry in listing.slots {
        let record = store.get_slot(FINGERPRINT, &entry.conversation).unwrap();
        let mut timeline = Timeline::of_root(record.adapters.root(FINGERPRINT));
        timeline.push(&record.tokens, |token| model.vocabulary().is_eog(token));
        let blocks = timeline.blocks();
        if memory.is_plain() {
            let named: Vec<_> = record.blocks.iter().map(|block| block.id).collect();
            let expected: Vec<_> = blocks.iter().map(|block| block.id).collect();
            assert_eq!(named, expected, "{}", entry.conversation);
        }
        for block in &record.blocks {
            let object = store.get_object(FINGERPRINT, block.id, ObjectKind::Block);
            let object = object.unwrap_or_else(|miss| panic!("{}: {miss}", entry.conversation));
            assert_eq!(object.file_bytes(), block.bytes, "{}", entry.conversation);
        }
        for snapshot in &record.snapshots {
            let object = store.get_object(FINGERPRINT, snapshot.id, ObjectKind::Snapshot);
            let object = object.unwrap_or_else(|miss| panic!("{}: {miss}", entry.conversation));
            assert_eq!(object.file_bytes(), snapshot.bytes, "{}", entry.conversation);
        }
        let distinct: BTreeSet<u32> = record.snapshots.iter().map(|one| one.position).collect();
        assert_eq!(distinct.len(), record.snapshots.len(), "{}", entry.conversation);
    }
}

pub fn files(directory: &Path) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found
}

/// The files with this extension; skips those that vanish meanwhile.
pub fn contents(directory: &Path, extension: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = files(directory);
    files.retain(|file| file.extension().is_some_and(|end| end == extension));
    files.into_iter().filter_map(|file| Some((file.clone(), std::fs::read(file).ok()?))).collect()
}

/// Copies the files with this extension; skips those that vanish meanwhile.
pub fn copy_files(from: &Path, to: &Path, extension: &str) {
    for file in files(from) {
        if file.extension().is_some_and(|end| end == extension) {
            let target = to.join(file.strip_prefix(from).expect("the file is in the directory"));
            std::fs::create_dir_all(target.parent().expect("a file has a directory")).unwrap();
            std::fs::copy(&file, &target).ok();
        }
    }
}
