//! Ctrl-C while an answer is printed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGINT;
use signal_hook::flag;

/// The exit code of a program that SIGINT ends.
const ENDED: i32 = 130;

/// Counts one Ctrl-C.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// A second Ctrl-C before [`Interrupt::take`] ends the process at once, unless it `must_clean_up`.
    ///
    /// # Errors
    /// When the signal cannot be handled.
    pub fn listen(must_clean_up: bool) -> io::Result<Self> {
        let pressed = Arc::new(AtomicBool::new(false));
        if !must_clean_up {
            // In front of the other: the first Ctrl-C sets the flag only.
            flag::register_conditional_shutdown(SIGINT, ENDED, Arc::clone(&pressed))?;
        }
        flag::register(SIGINT, Arc::clone(&pressed))?;
        Ok(Self(pressed))
    }

    /// Whether Ctrl-C was pressed since the last call.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}
