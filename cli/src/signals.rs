//! Signals while `hob chat` runs: Ctrl-C stops an answer, others end the program. While a file is exported, and
//! while `hob ask` answers, each ends the program.
//!
//! - Before a signal ends the program, what was changed outside of it is put back: the mode and the colours of the
//!   terminal, a private chat, and the part of a file.
//! - A thread handles them, so that this may lock, write and send.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// What Ctrl-C does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CtrlC {
    Ends,
    /// It stops what runs; a second one before [`Interrupt::take`] ends the program.
    Stops,
    /// It stops what runs, however often it is pressed.
    StopsOnly,
}

/// Counts one Ctrl-C.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Whether Ctrl-C was pressed since the last call.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// Handles signals from here on. `put_back` runs before one ends the program.
///
/// # Errors
/// When the signals cannot be handled.
pub fn listen(ctrl_c: CtrlC, put_back: impl Fn() + Send + 'static) -> io::Result<Interrupt> {
    let pressed = Arc::new(AtomicBool::new(false));
    let interrupt = Interrupt(Arc::clone(&pressed));
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM])?;
    thread::spawn(move || {
        for signal in signals.forever() {
            let is_first = signal == SIGINT && !pressed.swap(true, Ordering::Relaxed);
            let stops = match ctrl_c {
                CtrlC::Ends => false,
                CtrlC::Stops => is_first,
                CtrlC::StopsOnly => signal == SIGINT,
            };
            if !stops {
                put_back();
                // An error: the signal has no default action, which these have.
                let _ = emulate_default_handler(signal);
            }
        }
    });
    Ok(interrupt)
}
