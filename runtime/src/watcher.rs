//! Follows a micro-batch from within: called for each node of its graph.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Called with the number of beats so far, on the thread that computes. It must be quick, and must
/// not panic: llama.cpp calls it.
pub type Watch = Box<dyn FnMut(u64) + Send>;

/// At most one watch. Without one, a call costs one relaxed load.
#[derive(Default)]
pub struct Watcher {
    is_set: AtomicBool,
    watch: Mutex<Option<Watch>>,
}

impl Watcher {
    pub fn set(&self, watch: Option<Watch>) {
        self.is_set.store(watch.is_some(), Ordering::Relaxed);
        *self.watch.lock() = watch;
    }

    pub fn call(&self, beats: u64) {
        if self.is_set.load(Ordering::Relaxed)
            && let Some(watch) = &mut *self.watch.lock()
        {
            watch(beats);
        }
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("is_set", &self.is_set).finish_non_exhaustive()
    }
}
