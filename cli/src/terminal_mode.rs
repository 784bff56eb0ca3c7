//! The terminal's mode while `hob chat` runs: the terminal does not echo keys that are typed while an
//! answer streams, and the next line begins with them.
//!
//! - Dropping [`NoEcho`] sets the mode from before, also by a panic; signals call [`Mode::put_back`].
//! - The line editor sets a mode of its own over this one while it reads.

use std::io::{self, Write, stdin, stdout};

use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
    tcsetattr,
};

/// Ends bracketed paste, which the editor begins.
const PASTE_OFF: &str = "\x1b[?2004l";

/// Ends the colours of an answer.
const PLAIN: &str = "\x1b[0m";

/// The mode that the terminal had.
#[derive(Clone)]
pub struct Mode(Termios);

/// The terminal echoes no keys until it is dropped.
pub struct NoEcho(Mode);

impl NoEcho {
    /// # Errors
    /// When standard input is no terminal.
    pub fn start() -> io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut no_echo = before.clone();
        // Not by lines either: the editor edits what was typed, Backspace included.
        no_echo.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
        no_echo.local_modes.insert(LocalModes::NOFLSH); // Ctrl-C stops the answer and drops no keys.
        no_echo.special_codes[SpecialCodeIndex::VMIN] = 1;
        no_echo.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(stdin(), OptionalActions::Now, &no_echo)?;
        Ok(Self(Mode(before)))
    }

    /// The mode from before.
    pub fn before(&self) -> Mode {
        self.0.clone()
    }
}

impl Drop for NoEcho {
    fn drop(&mut self) {
        self.0.set();
    }
}

impl Mode {
    /// Also where the line editor is interrupted.
    pub fn put_back(&self) {
        self.set();
        let _ = write!(stdout(), "{PASTE_OFF}{PLAIN}");
        let _ = stdout().flush();
    }

    fn set(&self) {
        // An error: the terminal is gone.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.0);
    }
}

/// The shell's next line has none of the colours of an answer that a signal ends within a line.
pub fn end_colours() {
    let _ = write!(stdout(), "{PLAIN}"); // An error: the terminal is gone.
    let _ = stdout().flush();
}

/// Drops the keys that were typed before a question was shown: they do not answer it.
pub fn drop_typed() {
    let _ = tcflush(stdin(), QueueSelector::IFlush); // An error: no terminal.
}
