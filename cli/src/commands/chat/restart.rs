//! Waiting for a daemon that loads its model again.

use std::thread::sleep;
use std::time::{Duration, Instant};

use hob_api::Status;

use crate::client::Client;
use crate::context::Context;
use crate::signals::Interrupt;

const POLL: Duration = Duration::from_millis(200);
/// A daemon that starts with another model announces itself before it loads the weights.
const PATIENCE: Duration = Duration::from_secs(600);

/// Polls until `told` has something to say of the status; `None` after Ctrl-C and after 10 minutes.
pub fn wait(
    context: &Context,
    interrupt: Option<&Interrupt>,
    told: impl Fn(&Status) -> Option<String>,
) -> Option<String> {
    if let Some(interrupt) = interrupt {
        interrupt.take(); // One that was pressed before.
    }
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE && !interrupt.is_some_and(Interrupt::take) {
        sleep(POLL);
        // The old daemon has ended, and the new one does not answer yet.
        let Ok(status) = Client::find(context).and_then(|client| client.status()) else { continue };
        if let Some(text) = told(&status) {
            return Some(text);
        }
    }
    None
}
