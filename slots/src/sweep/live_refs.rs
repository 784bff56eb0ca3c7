//! References that a running engine has to saved KV.

use std::collections::BTreeSet;

use crate::format::{Object, SlotRecord};
use crate::id::{BlockId, ConversationId, ModelHash};
use crate::lossy::Lossy;
use crate::store::{ObjectName, Store, StoreError};
use crate::time::Timestamp;

/// A running engine, as sweeps and maintenance see it: which KV it refers to, and what to report to it.
///
/// No method has a default body: an engine that forgot one would lose KV, or read some that has left. Stand-ins for
/// engines name the methods that do what those of [`NoEngine`] do, see [`as_without_engine!`](crate::as_without_engine).
pub trait LiveRefs {
    /// Whether a conversation is in use, so nothing of it may be removed.
    fn is_open(&self, model: ModelHash, conversation: &ConversationId) -> bool;

    /// Whether the engine is about to stop: what can be left is left for the next sweep.
    fn is_stopping(&self) -> bool;

    /// A slot file was removed: the engine no longer references its objects.
    fn slot_file_removed(&self, model: ModelHash, conversation: &ConversationId);

    /// A slot file was replaced: the engine must read it again.
    fn slot_file_replaced(&self, model: ModelHash, conversation: &ConversationId);

    /// Calls `change`, which may give a slot file another name. No restore reads meanwhile: it looks under the name of
    /// each class in turn, and would miss the file.
    fn while_none_reads(&self, model: ModelHash, change: &mut dyn FnMut());

    /// Damaged objects were removed: the engine may save their bytes again.
    fn objects_lost(&self, store: &Store, model: ModelHash, objects: &BTreeSet<ObjectName>);

    /// Whether the engine can round KV of this model.
    fn can_round(&self, model: ModelHash) -> bool;

    /// A block's payload, rounded; `None` where its layout is not known, or that saves too little.
    fn rounded(&self, payload: &[u8], lossy: Lossy) -> Option<Vec<u8>>;

    /// `object` was written, which is what block `old` becomes behind block `after`.
    fn block_renamed(
        &self,
        model: ModelHash,
        old: BlockId,
        after: Option<BlockId>,
        object: &Object,
        now: Timestamp,
    );

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

    fn is_stopping(&self) -> bool {
        false
    }

    fn slot_file_removed(&self, _: ModelHash, _: &ConversationId) {}

    fn slot_file_replaced(&self, _: ModelHash, _: &ConversationId) {}

    fn while_none_reads(&self, _: ModelHash, change: &mut dyn FnMut()) {
        change();
    }

    fn objects_lost(&self, _: &Store, _: ModelHash, _: &BTreeSet<ObjectName>) {}

    fn can_round(&self, _: ModelHash) -> bool {
        false
    }

    fn rounded(&self, _: &[u8], _: Lossy) -> Option<Vec<u8>> {
        None
    }

    fn block_renamed(
        &self,
        _: ModelHash,
        _: BlockId,
        _: Option<BlockId>,
        _: &Object,
        _: Timestamp,
    ) {
    }

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

/// Writes methods of an implementation of [`LiveRefs`] that do what those of [`NoEngine`] do.
#[macro_export]
macro_rules! as_without_engine {
    (@ is_open) => {
        fn is_open(&self, model: $crate::ModelHash, id: &$crate::ConversationId) -> bool {
            $crate::LiveRefs::is_open(&$crate::NoEngine, model, id)
        }
    };
    (@ is_stopping) => {
        fn is_stopping(&self) -> bool {
            $crate::LiveRefs::is_stopping(&$crate::NoEngine)
        }
    };
    (@ slot_file_removed) => {
        fn slot_file_removed(&self, model: $crate::ModelHash, id: &$crate::ConversationId) {
            $crate::LiveRefs::slot_file_removed(&$crate::NoEngine, model, id);
        }
    };
    (@ slot_file_replaced) => {
        fn slot_file_replaced(&self, model: $crate::ModelHash, id: &$crate::ConversationId) {
            $crate::LiveRefs::slot_file_replaced(&$crate::NoEngine, model, id);
        }
    };
    (@ while_none_reads) => {
        fn while_none_reads(&self, model: $crate::ModelHash, change: &mut dyn FnMut()) {
            $crate::LiveRefs::while_none_reads(&$crate::NoEngine, model, change);
        }
    };
    (@ objects_lost) => {
        fn objects_lost(
            &self,
            store: &$crate::Store,
            model: $crate::ModelHash,
            objects: &::std::collections::BTreeSet<$crate::ObjectName>,
        ) {
            $crate::LiveRefs::objects_lost(&$crate::NoEngine, store, model, objects);
        }
    };
    (@ can_round) => {
        fn can_round(&self, model: $crate::ModelHash) -> bool {
            $crate::LiveRefs::can_round(&$crate::NoEngine, model)
        }
    };
    (@ rounded) => {
        fn rounded(&self, payload: &[u8], lossy: $crate::Lossy) -> Option<Vec<u8>> {
            $crate::LiveRefs::rounded(&$crate::NoEngine, payload, lossy)
        }
    };
    (@ block_renamed) => {
        fn block_renamed(
            &self,
            model: $crate::ModelHash,
            old: $crate::BlockId,
            after: Option<$crate::BlockId>,
            object: &$crate::Object,
            now: $crate::Timestamp,
        ) {
            $crate::LiveRefs::block_renamed(&$crate::NoEngine, model, old, after, object, now);
        }
    };
    (@ with_unreferenced) => {
        fn with_unreferenced(
            &self,
            store: &$crate::Store,
            model: $crate::ModelHash,
            objects: ::std::collections::BTreeSet<$crate::ObjectName>,
            remove: &mut dyn FnMut(&::std::collections::BTreeSet<$crate::ObjectName>),
        ) {
            let engine = &$crate::NoEngine;
            $crate::LiveRefs::with_unreferenced(engine, store, model, objects, remove);
        }
    };
    ($($method:ident),+) => {
        $($crate::as_without_engine!(@ $method);)+
    };
}
