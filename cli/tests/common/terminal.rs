//! `hob` at a terminal of its own.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Child;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::common::Home;

/// A running `hob`, its keyboard and its screen.
pub struct Terminal {
    child: Child,
    screen: File,
}

impl Terminal {
    pub fn start(home: &Home, words: &[&str]) -> Self {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&screen).unwrap();
        unlockpt(&screen).unwrap();
        let name = ptsname(&screen, Vec::new()).unwrap().into_string().unwrap();
        let side = || File::options().read(true).write(true).open(&name).unwrap();
        let mut command = home.command(words);
        command.env("TERM", "xterm").stdin(side()).stdout(side()).stderr(side());
        let child = command.spawn().unwrap();
        Self { child, screen: File::from(screen) }
    }

    pub fn types(&mut self, keys: &str) {
        self.screen.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads the screen until it shows `words`. Returns what it showed since the last time.
    pub fn reads(&mut self, words: &str) -> String {
        let mut shown = Vec::new();
        let mut piece = [0; 1024];
        while !String::from_utf8_lossy(&shown).contains(words) {
            let count = self.screen.read(&mut piece).unwrap();
            shown.extend(&piece[..count]);
        }
        String::from_utf8_lossy(&shown).into_owned()
    }

    /// The exit code.
    pub fn ends(mut self) -> i32 {
        // The screen must be read, or `hob` waits to write.
        let mut screen = self.screen.try_clone().unwrap();
        std::thread::spawn(move || std::io::copy(&mut screen, &mut std::io::sink()));
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}
