//! Starting hobd over a directory, and ending it.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::{Client, Process, wait};

const MANY_BYTES: u64 = 1 << 40;

/// How hobd is started: the binary, its directory and its arguments.
///
/// The directory holds `data/`, `ready.json`, `log` (standard error of every start) and, with a
/// clock that tests move, `clock`.
#[derive(Clone, Debug)]
pub struct Launch {
    program: PathBuf,
    directory: PathBuf,
    arguments: Vec<OsString>,
    listen: String,
    /// hobd's clock can be moved.
    has_clock: bool,
    has_faults: bool,
    /// What hobd takes for the free bytes of its disk.
    free_bytes: u64,
    variables: Vec<(String, OsString)>,
    hangups: Hangups,
}

/// What hobd does about SIGHUP when it starts.
#[derive(Clone, Copy, Debug)]
enum Hangups {
    /// As this process, which may have been started by `nohup`.
    AsHere,
    Heard,
    Ignored,
}

impl Launch {
    pub fn new(program: impl Into<PathBuf>, directory: &Path) -> Self {
        Self {
            program: program.into(),
            directory: directory.to_owned(),
            arguments: Vec::new(),
            listen: "127.0.0.1:0".to_owned(),
            has_clock: false,
            has_faults: false,
            free_bytes: MANY_BYTES,
            variables: Vec::new(),
            hangups: Hangups::AsHere,
        }
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of hobd's otherwise empty environment.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// Starts hobd with SIGHUP ignored, as `nohup` does.
    pub fn without_hangups(self) -> Self {
        Self { hangups: Hangups::Ignored, ..self }
    }

    /// Starts hobd with the system's handling of SIGHUP, also where this process ignores it.
    pub fn with_hangups(self) -> Self {
        Self { hangups: Hangups::Heard, ..self }
    }

    /// Keeps the slots in `slots/` beside `data/`, not below it.
    pub fn separate_slots(self) -> Self {
        let slots = self.directory.join("slots");
        self.args(["--slots-dir".into(), slots.into_os_string()])
    }

    /// Listens there instead of on a free port.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address.to_string();
        self
    }

    /// Lets [`Launch::pass`] move the clock of the hobds that are started from here on.
    ///
    /// hobd then reads `clock` in the directory, named by the variable `HOB_TEST_CLOCK`, whenever it
    /// reads a clock: wall time and process time are ahead of the system's by the milliseconds in
    /// it. So the time that `pass` adds really passes for hobd, unlike a clock that is set or a
    /// laptop's sleep, and it passes as well between two processes. A second number is the time that the machine
    /// slept: [`Launch::pass_with_sleep`]. Its loops look at the clock
    /// every 20 ms: intervals with a minimum of minutes are waited for by moving the clock.
    pub fn with_clock(mut self) -> Self {
        self.has_clock = true;
        self
    }

    /// Lets `time` pass for a hobd with a clock, running or not.
    pub fn pass(&self, time: Duration) {
        self.pass_with_sleep(time, Duration::ZERO);
    }

    /// Lets `awake` pass for a hobd with a clock, and `asleep` for its wall clock alone. It reads both together.
    pub fn pass_with_sleep(&self, awake: Duration, asleep: Duration) {
        let file = self.clock_file();
        let text = fs::read_to_string(&file).unwrap_or_default();
        let mut before = text.split_whitespace().map(|number| number.parse::<u128>().unwrap_or(0));
        let mut after = |more: Duration| before.next().unwrap_or(0) + more.as_millis();
        let (passed_ms, slept_ms) = (after(awake), after(asleep));
        let next = file.with_extension("next");
        fs::write(&next, format!("{passed_ms} {slept_ms}")).expect("the directory is writable");
        fs::rename(&next, &file).expect("the directory is writable");
    }

    /// hobd takes this for the free bytes of its disk, by the variable `HOB_TEST_FREE_BYTES`;
    /// otherwise 1 TiB, so that no test depends on the disk of the machine.
    pub fn with_free_bytes(mut self, bytes: u64) -> Self {
        self.free_bytes = bytes;
        self
    }

    /// At most this much KV waits for hobd's disk, by the variable `HOB_TEST_UNSAVED_BYTES`; otherwise a part of
    /// the machine's memory that no test fills.
    pub fn with_unsaved_bytes(self, bytes: u64) -> Self {
        self.env("HOB_TEST_UNSAVED_BYTES", bytes.to_string())
    }

    /// hobd chooses micro-batches and guesses as if all took equally long, by the variable
    /// `HOB_TEST_IGNORE_TIME`: the same requests then always make the same ones.
    pub fn ignoring_time(self) -> Self {
        self.env("HOB_TEST_IGNORE_TIME", "1")
    }

