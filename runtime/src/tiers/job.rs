//! The jobs of the writer thread.

use std::sync::Arc;

use hob_slots::format::{Object, SlotRecord};
use hob_slots::{BlockId, ConversationId, Timestamp, TtlClass};

use super::locked::LockedSteps;
use super::records::Unread;
use super::shared::Shared;

pub(super) enum Job {
    Object(BlockId, Box<Object>),
    Record {
        record: Arc<SlotRecord>,
        /// Objects that its conversation no longer refers to.
        dropped: Vec<BlockId>,
        /// The record before may be in a slot file that was not read. `None`: it was in memory, or
        /// there was none, and `record` covers it.
        unread: Option<Unread>,
    },
    Drop {
        /// Objects that their conversation no longer refers to.
        objects: Vec<BlockId>,
        /// The conversation's record stays in memory from now on: the slot file of the one before names objects
        /// that no record of this process names.
        slot_file_stays: bool,
    },
    /// With the objects that the conversation referred to. The function is called when its files are gone.
    Forget(ConversationId, Vec<BlockId>, Box<dyn FnOnce(Result<(), String>) + Send>),
    /// With the time of its last use.
    Renew(ConversationId, Timestamp),
    /// Of a conversation whose record is not in memory.
    Reclass(ConversationId, TtlClass),
    Maintain(MaintenanceJob),
    /// Called after all earlier jobs.
    Flush(Box<dyn FnOnce() + Send>),
    /// Ends the thread; later jobs are dropped.
    Close,
}

/// Runs on the writer thread.
pub(super) type MaintenanceJob = Box<dyn FnOnce(&Shared, &LockedSteps) + Send>;
