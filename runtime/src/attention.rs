//! Ends a long micro-batch for callers who have come since it began.
//!
//! - The engine's thread sets whether the micro-batch that it computes may be cut; a caller sets that
//!   it waits. llama.cpp's abort callback reads both after each node of the graph.
//! - A call is heard once: in the micro-batch that runs, or before the next one begins.

use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, Default)]
pub struct Attention {
    may_cut: AtomicBool,
    called: AtomicBool,
}

impl Attention {
    /// A caller waits. What it has sent can be received already.
    pub fn call(&self) {
        self.called.store(true, Ordering::SeqCst);
    }

    /// The engine's thread is about to receive what callers have sent.
    pub fn heard(&self) {
        self.called.store(false, Ordering::SeqCst);
    }

    /// Whether the next micro-batch may be cut.
    pub fn may_cut(&self, may_cut: bool) {
        self.may_cut.store(may_cut, Ordering::SeqCst);
    }

    /// Whether the micro-batch that runs must end now. Cheap: asked for every node of a graph.
    pub fn cuts(&self) -> bool {
        self.may_cut.load(Ordering::Relaxed) && self.called.load(Ordering::Relaxed)
    }
}