    /// hobd fetches KV of the shared tier also where computing might be quicker, and waits 10 s for it, by the variable
    /// `HOB_TEST_FETCH_SHARED`: otherwise the load of the machine decides.
    pub fn fetching_shared_kv(self) -> Self {
        self.env("HOB_TEST_FETCH_SHARED", "1")
    }

    /// Lets [`Launch::inject`] work.
    pub fn with_faults(mut self) -> Self {
        self.has_faults = true;
        self
    }

    /// The first thread of hobd that reaches `place` does `fault`, once, or finds `disk` `full`: see
    /// `runtime/src/fault.rs`.
    pub fn inject(&self, place: &str, fault: &str) -> Fault {
        let path = self.faults_dir().join(place);
        let written = fs::write(self.directory.join("fault"), fault);
        written
            .and_then(|()| fs::rename(self.directory.join("fault"), &path))
            .expect("with_faults()");
        Fault { path }
    }

    fn faults_dir(&self) -> PathBuf {
        self.directory.join("faults")
    }

    /// hobd in a clean environment, neither with an address nor a ready file.
    pub fn command(&self) -> Command {
        let through = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.args(arguments).arg(&self.program);
            command
        };
        let mut command = match self.hangups {
            Hangups::Ignored => through("/bin/sh", &["-c", "trap '' HUP; exec \"$0\" \"$@\""]),
            // A shell cannot undo what it was started with; the env of GNU's coreutils can.
            Hangups::Heard if cfg!(target_os = "linux") => {
                through("/usr/bin/env", &["--default-signal=HUP"])
            }
            Hangups::Heard | Hangups::AsHere => Command::new(&self.program),
        };
        command.env_clear().env("HOME", &self.directory).stdin(Stdio::null());
        if self.has_clock {
            command.env("HOB_TEST_CLOCK", self.clock_file());
        }
        command.env("HOB_TEST_FREE_BYTES", self.free_bytes.to_string());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.arg("--data-dir").arg(self.directory.join("data")).args(&self.arguments);
        if self.has_faults {
            fs::create_dir_all(self.faults_dir()).expect("the directory is writable");
            command.env("HOB_TEST_FAULTS", self.faults_dir());
        }
        command
    }

    /// Starts the process and does not wait for it.
    pub fn spawn(&self) -> Starting {
        let ready_file = self.directory.join("ready.json");
        fs::remove_file(&ready_file).ok(); // An error: there is none yet.
        let log = fs::File::options().create(true).append(true).open(self.log_file());
        let mut command = self.command();
        command.args(["--listen", &self.listen]).arg("--ready-file").arg(&ready_file);
        command.stdout(Stdio::null()).stderr(log.expect("the directory is writable"));
        Starting { process: Process::start(&mut command), ready_file }
    }

    /// Starts hobd and waits until it serves requests.
    ///
    /// # Panics
    /// When it ends instead, with its log.
    pub fn start(&self) -> Hobd {
        self.spawn().ready().unwrap_or_else(|| panic!("hobd ended at once: {}", self.log()))
    }

    /// What hobd wrote on standard error.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn clock_file(&self) -> PathBuf {
        self.directory.join("clock")
    }

    fn log_file(&self) -> PathBuf {
        self.directory.join("log")
    }
}

/// A fault that hobd has not done yet.
#[derive(Debug)]
pub struct Fault {
    path: PathBuf,
}

impl Fault {
    pub fn is_done(&self) -> bool {
        !self.path.exists()
    }

    /// Ends a `wait`, or makes room on a `full` disk.
    pub fn end(self) {
        fs::remove_file(self.path).expect("hobd leaves the file");
    }

    /// Waits until hobd does it.
    pub fn done(&self) {
        wait::until("the fault happens", || self.is_done().then_some(()));
    }
}

/// A hobd that may not serve yet.
#[derive(Debug)]
pub struct Starting {
    process: Process,
    ready_file: PathBuf,
}

impl Starting {
    /// Ends it before it serves.
    pub fn terminate(mut self) -> ExitStatus {
        self.process.terminate(wait::PATIENCE)
    }

    /// Waits until it serves requests; `None` when it ends instead.
    pub fn ready(mut self) -> Option<Hobd> {
        while self.process.is_running() {
            if let Ok(text) = fs::read_to_string(&self.ready_file) {
                let is_whole = text.ends_with('\n') && text.lines().count() == 1;
                assert!(is_whole, "the ready file appears whole: {text:?}");
                let ready = serde_json::from_str(&text).expect("the ready file is JSON");
                return Some(Hobd { process: self.process, client: Client::of(&ready), ready });
            }
            thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

/// A hobd that serves requests. Dropping it is `kill -9`.
#[derive(Debug)]
pub struct Hobd {
    pub process: Process,
    pub client: Client,
    /// The content of the ready file.
    pub ready: Value,
}
