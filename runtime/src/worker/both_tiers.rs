//! What the engine asks of the model's tiers and of the draft model's together.

use std::collections::BTreeSet;
use std::sync::Arc;

use hob_slots::ConversationId;
use parking_lot::Mutex;

use super::Core;

impl Core {
    pub(crate) fn when_flushed(&self, done: impl FnOnce() + Send + 'static) {
        let Some(others) = &self.draft_tiers else { return self.tiers.when_flushed(done) };
        let one = both(move |(), ()| done());
        let other = one.clone();
        self.tiers.when_flushed(move || one(()));
        others.when_flushed(move || other(()));
    }

    pub(crate) fn flush(&self) {
        self.tiers.flush();
        if let Some(others) = &self.draft_tiers {
            others.flush();
        }
    }

    pub(super) fn set_open(&self, open: BTreeSet<ConversationId>) {
        if let Some(others) = &self.draft_tiers {
            others.set_open(open.clone());
        }
        self.tiers.set_open(open);
    }

    pub(super) fn forget(
        &self,
        conversation: &ConversationId,
        done: impl FnOnce(Result<(), String>) + Send + 'static,
    ) {
        let Some(others) = &self.draft_tiers else {
            return self.tiers.forget(conversation, done);
        };
        let one = both(move |one: Result<(), String>, other| done(one.and(other)));
        let other = one.clone();
        self.tiers.forget(conversation, one);
        others.forget(conversation, other);
    }
}

/// A function that is called twice, and calls `done` with both values then.
fn both<T: Send + 'static>(
    done: impl FnOnce(T, T) + Send + 'static,
) -> impl Fn(T) + Clone + Send + 'static {
    let waiting = Arc::new(Mutex::new((None, Some(done))));
    move |value| {
        let mut waiting = waiting.lock();
        match (waiting.0.take(), &mut waiting.1) {
            (None, _) => waiting.0 = Some(value),
            (Some(first), done) => {
                let done = done.take().expect("it is called twice");
                done(first, value);
            }
        }
    }
}
