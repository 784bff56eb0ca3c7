//! The private conversation of `hob chat --private`: it ends with the program.
//!
//! - It is deleted when it is replaced or dropped, and by the signals that end `hob`. `hob` waits [`PATIENCE`] for
//!   that.
//! - After a `kill -9` the daemon forgets it within a day, or when the daemon ends.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::client::{Client, path_segment};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{plain, warn};

/// A daemon deletes it in milliseconds. One that hangs may not hold the end of `hob`.
const PATIENCE: Duration = Duration::from_secs(5);

/// The page marks conversations whose ids begin like this, too.
const PREFIX: &str = "private-";

/// At most one conversation.
#[derive(Default)]
pub struct PrivateChat {
    open: Arc<Mutex<Option<OpenChat>>>,
}

struct OpenChat {
    client: Client,
    id: String,
}

impl PrivateChat {
    /// Deletes the conversation that is open then.
    pub fn ender(&self) -> impl Fn() + Send + 'static {
        let open = Arc::clone(&self.open);
        move || end(&open, None)
    }

    /// Ends the one before. Returns the id of a new one.
    ///
    /// # Errors
    /// When no daemon is found that could end the new one; the one before stays open.
    pub fn begin(&self, context: &Context) -> Result<String, Failure> {
        let client = Client::find_within(context, Some(PATIENCE))?;
        let id = format!("{PREFIX}{:016x}", RandomState::new().hash_one(std::process::id()));
        end(&self.open, Some(OpenChat { client, id: id.clone() }));
        Ok(id)
    }
}

impl Drop for PrivateChat {
    fn drop(&mut self) {
        end(&self.open, None);
    }
}

/// Deletes the conversation that is open. The daemon knows none before its first message.
fn end(open: &Mutex<Option<OpenChat>>, next: Option<OpenChat>) {
    let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(OpenChat { client, id }) = std::mem::replace(&mut *open, next) else { return };
    let path = format!("/v1/conversations/{}", path_segment(&id));
    match client.delete::<Value>(&path) {
        // A daemon that has ended has forgotten it.
        Ok(_) | Err(Failure::Refused { status: 404, .. } | Failure::NotRunning { .. }) => {}
        Err(failure) => warn(&format!(
            "hob: the private chat was not ended: {}; `hob conversations rm {id}` ends it",
            plain(&failure.to_string()),
        )),
    }
}
