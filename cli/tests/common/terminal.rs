//! `hob` at a terminal of its own.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::common::Home;

/// A running `hob`, its keyboard and its screen. Dropping it ends `hob`, also where a test fails.
pub struct Terminal {
    child: Child,
    screen: File,
    /// What was shown behind the words that were waited for.
    unread: Vec<u8>,
}

impl Terminal {
    pub fn start(home: &Home, words: &[&str]) -> Self {
        Self::start_with(home, words, &[])
    }

    pub fn start_with(home: &Home, words: &[&str], env: &[(&str, &str)]) -> Self {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&screen).unwrap();
        unlockpt(&screen).unwrap();
        let name = ptsname(&screen, Vec::new()).unwrap().into_string().unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&screen, size).unwrap();
        let side = || File::options().read(true).write(true).open(&name).unwrap();
        let mut command = home.command(words);
        command.env("TERM", "xterm").envs(env.iter().copied());
        command.stdin(side()).stdout(side()).stderr(side());
        let child = command.spawn().unwrap();
        Self { child, screen: File::from(screen), unread: Vec::new() }
    }

    pub fn types(&mut self, keys: &str) {
        self.screen.write_all(keys.as_bytes()).unwrap();
    }

    /// Ctrl-C while no line is edited: the terminal of a session sends this signal.
    pub fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    /// Reads the screen until it shows `words`. Returns what it showed since the last time.
    pub fn reads(&mut self, words: &str) -> String {
        let mut piece = [0; 1024];
        loop {
            let shown = String::from_utf8_lossy(&self.unread).into_owned();
            if let Some(at) = shown.find(words) {
                let end = at + words.len();
                self.unread = shown.as_bytes()[end..].to_vec();
                return shown[..end].to_owned();
            }
            let count = self.screen.read(&mut piece).unwrap_or_else(|_| panic!("ended: {shown:?}"));
            self.unread.extend(&piece[..count]);
        }
    }

    /// The exit code.
    pub fn ends(mut self) -> i32 {
        // The screen must be read, or `hob` waits to write.
        let mut screen = self.screen.try_clone().unwrap();
        std::thread::spawn(move || std::io::copy(&mut screen, &mut std::io::sink()));
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.child.kill().ok(); // An error: it has ended.
        self.child.wait().ok();
    }
}
