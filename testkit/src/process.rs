//! A process that ends with the test that started it.

use std::fmt;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus};
use std::time::Duration;

pub use rustix::process::Signal;
use rustix::process::{Pid, WaitOptions, kill_process, kill_process_group, waitpid};

use crate::wait;

/// A process and the children in its group. Dropping it kills all of them.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts `command` as the leader of a new process group.
    pub fn start(command: &mut Command) -> Self {
        let started = command.process_group(0).spawn();
        Self(started.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}")))
    }

    /// Starts it with the pipes that `command` asks for.
    pub fn start_piped(command: &mut Command) -> (Self, ChildStdin, ChildStdout) {
        let mut this = Self::start(command);
        let (input, output) = (this.0.stdin.take(), this.0.stdout.take());
        (this, input.expect("it is piped"), output.expect("it is piped"))
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }

    /// `None` while it runs.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().ok().flatten()
    }

    /// Sends SIGTERM and waits for the end; kills the process when it takes longer than `patience`.
    pub fn terminate(&mut self, patience: Duration) -> ExitStatus {
        if self.is_running() {
            // An error: it has ended meanwhile.
            kill_process(self.pid(), Signal::TERM).ok();
        }
        wait::attempt(patience, || self.exit_status().ok_or(())).ok();
        self.kill()
    }

    /// Sends SIGKILL to the process and its children, and reaps the process.
    pub fn kill(&mut self) -> ExitStatus {
        // An error: it has ended already.
        kill_process_group(self.pid(), Signal::KILL).ok();
        self.0.wait().expect("a child can be waited for")
    }

    /// Runs `change` while all threads of the process are stopped.
    pub fn stopped_while(&self, change: impl FnOnce()) {
        Self::signal(self.id(), Signal::STOP);
        // A thread may be within a system call when the signal is sent.
        waitpid(Some(self.pid()), WaitOptions::UNTRACED).expect("it is a child");
        change();
        Self::signal(self.id(), Signal::CONT);
    }

    /// Sends a signal to the process and to the children in its group, as a terminal does.
    pub fn signal_group(&self, signal: Signal) {
        kill_process_group(self.pid(), signal).expect("it runs");
    }

    /// Sends a signal to another process.
    pub fn signal(pid: u32, signal: Signal) {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("the process runs");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Memory of a process on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    pub resident_bytes: u64,
    /// The most that was resident so far. The kernel counts roughly.
    pub peak_bytes: u64,
}

impl Memory {
    /// Of the process with this id.
    pub fn of(pid: impl fmt::Display) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let bytes = |name: &str| {
            let size = status.lines().find_map(|line| line.strip_prefix(name)).expect("its memory");
            let kib = size.trim().strip_suffix(" kB").expect("a size");
            kib.parse::<u64>().expect("a number") << 10
        };
        Self { resident_bytes: bytes("VmRSS:"), peak_bytes: bytes("VmHWM:") }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_process_ends_with_its_value() {
        let mut sleep = Process::start(Command::new("sleep").arg("60"));
        assert!(sleep.is_running());
        let pid = sleep.pid();
        drop(sleep);
        assert!(rustix::process::test_kill_process(pid).is_err());
    }

    #[test]
    fn a_process_that_ignores_sigterm_is_killed() {
        let script = "trap '' TERM; echo trapped; while true; do sleep 1; done";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let (mut stubborn, _input, mut output) = Process::start_piped(&mut command);
        output.read_exact(&mut [0; 7]).expect("the trap is set");
        let ended = stubborn.terminate(Duration::from_millis(200));
        assert_eq!(ended.signal(), Some(Signal::KILL.as_raw()));
    }
}
