//! A file system in memory that can lose power, run full and fail, and that records the disk after
//! every call.
//!
//! [`Disk`] computes what a power cut may leave. Times are those of the test.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hob_slots::Timestamp;
use hob_slots::store::files::{Entry, Facts, Files, Kind, Lock, LockError, NewFile, OpenFile};

mod disk;

pub use disk::{Disk, NodeId};

/// Before every real time, so test times and machine times differ.
pub const EPOCH: Timestamp = Timestamp(1_000_000_000_000);

/// Set when the store reuses a file: real time.
static FIRST_REAL_MOMENT: LazyLock<SystemTime> = LazyLock::new(SystemTime::now);

#[derive(Clone, Debug)]
pub struct MemoryFiles(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    disk: Disk,
    now: SystemTime,
    locked: bool,
    calls: usize,
    /// All calls from this one on fail.
    cut_at: Option<usize>,
    /// Only this call fails.
    fails_at: Option<usize>,
    max_bytes: Option<u64>,
    /// Whether syncing does nothing and reports success.
    ignores_syncs: bool,
    recording: Option<Vec<Disk>>,
}

impl MemoryFiles {
    pub fn on(disk: Disk) -> Self {
        LazyLock::force(&FIRST_REAL_MOMENT);
        Self(Arc::new(Mutex::new(State {
            disk,
            now: time(EPOCH),
            locked: false,
            calls: 0,
            cut_at: None,
            fails_at: None,
            max_bytes: None,
            ignores_syncs: false,
            recording: None,
        })))
    }

    pub fn new() -> Self {
        Self::on(Disk::default())
    }

    pub fn set_time(&self, now: Timestamp) {
        self.state().now = time(now);
    }

    /// The power fails after `calls` more calls.
    pub fn cut_after(&self, calls: usize) {
        let mut state = self.state();
        state.cut_at = Some(state.calls + calls);
    }

    /// One call fails, after `calls` others.
    pub fn fail_after(&self, calls: usize) {
        let mut state = self.state();
        state.fails_at = Some(state.calls + calls);
    }

    /// The number of calls.
    pub fn calls(&self) -> usize {
        self.state().calls
    }

    pub fn limit_to(&self, max_bytes: u64) {
        self.state().max_bytes = Some(max_bytes);
    }

    /// Syncing does nothing and reports success.
    pub fn ignore_syncs(&self) {
        self.state().ignores_syncs = true;
    }

    /// Records the disk after every call.
    pub fn record(&self) {
        let mut state = self.state();
        state.recording = Some(vec![state.disk.clone()]);
    }

    pub fn recorded(&self) -> Vec<Disk> {
        self.state().recording.take().unwrap_or_default()
    }

    pub fn disk(&self) -> Disk {
        self.state().disk.clone()
    }

    pub fn settle(&self) {
        self.state().disk.settle();
    }

    /// Damages the bytes of a file, as a bad disk does.
    pub fn corrupt(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        let node = state.disk.find(path).expect("the file to corrupt exists");
        let now = state.now;
        state.disk.change(node, now, change);
        state.disk.sync(node);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics in a call")
    }

    fn call<T>(&self, act: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state();
        let number = state.calls;
        state.calls += 1;
        if state.cut_at.is_some_and(|at| number >= at) {
            return Err(io::Error::other("the power is out"));
        }
        if state.fails_at == Some(number) {
            return Err(io::Error::other("the disk failed once"));
        }
        act(&mut state)
    }

    /// A call that changes the disk.
    fn change<T>(&self, act: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        self.call(|state| {
            let done = act(state)?;
            let disk = &state.disk;
            if let Some(recording) = &mut state.recording {
                recording.push(disk.clone());
            }
            Ok(done)
        })
    }
}

impl State {
    fn room(&self) -> u64 {
        self.max_bytes.map_or(u64::MAX, |most| most.saturating_sub(self.disk.bytes()))
    }
}

impl Files for MemoryFiles {
    fn resolve(&self, dir: &Path) -> io::Result<PathBuf> {
        self.call(|state| state.disk.find(dir).map(|_| dir.to_owned()))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        let node = self.change(|state| {
            if state.room() == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            state.disk.create(path, state.now)
        })?;
        Ok(Box::new(Handle { files: self.clone(), node }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn OpenFile>> {
        let node = self.call(|state| state.disk.find(path))?;
        Ok(Box::new(Handle { files: self.clone(), node }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|state| state.disk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change(|state| state.disk.remove(path))
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.change(|state| state.disk.make_dir(path))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.change(|state| if state.ignores_syncs { Ok(()) } else { state.disk.sync_dir(path) })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.call(|state| state.disk.list(dir))
    }

    fn stat(&self, path: &Path) -> io::Result<Facts> {
        self.call(|state| state.disk.find(path).map(|node| state.disk.facts(node)))
    }

    fn touch(&self, path: &Path, time: SystemTime) -> io::Result<()> {
        self.change(|state| {
            let node = state.disk.find(path)?;
            let time = if time < *FIRST_REAL_MOMENT { time } else { state.now };
            state.disk.change(node, time, |_| {});
            Ok(())
        })
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        self.call(|state| Ok(state.room()))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>, LockError> {
        let locked = self.change(|state| {
            let node = state.disk.find(path).or_else(|_| state.disk.create(path, state.now))?;
            let now = state.now;
            state.disk.change(node, now, |bytes| *bytes = b"pid 1".to_vec());
            Ok(std::mem::replace(&mut state.locked, true))
        });
        if locked.map_err(LockError::Io)? {
            Err(LockError::Held("this test".into()))
        } else {
            Ok(Box::new(MemoryLock(self.clone())))
        }
    }
}

struct Handle {
    files: MemoryFiles,
    node: NodeId,
}

impl NewFile for Handle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.files.change(|state| {
            let room = usize::try_from(state.room()).unwrap_or(usize::MAX);
            if room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let fits = &bytes[..bytes.len().min(room)];
            let now = state.now;
            state.disk.change(self.node, now, |there| there.extend_from_slice(fits));
            Ok(fits.len())
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        self.files.change(|state| {
            if !state.ignores_syncs {
                state.disk.sync(self.node);
            }
            Ok(())
        })
    }
}

impl OpenFile for Handle {
    fn facts(&self) -> io::Result<Facts> {
        self.files.call(|state| Ok(state.disk.facts(self.node)))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.files.call(|state| {
            if state.disk.facts(self.node).kind != Kind::File {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            let there = &state.disk.bytes_of(self.node)[..];
            let rest = &there[there.len().min(offset as usize)..];
            let read = rest.len().min(buffer.len());
            buffer[..read].copy_from_slice(&rest[..read]);
            Ok(read)
        })
    }
}

#[derive(Debug)]
struct MemoryLock(MemoryFiles);

impl Lock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.0.state().locked = false;
    }
}

fn time(stamp: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(stamp.0)
}
