//! This program, started anew as a child with limits, for libraries that read hostile files: whatever
//! happens to the child is an error of the one file.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

/// What a child may take before the system ends it, also when its parent is gone.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Processor time, all threads together; `None` for a child that serves for long.
    pub cpu_secs: Option<u64>,
    /// Address space: what it maps and allocates.
    pub address_bytes: u64,
}

/// The file of this program, to start it again.
pub fn program() -> io::Result<PathBuf> {
    // The link leads to this very program, also after an update has replaced its file.
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// This program, as a child in a process group of its own: a terminal sends Ctrl-C to the whole group of the parent,
/// which ends its children itself.
pub fn command() -> io::Result<Command> {
    let mut command = Command::new(program()?);
    command.process_group(0);
    Ok(command)
}

impl Limits {
    /// Limits this process, which ends with the thread that started it, and before it where memory is short.
    pub fn apply_as_child(self) {
        #[cfg(target_os = "linux")]
        {
            use rustix::process::{Signal, set_parent_process_death_signal};
            set_parent_process_death_signal(Some(Signal::KILL)).ok();
        }
        self.apply_as_server();
    }

    /// Applies the limits in a child that serves until its input is closed: it outlives the thread that started it,
    /// which may be one of a pool.
    pub fn apply_as_server(self) {
        #[cfg(target_os = "linux")]
        std::fs::write("/proc/self/oom_score_adj", "1000").ok();
        self.apply();
    }

    /// Limits this process, and writes no core file. Where the system has no such limits, the parent
    /// still ends it by time.
    pub fn apply(self) {
        use rustix::process::{Resource, Rlimit, setrlimit};
        let limit = |resource, current, maximum| {
            let limit = Rlimit { current: Some(current), maximum: Some(maximum) };
            setrlimit(resource, limit).ok();
        };
        // SIGXCPU comes at the first limit, SIGKILL at the second: so the parent knows the reason.
        if let Some(seconds) = self.cpu_secs {
            limit(Resource::Cpu, seconds, seconds + 1);
        }
        limit(Resource::As, self.address_bytes, self.address_bytes);
        limit(Resource::Core, 0, 0);
    }
}

/// Why a child ended, and whether that may lie outside of what it did.
pub fn cause(status: ExitStatus) -> (String, bool) {
    use std::os::unix::process::ExitStatusExt;

    use rustix::process::Signal;

    let Some(signal) = status.signal() else { return of_code(status) };
    let is = |known: Signal| signal == known.as_raw();
    if is(Signal::XCPU) {
        return ("out of processor time".to_owned(), true); // A faster machine may need less.
    }
    let is_outside = is(Signal::KILL) || is(Signal::TERM) || is(Signal::INT);
    (format!("signal {signal}"), is_outside)
}

fn of_code(status: ExitStatus) -> (String, bool) {
    (status.code().map_or("no exit code".to_owned(), |code| format!("exit code {code}")), false)
}
