//! Records for tests.

use hob_slots::format::SlotRecord;
use hob_slots::{ConversationId, Timestamp, TtlClass};

/// A record of no tokens.
pub(super) fn empty_record(conversation: &str) -> SlotRecord {
    SlotRecord {
        conversation: ConversationId::new(conversation).expect("a valid name"),
        adapters: Default::default(),
        class: TtlClass::Long,
        created_at: Timestamp(0),
        used_at: Timestamp(0),
        turns: 1,
        tokens: Vec::new(),
        blocks: Vec::new(),
        snapshots: Vec::new(),
        segments: Vec::new(),
        branches: Vec::new(),
        lineage: Default::default(),
    }
}
