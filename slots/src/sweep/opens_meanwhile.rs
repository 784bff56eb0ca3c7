//! An engine for tests of sweeps and of maintenance.

use std::cell::Cell;

use super::LiveRefs;
use crate::id::{ConversationId, ModelHash};

/// Opens the conversation once a plan or a sweep has asked whether it is open.
pub struct OpensMeanwhile {
    conversation: ConversationId,
    is_open: Cell<bool>,
}

impl OpensMeanwhile {
    pub fn new(name: &str) -> Self {
        Self { conversation: name.parse().unwrap(), is_open: Cell::new(false) }
    }
}

impl LiveRefs for OpensMeanwhile {
    fn is_open(&self, _: ModelHash, conversation: &ConversationId) -> bool {
        self.conversation == *conversation && self.is_open.replace(true)
    }

    crate::as_without_engine!(
        is_stopping,
        slot_file_removed,
        slot_file_replaced,
        while_none_reads,
        objects_lost,
        can_round,
        rounded,
        block_renamed,
        with_unreferenced
    );
}
