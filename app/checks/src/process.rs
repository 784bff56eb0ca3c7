//! Processes that end with the check that began them.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// A process and what it has begun. None of it outlives this value.
#[derive(Debug)]
pub struct Running(Child);

impl Running {
    /// Starts `command` as the head of a process group.
    ///
    /// # Panics
    /// Where it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        let started = command.process_group(0).spawn();
        Self(started.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}")))
    }

    /// Whether it has not ended yet.
    pub fn lives(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().ok().flatten()
    }

    /// Asks it to end and waits until it has; one that takes too long is killed.
    pub fn stop(&mut self, patience: Duration) {
        let end = Instant::now() + patience;
        if self.lives() {
            // An error: it has ended meanwhile.
            kill_process(self.pid(), Signal::TERM).ok();
        }
        while self.lives() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.kill();
    }

    /// Ends it and its children at once.
    pub fn kill(&mut self) {
        // Errors: it has ended already.
        kill_process_group(self.pid(), Signal::KILL).ok();
        self.0.wait().ok();
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}
