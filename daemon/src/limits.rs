//! This program, started anew as a child with limits, for libraries that read hostile files: whatever
//! happens to the child is an error of the one file.

use std::io;
use std::path::PathBuf;

/// What a child may take before the system ends it, also when its parent is gone.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Processor time, all threads together.
    pub cpu_secs: u64,
    /// Address space: what it maps and allocates.
    pub address_bytes: u64,
}

/// The file of this program, to start it again.
pub fn program() -> io::Result<PathBuf> {
    // The link leads to this very program, also after an update has replaced its file.
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

impl Limits {
    /// Limits this process, and writes no core file. Where the system has no such limits, the parent
    /// still ends it by time.
    #[cfg(unix)]
    pub fn apply(self) {
        use rustix::process::{Resource, Rlimit, setrlimit};
        let limit = |resource, current, maximum| {
            let limit = Rlimit { current: Some(current), maximum: Some(maximum) };
            setrlimit(resource, limit).ok();
        };
        // SIGXCPU comes at the first limit, SIGKILL at the second: so the parent knows the reason.
        limit(Resource::Cpu, self.cpu_secs, self.cpu_secs + 1);
        limit(Resource::As, self.address_bytes, self.address_bytes);
        limit(Resource::Core, 0, 0);
    }

    #[cfg(not(unix))]
    pub fn apply(self) {}
}
