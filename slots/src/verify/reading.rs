//! Verifies files on several threads.

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::format::SlotRecord;
use crate::id::ModelHash;
use crate::store::{Checked, Miss, ObjectName, StoreReader, StoredFile};

/// The result.
#[derive(Debug, Default)]
pub struct Reading {
    /// Whole slot files.
    pub records: Vec<(ModelHash, SlotRecord)>,
    /// Whole objects.
    pub objects: Vec<(ModelHash, ObjectName)>,
    /// Sorted by path.
    pub faults: Vec<Fault>,
}

/// A file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub file: StoredFile,
    pub reason: String,
    /// Whether no reader can ever use it; otherwise only this read failed.
    pub condemned: bool,
}

impl Reading {
    /// Verifies `files` on `threads` threads. `read` is called after each file and may stop it.
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
                all.merge(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            all
        });
        all.faults.sort_by(|a, b| a.file.path.cmp(&b.file.path));
        all
    }

    fn merge(&mut self, other: Self) {
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
