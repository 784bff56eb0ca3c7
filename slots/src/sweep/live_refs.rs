//! Who else holds what lies in the directory.

use std::collections::BTreeSet;

use crate::id::{ConversationId, ModelHash};
use crate::store::{ObjectName, Store};

/// What a running engine knows and a directory does not tell.
pub trait LiveRefs {
    /// Whether a conversation is in use: nothing of it may leave.
    fn is_open(&self, model: ModelHash, conversation: &ConversationId) -> bool;

    /// A conversation's slot file was removed: whatever memory knows of it is no reason to keep its
    /// objects.
    fn slot_file_removed(&self, model: ModelHash, conversation: &ConversationId);

    /// A conversation's slot file is another one now: whatever memory knows of it does not count.
    fn slot_file_replaced(&self, _model: ModelHash, _conversation: &ConversationId) {}

    /// These objects were damaged and are not there any more: whoever has their bytes may keep them
    /// once more.
    fn objects_lost(&self, _store: &Store, _model: ModelHash, _objects: &BTreeSet<ObjectName>) {}

    /// Calls `remove` once with those of `objects` that memory does not need, and makes sure that it
    /// cannot begin to need them before `remove` returns.
    fn with_unreferenced(
        &self,
        store: &Store,
        model: ModelHash,
        objects: BTreeSet<ObjectName>,
        remove: &mut dyn FnMut(&BTreeSet<ObjectName>),
    );
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
