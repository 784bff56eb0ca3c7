//! Reads many files on all cores.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hob_slots::{
    Checked, ConversationId, Miss, ModelHash, ObjectName, SlotRecord, StoreReader, StoredFile,
};
use indicatif::ProgressBar;

/// What reading found.
#[derive(Default)]
pub struct Read {
    /// The conversations whose slot files are whole.
    pub records: Vec<(ModelHash, SlotRecord)>,
    /// Objects that are whole.
    pub objects: Vec<(ModelHash, ObjectName)>,
    /// What cannot be used, by path.
    pub faults: Vec<Fault>,
}

/// A file that cannot be used.
pub struct Fault {
    pub file: StoredFile,
    pub reason: String,
    /// Nobody will ever be able to use it; else it only could not be read now.
    pub condemned: bool,
}

pub fn read(reader: &StoreReader, files: &[StoredFile], bar: &ProgressBar) -> Read {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, read) = (AtomicUsize::new(0), Mutex::new(Read::default()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut mine = Read::default();
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    mine.add(reader, file);
                    bar.inc(file.bytes);
                }
                let mut read = read.lock().expect("no thread panics while it holds this");
                read.records.extend(mine.records);
                read.objects.extend(mine.objects);
                read.faults.extend(mine.faults);
            });
        }
    });
    let mut read = read.into_inner().expect("no thread panics while it holds this");
    read.faults.sort_by(|a, b| a.file.path.cmp(&b.file.path));
    read
}

impl Read {
    fn add(&mut self, reader: &StoreReader, file: &StoredFile) {
        match reader.check(file) {
            Ok(Checked::Slot(record)) => self.records.push((file.model, *record)),
            Ok(Checked::Object(name)) => self.objects.push((file.model, name)),
            Err(rejected) if matches!(rejected.miss, Miss::Absent) => {}
            Err(rejected) => self.faults.push(Fault {
                file: file.clone(),
                reason: rejected.miss.to_string(),
                condemned: rejected.miss.condemns_the_file(),
            }),
        }
    }
}

/// The files that a conversation is made of; `None` when there are none.
pub fn named(
    reader: &StoreReader,
    model: ModelHash,
    id: &ConversationId,
) -> Option<Vec<(ModelHash, PathBuf)>> {
    let slots = reader.slot_paths(model, id);
    let slots: Vec<PathBuf> = slots.into_iter().filter(|path| path.exists()).collect();
    if slots.is_empty() {
        return None;
    }
    let record = reader.get_slot(model, id).ok();
    let objects = record.iter().flat_map(SlotRecord::objects);
    let objects = objects.map(|(object, _)| reader.object_path(model, object));
    Some(slots.into_iter().chain(objects).map(|path| (model, path)).collect())
}
