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
    /// Address space: what it maps and allocates from then on. What this program's file and its libraries take is not part
    /// of it: a build for CUDA contains NVIDIA's, of hundreds of megabytes.
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
        let address_bytes = self.address_bytes.saturating_add(mapped_bytes());
        limit(Resource::As, address_bytes, address_bytes);
        limit(Resource::Core, 0, 0);
    }
}

/// The address space that this process has taken; 0 where the system does not say.
fn mapped_bytes() -> u64 {
    mapped_in(&std::fs::read_to_string("/proc/self/status").unwrap_or_default()).unwrap_or(0)
}

/// `status`: as Linux writes it of a process.
fn mapped_in(status: &str) -> Option<u64> {
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    let kib: u64 = size.strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_space_of_a_process_is_read_from_what_linux_says_of_it() {
        let status =
            "Name:\thobd\nVmPeak:\t    2048 kB\nVmSize:\t    1024 kB\nVmLck:\t       0 kB\n";
        assert_eq!(mapped_in(status), Some(1 << 20));
        assert_eq!(mapped_in("Name:\thobd\n"), None);
    }

    /// A child has the limit: it is this program with this test alone.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_may_take_its_limit_beside_what_the_program_has_mapped() {
        const IS_CHILD: &str = "HOB_TEST_IS_LIMITED";
        const NAME: &str =
            "limits::tests::a_child_may_take_its_limit_beside_what_the_program_has_mapped";
        if std::env::var_os(IS_CHILD).is_some() {
            // Address space alone: nothing writes to it.
            let mapped = std::hint::black_box(vec![0_u8; 1 << 30]);
            Limits { cpu_secs: None, address_bytes: 256 << 20 }.apply();
            let within = std::hint::black_box(vec![0_u8; 128 << 20]);
            let mut beyond = Vec::<u8>::new();
            let reserved = beyond.try_reserve_exact(512 << 20);
            std::hint::black_box((mapped, within, beyond));
            assert!(reserved.is_err());
            return;
        }
        let mut child = Command::new(std::env::current_exe().unwrap());
        let child = child.args(["--exact", NAME, "--test-threads", "1"]).env(IS_CHILD, "1");
        let output = child.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{:?}: {text}",
            output.status
        );
    }
}
