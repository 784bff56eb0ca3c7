//! `hob` at a terminal of its own.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use hob_testkit::wait::{PATIENCE, until};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::common::Home;

/// A running `hob`, its keyboard and its screen. Dropping it ends `hob`, also where a test fails.
pub struct Terminal {
    child: Child,
    keyboard: File,
    /// It is always read, or `hob` would wait to write.
    screen: Receiver<Vec<u8>>,
    /// As a shell has it: the terminal stays when `hob` ends.
    _open: File,
    /// What was shown behind the words that were waited for.
    unread: Vec<u8>,
}

impl Terminal {
    pub fn start(home: &Home, words: &[&str]) -> Self {
        Self::start_with(home, words, &[])
    }

    pub fn start_with(home: &Home, words: &[&str], env: &[(&str, &str)]) -> Self {
        Self::start_in(80, home, words, env)
    }

    /// At a terminal with so many columns.
    pub fn start_in(columns: u16, home: &Home, words: &[&str], env: &[(&str, &str)]) -> Self {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&screen).unwrap();
        unlockpt(&screen).unwrap();
        let name = ptsname(&screen, Vec::new()).unwrap().into_string().unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&screen, size).unwrap();
        let side = || File::options().read(true).write(true).open(&name).unwrap();
        let mut command = home.command(words);
        command.env("TERM", "xterm").envs(env.iter().copied());
        command.stdin(side()).stdout(side()).stderr(side());
        let child = command.spawn().unwrap();
        let keyboard = File::from(screen);
        let (screen, _open) = (pieces(keyboard.try_clone().unwrap()), side());
        Self { child, keyboard, screen, _open, unread: Vec::new() }
    }

    pub fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Ctrl-C while no line is edited: the terminal of a session sends this signal.
    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// Ctrl-C again and again, until it ends: the kernel joins those that wait.
    pub fn interrupt_until_it_ends(&mut self) -> ExitStatus {
        until("hob has ended", || {
            self.interrupt();
            self.child.try_wait().unwrap()
        })
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Whether the terminal itself shows what is typed, as it does for a shell.
    pub fn echoes(&self) -> bool {
        let modes = tcgetattr(&self.keyboard).unwrap().local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }

    /// Reads the screen until it shows `words`. Returns what it showed since the last time.
    pub fn reads(&mut self, words: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            // In bytes: the last piece may end within a letter, whose rest comes with the next one.
            let at = self.unread.windows(words.len()).position(|shown| shown == words.as_bytes());
            if let Some(at) = at {
                let shown: Vec<u8> = self.unread.drain(..at + words.len()).collect();
                return String::from_utf8_lossy(&shown).into_owned();
            }
            let left = end.saturating_duration_since(Instant::now());
            let Ok(piece) = self.screen.recv_timeout(left) else {
                panic!("no {words:?} in {:?}", String::from_utf8_lossy(&self.unread));
            };
            self.unread.extend(piece);
        }
    }

    /// The exit code.
    pub fn ends(mut self) -> i32 {
        self.wait().code().unwrap_or(-1)
    }

    pub fn wait(&mut self) -> ExitStatus {
        until("hob has ended", || self.child.try_wait().unwrap())
    }
}

/// What the screen shows, as it comes.
fn pieces(mut screen: File) -> Receiver<Vec<u8>> {
    let (sender, pieces) = channel();
    thread::spawn(move || {
        let mut piece = [0; 1024];
        while let Ok(count) = screen.read(&mut piece)
            && sender.send(piece[..count].to_vec()).is_ok()
        {}
    });
    pieces
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.child.kill().ok(); // An error: it has ended.
        self.child.wait().ok();
    }
}
