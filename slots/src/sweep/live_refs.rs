//! References that a running engine has to saved KV.

use std::collections::BTreeSet;

use crate::format::{Object, SlotRecord};
use crate::id::{BlockId, ConversationId, ModelHash};
use crate::lossy::Lossy;
use crate::store::{ObjectName, Store, StoreError};
use crate::time::Timestamp;

/// A running engine, as sweeps and maintenance see it: which KV it refers to, and what to report to it.
pub trait LiveRefs {
    /// Whether a conversation is in use, so nothing of it may be removed.
    fn is_open(&self, model: ModelHash, conversation: &ConversationId) -> bool;

    /// Whether the engine is about to stop: what can be left is left for the next sweep.
    fn is_stopping(&self) -> bool {
        false
    }

    /// A slot file was removed: the engine no longer references its objects.
    fn slot_file_removed(&self, model: ModelHash, conversation: &ConversationId);

    /// A slot file was replaced: the engine must read it again.
    fn slot_file_replaced(&self, _model: ModelHash, _conversation: &ConversationId) {}

    /// Calls `change`, which may give a slot file another name. No restore reads meanwhile: it looks under the name of
    /// each class in turn, and would miss the file.
    fn while_none_reads(&self, _model: ModelHash, change: &mut dyn FnMut()) {
        change();
    }

    /// Damaged objects were removed: the engine may save their bytes again.
    fn objects_lost(&self, _store: &Store, _model: ModelHash, _objects: &BTreeSet<ObjectName>) {}

    /// Whether the engine can round KV of this model.
    fn can_round(&self, _model: ModelHash) -> bool {
        false
    }

    /// A block's payload, rounded; `None` where its layout is not known, or that saves too little.
    fn rounded(&self, _payload: &[u8], _lossy: Lossy) -> Option<Vec<u8>> {
        None
    }

    /// `object` was written, which is what block `old` becomes behind block `after`.
    fn block_renamed(
        &self,
        _model: ModelHash,
        _old: BlockId,
        _after: Option<BlockId>,
        _object: &Object,
        _now: Timestamp,
    ) {
    }

    /// Calls `remove` with the objects that the engine does not reference. The engine takes no new
    /// reference to them before `remove` returns, and no restore reads meanwhile.
    fn with_unreferenced(
        &self,
        store: &Store,
        model: ModelHash,
        objects: BTreeSet<ObjectName>,
        remove: &mut dyn FnMut(&BTreeSet<ObjectName>),
    );
}

/// Writes the slot file of a conversation that is not in use, in place of the one that it has. Returns the bytes written.
///
/// # Errors
/// When the disk cannot be written.
pub fn replace_slot(
    store: &Store,
    live_refs: &dyn LiveRefs,
    model: ModelHash,
    record: &SlotRecord,
) -> Result<u64, StoreError> {
    let mut written = Ok(0);
    live_refs.while_none_reads(model, &mut || {
        written = store.put_slot(model, record);
        if written.is_ok() {
            live_refs.slot_file_replaced(model, &record.conversation);
        }
    });
    written
}

/// No engine runs on the directory.
#[derive(Clone, Copy, Debug)]
pub struct NoEngine;

impl LiveRefs for NoEngine {
    fn is_open(&self, _: ModelHash, _: &ConversationId) -> bool {
        false
    }

    fn slot_file_removed(&self, _: ModelHash, _: &ConversationId) {}

    fn with_unreferenced(
        &self,
        _: &Store,
        _: ModelHash,
        objects: BTreeSet<ObjectName>,
        remove: &mut dyn FnMut(&BTreeSet<ObjectName>),
    ) {
        remove(&objects);
    }
}
