//! What is known of the next message of a session: its words, and whether its answer may begin.

use serde_json::{Value, json};

#[derive(Default)]
pub(super) struct Utterance {
    /// The words so far.
    pub transcript: String,
    /// Speech has stopped.
    pub has_stopped: bool,
    /// The final transcript has come, and has words.
    pub is_complete: bool,
    /// The options of a requested answer that waits for the final transcript.
    pub awaiting: Option<Value>,
}

impl Utterance {
    /// Whether an answer follows the final transcript.
    pub fn wants_answer(&self) -> bool {
        self.has_stopped || self.awaiting.is_some()
    }

    /// The options of the answer that may begin now; `None`: it waits, or none is wanted.
    pub fn take_due(&mut self) -> Option<Value> {
        let is_due = self.wants_answer() && self.is_complete;
        is_due.then(|| self.awaiting.take().unwrap_or_else(|| json!({})))
    }

    /// Later words are of the next message.
    pub fn begin_answer(&mut self) {
        self.transcript.clear();
        (self.has_stopped, self.is_complete) = (false, false);
    }

    /// Withdraws a request for an answer that waits.
    pub fn cancel_request(&mut self) {
        if self.awaiting.take().is_some() {
            self.has_stopped = false;
        }
    }
}
