//! Copies the directory of saved KV, and checks it name by name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hob_runtime::Model;
use hob_runtime::backend::fake::{CELL_BYTES, FakeModel, ViewLog};
use hob_slots::format::{ObjectKind, SlotRecord};
use hob_slots::store::StoreReader;
use hob_slots::{Timeline, Token, View};

use crate::support::replay::holes;
use crate::support::{FINGERPRINT, files};

/// Every object that a slot file names exists, is whole, and has the name that its tokens give it.
pub fn check(directory: &Path, model: &dyn Model) {
    let memory = model.facts().memory;
    let store = StoreReader::open(directory).unwrap();
    let listing = store.slots(FINGERPRINT).unwrap();
    assert!(listing.rejected.is_empty(), "{:?}", listing.rejected);
    for entry in listing.slots {
        let record = store.get_slot(FINGERPRINT, &entry.conversation).unwrap();
        let mut timeline = Timeline::of_root(record.adapters.root(FINGERPRINT));
        let views = &record.lineage.views;
        timeline.push_runs(&record.tokens, views, |token| model.vocabulary().is_eog(token));
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

/// Each cell that slot files name, as far as its objects exist, is what its token computes when it sees
/// exactly what its view says, in their cells.
pub fn check_views(directory: &Path, log: &ViewLog) {
    let store = StoreReader::open(directory).unwrap();
    for entry in store.slots(FINGERPRINT).unwrap().slots {
        let Ok(record) = store.get_slot(FINGERPRINT, &entry.conversation) else { continue };
        check_record(&record, &cells(&store, &record), log);
    }
}

/// Positions, tokens and contents.
type Cells = BTreeMap<usize, (Token, u64)>;

fn cells(store: &StoreReader, record: &SlotRecord) -> Cells {
    let mut cells = Cells::new();
    let mut start = 0;
    for block in &record.blocks {
        let range = std::mem::replace(&mut start, block.end)..block.end;
        let Ok(object) = store.get_object(FINGERPRINT, block.id, ObjectKind::Block) else {
            continue;
        };
        let (found, rest) = object.payload.as_chunks::<CELL_BYTES>();
        assert!(rest.is_empty() && found.len() == range.len(), "all cells of {range:?}");
        for (cell, expected) in found.iter().zip(range) {
            let word = |at: usize| u32::from_le_bytes(cell[at..at + 4].try_into().unwrap());
            assert_eq!(word(0), expected, "cells in the order of positions");
            let token = Token(word(4).try_into().unwrap());
            assert_eq!(token, record.tokens[expected as usize]);
            let kv = u64::from_le_bytes(cell[8..].try_into().unwrap());
            cells.insert(expected as usize, (token, kv));
        }
    }
    cells
}

fn check_record(record: &SlotRecord, cells: &Cells, log: &ViewLog) {
    let log = log.lock();
    for (&position, &(token, kv)) in cells {
        let run = record.lineage.views.iter().find(|run| position < run.end as usize);
        let view = run.map_or(View::WHOLE, |run| run.view);
        let at = format!("position {position} of {}", record.conversation);
        let seen = log.get(&kv).unwrap_or_else(|| panic!("{at} was never computed"));
        assert_eq!(view, View::without(holes(seen, position)), "{at} saw {seen:?}");
        let known = seen.iter().map(|seen| Some((*seen, cells.get(seen)?.1)));
        if let Some(known) = known.collect::<Option<Vec<_>>>() {
            let expected = FakeModel::content(&known, token, &record.adapters);
            assert_eq!(kv, expected, "{at} saw other cells");
        }
    }
}

/// The files with this extension; skips those that vanish meanwhile.
pub fn contents(directory: &Path, extension: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = files::with_extensions(directory, &[extension]);
    files.into_iter().filter_map(|file| Some((file.clone(), std::fs::read(file).ok()?))).collect()
}

/// Copies the files with this extension; skips those that vanish meanwhile.
pub fn copy_files(from: &Path, to: &Path, extension: &str) {
    for file in files::with_extensions(from, &[extension]) {
        let target = to.join(file.strip_prefix(from).expect("the file is in the directory"));
        std::fs::create_dir_all(target.parent().expect("a file has a directory")).unwrap();
        std::fs::copy(&file, &target).ok();
    }
}
