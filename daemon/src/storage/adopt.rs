//! KV that another daemon computed: verified objects, and the record that names them.

use hob_slots::format::{BranchRef, Object, SlotRecord};
use hob_slots::store::{Store, StoreError};
use hob_slots::sweep::replace_slot;
use hob_slots::{LiveRefs, ModelHash};

use super::{Storage, failed};
use crate::error::ApiError;

/// What became of a record.
#[derive(Debug, PartialEq, Eq)]
pub enum Adopted {
    Written,
    /// The conversation is in a slot here, whose record will name what its next turn restores.
    InUse,
    /// These objects are not here, and nothing was written. A deletion collects what no record names yet.
    Lacks(Vec<BranchRef>),
}

impl Storage {
    /// Writes objects of the running model, which no record names yet. Those that are here are not written
    /// again.
    ///
    /// # Errors
    /// When the disk cannot be written, or the engine has stopped.
    pub async fn adopt_objects(&self, objects: Vec<Object>) -> Result<(), ApiError> {
        let model = self.options().engine.fingerprint();
        let written = self.with_store(move |store, _, _| {
            objects
                .iter()
                .try_for_each(|object| store.put_object(model, object.id(), object).map(drop))
        });
        written.await?.map_err(|error| failed(&error))
    }

    /// Writes the record of a conversation, after [`Self::adopt_objects`]. It counts as used now.
    ///
    /// # Errors
    /// When the disk cannot be written, or the engine has stopped.
    pub async fn adopt_record(&self, record: SlotRecord) -> Result<Adopted, ApiError> {
        let model = self.options().engine.fingerprint();
        let record = SlotRecord { used_at: self.now(), ..record };
        let written =
            self.with_store(move |store, live_refs, _| adopt(store, live_refs, model, &record));
        written.await?.map_err(|error| failed(&error))
    }
}

fn adopt(
    store: &Store,
    live_refs: &dyn LiveRefs,
    model: ModelHash,
    record: &SlotRecord,
) -> Result<Adopted, StoreError> {
    if live_refs.is_open(model, &record.conversation) {
        return Ok(Adopted::InUse);
    }
    let is_lacking = |object: &BranchRef| !store.has_object(model, object.id);
    let lacking: Vec<BranchRef> = record.placed().filter(is_lacking).collect();
    if !lacking.is_empty() {
        return Ok(Adopted::Lacks(lacking));
    }
    replace_slot(store, live_refs, model, record)?;
    Ok(Adopted::Written)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hob_slots::format::{BlockRef, ObjectKind};
    use hob_slots::sweep::collect_now;
    use hob_slots::{BlockId, NoEngine, Payload, Timestamp, Token, TtlClass};

    use super::*;

    const MODEL: ModelHash = ModelHash([1; 8]);

    #[test]
    fn a_record_is_written_once_all_of_its_objects_are_here() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let object = Object {
            kind: ObjectKind::Block,
            model: MODEL,
            parent: BlockId::root(MODEL),
            start: 0,
            tokens: vec![Token(1); 64],
            payload: Payload::from(vec![1; 100]),
        };
        let block = BlockRef { end: 64, id: object.id(), bytes: object.file_bytes() };
        let record = SlotRecord {
            created_at: Timestamp(1),
            turns: 1,
            tokens: object.tokens.clone(),
            blocks: vec![block],
            ..SlotRecord::empty("chat".parse().unwrap(), TtlClass::Permanent, Timestamp(2))
        };
        let adopted = || adopt(&store, &NoEngine, MODEL, &record).unwrap();

        store.put_object(MODEL, block.id, &object).unwrap();
        collect_now(&store, &NoEngine, MODEL, &BTreeSet::new()).unwrap(); // As the deletion of another one does.
        assert_eq!(adopted(), Adopted::Lacks(record.placed().collect()));
        assert!(store.get_slot(MODEL, &record.conversation).is_err());

        store.put_object(MODEL, block.id, &object).unwrap();
        assert_eq!(adopted(), Adopted::Written);
        assert_eq!(store.get_slot(MODEL, &record.conversation).unwrap(), record);
    }
}
