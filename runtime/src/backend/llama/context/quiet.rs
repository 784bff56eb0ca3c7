//! Drops what llama.cpp logs of a micro-batch that the engine has cut: three errors, of which none is one.
//!
//! - The callback that cuts runs on the thread that decodes, and llama.cpp logs on it.

use std::cell::RefCell;

use tracing::Dispatch;
use tracing::dispatcher::{DefaultGuard, set_default};

thread_local! {
    static QUIET: RefCell<Option<DefaultGuard>> = const { RefCell::new(None) };
}

/// From here to [`end`], this thread logs nothing.
pub(super) fn begin() {
    QUIET.with_borrow_mut(|quiet| {
        quiet.get_or_insert_with(|| set_default(&Dispatch::none()));
    });
}

pub(super) fn end() {
    QUIET.take();
}
