//! A disk whose calls panic, wait or fail when a test asks for it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use hob_runtime::{Engine, EngineOptions, Model};
use hob_slots::store::Store;
use hob_slots::store::files::{HookedDisk, Hooks};
use parking_lot::Mutex;

use crate::support::FINGERPRINT;

/// What the real disk does before its calls.
#[derive(Debug, Default)]
pub struct RiggedDisk {
    /// Further reads of objects that panic.
    pub reads: AtomicUsize,
    /// Further writes of the writer thread that succeed before those that panic.
    pub writes_before: AtomicUsize,
    /// Further writes of the writer thread that panic.
    pub writes: AtomicUsize,
    /// The readers wait before they open a slot file.
    pub hold_readers: AtomicBool,
    /// The readers wait before they open an object.
    pub hold_objects: AtomicBool,
    /// One of them does so now.
    pub is_object_held: AtomicBool,
    /// Every write finds the disk full.
    pub full: AtomicBool,
    /// Further listings of directories that panic.
    pub lists: AtomicUsize,
    /// The directories that were listed, in order.
    pub listed: Mutex<Vec<PathBuf>>,
    /// This thread must not read.
    pub barred: Mutex<Option<ThreadId>>,
    /// The writer thread waits before it lists a directory.
    pub hold_lists: AtomicBool,
    /// It waits before it lists the directory of this name.
    pub hold_list_of: Mutex<Option<String>>,
    /// It does so now.
    pub is_held: AtomicBool,
    /// How long each write takes.
    pub write_millis: AtomicU64,
}

/// Counts down. `false` at 0.
fn is_left(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok()
}

fn panic_while(left: &AtomicUsize) {
    assert!(!is_left(left), "a rigged call");
}

impl RiggedDisk {
    fn check_reader(&self, path: &Path) {
        let is_barred = *self.barred.lock() == Some(std::thread::current().id());
        assert!(!is_barred, "{} is read on a thread that must not", path.display());
    }

    fn holds_list(&self, dir: &Path) -> bool {
        let named = || self.hold_list_of.lock().as_ref().is_some_and(|name| dir.ends_with(name));
        self.hold_lists.load(Ordering::SeqCst) || named()
    }
}

impl Hooks for RiggedDisk {
    fn creates(&self, _: &Path) -> io::Result<()> {
        if std::thread::current().name() == Some("hob-writer") && !is_left(&self.writes_before) {
            panic_while(&self.writes);
        }
        if self.full.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        std::thread::sleep(Duration::from_millis(self.write_millis.load(Ordering::SeqCst)));
        Ok(())
    }

    fn opens(&self, path: &Path) -> io::Result<()> {
        self.check_reader(path);
        let is_reader = std::thread::current().name() == Some("hob-reader");
        if path.extension().is_some_and(|end| end == "kv") {
            panic_while(&self.reads);
            while is_reader && self.hold_objects.load(Ordering::SeqCst) {
                self.is_object_held.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(1));
            }
        } else if is_reader {
            while self.hold_readers.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    fn lists(&self, dir: &Path) -> io::Result<()> {
        self.check_reader(dir);
        panic_while(&self.lists);
        self.listed.lock().push(dir.to_owned());
        if std::thread::current().name() == Some("hob-writer") {
            while self.holds_list(dir) {
                self.is_held.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    fn stats(&self, path: &Path) -> io::Result<()> {
        self.check_reader(path);
        Ok(())
    }
}

pub fn on(
    disk: &Arc<RiggedDisk>,
    path: &Path,
    model: &Arc<dyn Model>,
    options: EngineOptions,
) -> Engine {
    let hooked = Arc::new(HookedDisk(disk.clone()));
    let store = Arc::new(Store::open_on(hooked, path).expect("a free directory"));
    Engine::start(model.clone(), FINGERPRINT, Some(store), options).expect("the context fits")
}
