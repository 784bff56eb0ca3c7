//! Reads many files on several threads.

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::format::SlotRecord;
use crate::id::ModelHash;
use crate::store::{Checked, Miss, ObjectName, StoreReader, StoredFile};

/// What reading found.
#[derive(Debug, Default)]
pub struct Reading {
    /// The conversations whose slot files are whole.
    pub records: Vec<(ModelHash, SlotRecord)>,
    /// Objects that are whole.
    pub objects: Vec<(ModelHash, ObjectName)>,
    /// What cannot be used, by path.
    pub faults: Vec<Fault>,
}

/// A file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which one.
    pub file: StoredFile,
    /// Why.
    pub reason: String,
    /// Nobody will ever be able to use it; else it only could not be read now.
    pub condemned: bool,
}

impl Reading {
    /// Reads `files` on so many threads. `read` is told of each one that was read, and may break it
    /// off.
    pub fn of(
        reader: &StoreReader,
        files: &[StoredFile],
        threads: usize,
        read: &(dyn Fn(&StoredFile) -> ControlFlow<()> + Sync),
    ) -> Self {
        let next = AtomicUsize::new(0);
        let some = || {
            let mut mine = Self::default();
            while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                mine.add(reader, file);
                if read(file).is_break() {
                    next.store(files.len(), Ordering::Relaxed);
                }
            }
            mine
        };
        let mut all = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(some)).collect();
            let mut all = some();
            for other in others {
                all.take(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            all
        });
        all.faults.sort_by(|a, b| a.file.path.cmp(&b.file.path));
        all
    }

    fn take(&mut self, other: Self) {
        self.records.extend(other.records);
        self.objects.extend(other.objects);
        self.faults.extend(other.faults);
    }

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
