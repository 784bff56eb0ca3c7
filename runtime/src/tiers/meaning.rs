//! Vectors of the sentences of live conversations, made by an embedding model block by block, behind
//! their words.
//!
//! - Runs on a thread of its own. A question never waits for it: a block without a vector is found by its
//!   words.
//! - No lock is held while the model computes.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hob_slots::recall::sentences;
use parking_lot::{Condvar, Mutex};
use tracing::error;

use super::counters::Counters;
use super::passages::Indexed;
use crate::embedder::Embedder;

/// How long a vector is waited for, behind answers that have the cores. After that the sentence stays
/// without.
const PATIENCE: Duration = Duration::from_secs(10);

/// The conversations whose words were read. One that is forgotten meanwhile has no index any more.
#[derive(Debug, Default)]
pub(super) struct Unembedded {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    indexes: VecDeque<Weak<Mutex<Indexed>>>,
    closed: bool,
}

impl Unembedded {
    /// Has vectors made of the blocks that have none.
    pub fn push(&self, indexed: &Arc<Mutex<Indexed>>) {
        let mut state = self.state.lock();
        let index = Arc::downgrade(indexed);
        state.indexes.retain(|other| !other.ptr_eq(&index));
        state.indexes.push_back(index);
        self.changed.notify_one();
    }

    /// Ends the thread.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Makes vectors until it is closed.
    pub fn serve(&self, embedder: &Embedder, counters: &Counters) {
        while let Some(index) = self.next() {
            let embed = || self.embed(&index, embedder, counters);
            if catch_unwind(AssertUnwindSafe(embed)).is_err() {
                Counters::add(&counters.panics, 1);
                error!("blocks of a conversation have no vectors: their words find them");
            }
        }
    }

    /// Makes vectors of the blocks that have none, as long as it is not closed and the conversation is not forgotten.
    fn embed(&self, index: &Weak<Mutex<Indexed>>, embedder: &Embedder, counters: &Counters) {
        let text = || index.upgrade()?.lock().unembedded();
        while let Some((block, id, text)) = text() {
            if self.state.lock().closed {
                return;
            }
            let of = |sentence: &&str| embedder.embed(sentence, PATIENCE);
            let vectors: Vec<Vec<f32>> = sentences(&text).iter().filter_map(of).collect();
            let is_made = !vectors.is_empty();
            let Some(indexed) = index.upgrade() else { return };
            indexed.lock().add_vectors(block, id, vectors);
            Counters::add(&counters.embedded, u64::from(is_made));
        }
    }

    fn next(&self) -> Option<Weak<Mutex<Indexed>>> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(index) = state.indexes.pop_front() {
                return Some(index);
            }
            self.changed.wait(&mut state);
        }
    }
}
