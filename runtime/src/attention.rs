//! Cuts a long micro-batch when a caller arrives after it began.
//!
//! - The engine's thread sets whether the micro-batch that it computes may be cut; a caller sets that
//!   it waits. llama.cpp's abort callback reads both after each node of the graph.
//! - The engine's thread answers a call once: it cuts the micro-batch that runs, or sees the call before the
//!   next one begins.
//! - A command is received before its caller calls, where the caller's thread loses its core in between. Such a
//!   call must not cut the micro-batch that computes for this very caller, so commands are counted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[derive(Debug, Default)]
pub struct Attention {
    may_cut: AtomicBool,
    /// A caller waits that sent no command.
    called: AtomicBool,
    /// Commands whose callers have called.
    sent: AtomicU64,
    /// The part of `sent` that the engine's thread has received, or is about to.
    heard: AtomicU64,
    /// Commands of such callers that it has received.
    received: AtomicU64,
}

impl Attention {
    /// A caller waits that sends no command: it has closed its channel before.
    pub fn call(&self) {
        self.called.store(true, Ordering::SeqCst);
    }

    /// A caller waits whose command is in the queue already.
    pub fn call_for_command(&self) {
        self.sent.fetch_add(1, Ordering::SeqCst);
    }

    /// The engine's thread has received such a command.
    pub fn received(&self) {
        self.received.fetch_add(1, Ordering::SeqCst);
    }

    /// The engine's thread is about to receive what callers have sent.
    pub fn heard(&self) {
        self.called.store(false, Ordering::SeqCst);
        self.heard.store(self.sent.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Whether the next micro-batch may be cut.
    pub fn may_cut(&self, may_cut: bool) {
        self.may_cut.store(may_cut, Ordering::SeqCst);
    }

    /// Whether the micro-batch that runs must end now. Cheap: asked for every node of a graph.
    pub fn cuts(&self) -> bool {
        self.may_cut.load(Ordering::Relaxed) && self.is_called()
    }

    fn is_called(&self) -> bool {
        let sent = self.sent.load(Ordering::Relaxed);
        // Where the engine had no context, others have received commands: `received` is less then.
        let is_new = sent > self.received.load(Ordering::Relaxed)
            && sent > self.heard.load(Ordering::Relaxed);
        is_new || self.called.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_cuts_what_runs_until_it_is_heard() {
        let attention = Attention::default();
        attention.may_cut(true);
        for call in [Attention::call, Attention::call_for_command] {
            call(&attention);
            assert!(attention.cuts());
            attention.may_cut(false);
            assert!(!attention.cuts());
            attention.may_cut(true);
            attention.heard();
            assert!(!attention.cuts());
        }
    }

    #[test]
    fn a_call_whose_command_was_received_before_cuts_nothing() {
        let attention = Attention::default();
        attention.may_cut(true);
        attention.heard();
        attention.received();
        attention.call_for_command();
        assert!(!attention.cuts(), "it computes for that caller");
        attention.call_for_command();
        assert!(attention.cuts(), "another one waits");
    }
}
