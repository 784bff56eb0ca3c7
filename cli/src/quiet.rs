//! The terminal's mode while `hob chat` runs: keys that are typed while an answer streams are not
//! shown, and wait for the next line.
//!
//! - The mode from before is back when [`Quiet`] is dropped, also by a panic; signals call
//!   [`Mode::put_back`].
//! - The line editor sets a mode of its own over this one while it reads.

use std::io::{self, Write, stdin, stdout};

use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
    tcsetattr,
};

/// Ends bracketed paste, which the editor begins.
const PASTE_OFF: &str = "\x1b[?2004l";

/// The mode that the terminal had.
#[derive(Clone)]
pub struct Mode(Termios);

/// Shows no keys until it is dropped.
pub struct Quiet(Mode);

impl Quiet {
    /// # Errors
    /// When standard input is no terminal.
    pub fn start() -> io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut quiet = before.clone();
        // Not by lines either: the editor edits what was typed, Backspace included.
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
        quiet.local_modes.insert(LocalModes::NOFLSH); // Ctrl-C stops the answer and drops no keys.
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(stdin(), OptionalActions::Now, &quiet)?;
        Ok(Self(Mode(before)))
    }

    /// The mode from before.
    pub fn before(&self) -> Mode {
        self.0.clone()
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        self.0.set();
    }
}

impl Mode {
    /// Also where the line editor is interrupted.
    pub fn put_back(&self) {
        self.set();
        let _ = write!(stdout(), "{PASTE_OFF}");
        let _ = stdout().flush();
    }

    fn set(&self) {
        // An error: the terminal is gone.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.0);
    }
}

/// Drops the keys that were typed and not read: they answer no question that was not yet asked.
pub fn drop_typed() {
    let _ = tcflush(stdin(), QueueSelector::IFlush); // An error: no terminal.
}
