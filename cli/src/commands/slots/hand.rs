//! Who changes files: we, when nobody owns the directory, else the daemon that does.

use hob_slots::Store;
use hob_slots::maintenance::Skipped;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::daemon_of;
use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::plain;

/// Whoever carries it out.
pub enum Hand {
    /// The directory is ours as long as this lives.
    Own(Box<Store>),
    /// A daemon owns it.
    Daemon(Box<Client>),
}

/// Owns the directory, or finds the daemon that does.
pub fn take(context: &Context) -> Result<Hand, Failure> {
    match super::own(context) {
        Ok(store) => Ok(Hand::Own(Box::new(store))),
        Err(owned @ Failure::Owned { .. }) => {
            let daemon = daemon_of(&context.settings);
            let client = daemon.and_then(|daemon| Client::of(&daemon, None).ok());
            client.map(|client| Hand::Daemon(Box::new(client))).ok_or(owned)
        }
        Err(error) => Err(error),
    }
}

/// Asks the daemon.
pub fn ask<T: DeserializeOwned>(client: &Client, path: &str, body: &Value) -> Result<T, Failure> {
    understood(client.post(path, body)?)
}

/// What the daemon's answer says.
pub fn understood<T: DeserializeOwned>(answer: Value) -> Result<T, Failure> {
    serde_json::from_value(answer).map_err(|error| Failure::BrokenAnswer(error.to_string()))
}

/// Tells what was left alone.
pub fn tell(skipped: &[Skipped]) {
    for skipped in skipped {
        eprintln!("hob: {} is left alone: {}", plain(&skipped.conversation), skipped.reason);
    }
}
