//! Reads blocks from disk to memory before a question asks for them.
//!
//! - A thread of its own reads one object at a time, and stops once the handle is dropped: at the conversation's next
//!   question. The thread has normal priority, because it takes locks.
//! - Memory treats a block that was read ahead like any block that is on disk: within the budget, and the policy may
//!   decline or evict the block.
//! - A block whose reading was cancelled before its conversation is forgotten is not in memory afterwards.
//! - At most [`MAX_BYTES`] for a question, and an eighth of the memory budget.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};

use hob_slots::format::ObjectKind;
use hob_slots::{BlockId, Use};
use tracing::error;

use super::counters::Counters;
use super::find::Finder;
use super::shared::Shared;

/// Maximum bytes that are read ahead of one question.
const MAX_BYTES: u64 = 32 << 20;

/// The part of the memory budget that one question's blocks may take (1/8).
const SHARE: u64 = 8;

/// Dropping the handle cancels the blocks that are not read yet.
#[derive(Debug)]
pub struct ReadAheadHandle(#[expect(dead_code, reason = "its drop is what it is for")] Arc<()>);

/// Blocks to read behind a question.
pub(super) struct ReadAhead {
    blocks: Vec<BlockId>,
    usage: Use,
    wanted: Weak<()>,
}

impl ReadAhead {
    pub fn new(blocks: Vec<BlockId>, usage: Use) -> (Self, ReadAheadHandle) {
        let wanted = Arc::new(());
        (Self { blocks, usage, wanted: Arc::downgrade(&wanted) }, ReadAheadHandle(wanted))
    }

    fn is_wanted(&self) -> bool {
        self.wanted.strong_count() > 0
    }

    fn read(&self, finder: &mut Finder<'_>) {
        let shared = finder.shared;
        let mut left = MAX_BYTES.min(shared.pool().budget() / SHARE);
        for &id in &self.blocks {
            if !self.is_wanted() || shared.stopping.load(Ordering::Relaxed) {
                return;
            }
            if shared.pool().contains(&id) {
                continue;
            }
            let Ok((payload, _)) = finder.find_stored(&id, ObjectKind::Block) else { continue };
            let bytes = payload.len() as u64;
            if bytes > left {
                return;
            }
            left -= bytes;
            Counters::add(&shared.counters.read_ahead_bytes, bytes);
            // Under the lock, so that forgetting, which cancels first, finds what is inserted.
            let mut pool = shared.pool();
            if self.is_wanted() {
                // Without the block before: this block comes back alone.
                pool.insert_saved(id, None, payload, self.usage);
            }
        }
    }
}

/// Reads until the channel is closed.
pub(super) fn serve(shared: &Shared, inbox: &Receiver<ReadAhead>) {
    for read_ahead in inbox {
        let read = || read_ahead.read(&mut Finder::new(shared));
        if catch_unwind(AssertUnwindSafe(read)).is_err() {
            Counters::add(&shared.counters.panics, 1);
            error!("blocks were not read ahead");
        }
    }
}
