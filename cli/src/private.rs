//! The private conversation of `hob chat --private`: it ends with the program.
//!
//! - It is deleted when it is replaced or dropped, and by the signals that end `hob`.
//! - After a `kill -9` the daemon forgets it within a day, or when the daemon ends.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::client::{Client, path_segment};
use crate::failure::Failure;
use crate::output::plain;

/// The page marks conversations whose ids begin like this, too.
const PREFIX: &str = "private-";

/// At most one conversation.
#[derive(Default)]
pub struct PrivateChat {
    open: Arc<Mutex<Option<Open>>>,
}

struct Open {
    client: Client,
    id: String,
}

impl PrivateChat {
    /// `is_edited`: Ctrl-C ends an answer, not the chat.
    ///
    /// # Errors
    /// When the handlers of signals cannot be installed.
    pub fn new(is_edited: bool) -> io::Result<Self> {
        let this = Self::default();
        #[cfg(unix)]
        end_by_signal(this.open.clone(), is_edited)?;
        Ok(this)
    }

    /// Ends the one before. Returns the id of a new one.
    pub fn begin(&self, client: Client) -> String {
        let id = format!("{PREFIX}{:016x}", RandomState::new().hash_one(std::process::id()));
        end(&self.open, Some(Open { client, id: id.clone() }));
        id
    }
}

impl Drop for PrivateChat {
    fn drop(&mut self) {
        end(&self.open, None);
    }
}

/// Deletes the conversation that is open. The daemon knows none before its first message.
fn end(open: &Mutex<Option<Open>>, next: Option<Open>) {
    let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Open { client, id }) = std::mem::replace(&mut *open, next) else { return };
    match client.delete::<Value>(&format!("/v1/conversations/{}", path_segment(&id))) {
        // A daemon that has ended has forgotten it.
        Ok(_) | Err(Failure::Refused { status: 404, .. } | Failure::NotRunning { .. }) => {}
        Err(failure) => eprintln!(
            "hob: the private chat was not ended: {}; `hob conversations rm {id}` ends it",
            plain(&failure.to_string()),
        ),
    }
}

#[cfg(unix)]
fn end_by_signal(open: Arc<Mutex<Option<Open>>>, is_edited: bool) -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGTERM])?;
    if !is_edited {
        signals.add_signal(SIGINT)?;
    }
    std::thread::spawn(move || {
        for signal in signals.forever() {
            end(&open, None);
            // An error: the signal has no default action, which these have.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
    Ok(())
}
