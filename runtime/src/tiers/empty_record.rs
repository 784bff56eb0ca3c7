//! Records for tests.

use hob_slots::format::SlotRecord;
use hob_slots::{ConversationId, Timestamp, TtlClass};

/// A record of no tokens.
pub(super) fn empty_record(conversation: &str) -> SlotRecord {
    SlotRecord {
        turns: 1,
        ..SlotRecord::empty(
            ConversationId::new(conversation).expect("a valid name"),
            TtlClass::Long,
            Timestamp(0),
        )
    }
}
