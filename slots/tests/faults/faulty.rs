//! The real disk, with one or all further calls failing.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use hob_slots::store::files::{Disk, Entry, Facts, Files, Lock, LockError, NewFile, OpenFile};

/// The kinds of system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Read,
    /// Allocates space.
    Grow,
    Write,
    /// Syncs, moves or removes.
    Change,
}

/// The ways to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Does nothing and reports an I/O error.
    Error,
    /// Does nothing and reports a full disk.
    Full,
    /// Writes half of its bytes; the file accepts no more.
    CutShort,
    /// Does its work and reports an error.
    DoneButReported,
    /// All further calls fail until the disk is repaired.
    ErrorFromThenOn,
    /// All further calls that allocate space fail.
    FullFromThenOn,
}

impl Fault {
    pub const ALL: [Self; 6] = [
        Self::Error,
        Self::Full,
        Self::CutShort,
        Self::DoneButReported,
        Self::ErrorFromThenOn,
        Self::FullFromThenOn,
    ];

    /// Whether this kind of call can fail like this.
    pub fn befalls(self, call: Call) -> bool {
        match self {
            Self::Error | Self::ErrorFromThenOn => true,
            Self::Full | Self::FullFromThenOn => matches!(call, Call::Grow | Call::Write),
            Self::CutShort => call == Call::Write,
            Self::DoneButReported => matches!(call, Call::Grow | Call::Change),
        }
    }
}

#[derive(Debug, Default)]
struct Plan {
    /// The calls since the plan was set.
    calls: Vec<Call>,
    /// The call to fail, from 0, and how.
    fault: Option<(usize, Fault)>,
}

#[derive(Clone, Debug, Default)]
pub struct FaultyDisk(Arc<Mutex<Plan>>);

/// The outcome of a call.
enum Fate {
    Passes,
    Fails(io::Error),
    HalfPasses,
    PassesAndFails(io::Error),
}

impl FaultyDisk {
    /// Call `at` fails, counted from now.
    pub fn fail(&self, at: usize, fault: Fault) {
        *self.0.lock().unwrap() = Plan { calls: Vec::new(), fault: Some((at, fault)) };
    }

    /// No call fails. Returns the calls since the plan was set.
    pub fn repair(&self) -> Vec<Call> {
        std::mem::take(&mut *self.0.lock().unwrap()).calls
    }

    fn fate(&self, call: Call) -> Fate {
        let mut plan = self.0.lock().unwrap();
        let number = plan.calls.len();
        plan.calls.push(call);
        let Some((at, fault)) = plan.fault else { return Fate::Passes };
        let lasts = matches!(fault, Fault::ErrorFromThenOn | Fault::FullFromThenOn);
        if number < at || (number > at && !lasts) || !fault.befalls(call) {
            return Fate::Passes;
        }
        let device = || io::Error::from_raw_os_error(5);
        match fault {
            Fault::Error | Fault::ErrorFromThenOn => Fate::Fails(device()),
            Fault::Full | Fault::FullFromThenOn => Fate::Fails(full()),
            Fault::CutShort => Fate::HalfPasses,
            Fault::DoneButReported => Fate::PassesAndFails(device()),
        }
    }

    fn call<T>(&self, call: Call, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self.fate(call) {
            Fate::Passes | Fate::HalfPasses => act(),
            Fate::Fails(error) => Err(error),
            Fate::PassesAndFails(error) => act().and(Err(error)),
        }
    }
}

fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

impl Files for FaultyDisk {
    fn resolve(&self, dir: &Path) -> io::Result<PathBuf> {
        self.call(Call::Read, || Disk.resolve(dir))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        let file = self.call(Call::Grow, || Disk.create(path))?;
        Ok(Box::new(Growing { file, full: false, disk: self.clone() }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn OpenFile>> {
        let file = self.call(Call::Read, || Disk.open(path))?;
        Ok(Box::new(Opened { file, disk: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(Call::Grow, || Disk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call(Call::Change, || Disk.remove(path))
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.call(Call::Grow, || Disk.make_dir(path))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.call(Call::Change, || Disk.sync_dir(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.call(Call::Read, || Disk.list(dir))
    }

    fn stat(&self, path: &Path) -> io::Result<Facts> {
        self.call(Call::Read, || Disk.stat(path))
    }

    fn touch(&self, path: &Path, time: SystemTime) -> io::Result<()> {
        self.call(Call::Change, || Disk.touch(path, time))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.call(Call::Read, || Disk.free_bytes(path))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>, LockError> {
        self.call(Call::Grow, || Ok(())).map_err(LockError::Io)?;
        Disk.lock(path)
    }
}

struct Growing {
    file: Box<dyn NewFile>,
    full: bool,
    disk: FaultyDisk,
}

impl NewFile for Growing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.full {
            return Err(full());
        }
        match self.disk.fate(Call::Write) {
            Fate::HalfPasses => {
                self.full = true;
                self.file.write(&bytes[..bytes.len().div_ceil(2)])
            }
            Fate::Fails(error) | Fate::PassesAndFails(error) => Err(error),
            Fate::Passes => self.file.write(bytes),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.call(Call::Grow, || self.file.sync())
    }
}

struct Opened {
    file: Box<dyn OpenFile>,
    disk: FaultyDisk,
}

impl OpenFile for Opened {
    fn facts(&self) -> io::Result<Facts> {
        self.disk.call(Call::Read, || self.file.facts())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.call(Call::Read, || self.file.read_at(buffer, offset))
    }
}
