//! KV that another daemon computed: verified objects, and the record that names them.

use hob_slots::format::{Object, SlotRecord};

use super::{Storage, failed};
use crate::error::ApiError;

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

    /// Writes the record of a conversation, after [`Self::adopt_objects`]. It counts as used now. `false`:
    /// the conversation is in a slot here, whose record will name what its next turn restores.
    ///
    /// # Errors
    /// When the disk cannot be written, or the engine has stopped.
    pub async fn adopt_record(&self, record: SlotRecord) -> Result<bool, ApiError> {
        let model = self.options().engine.fingerprint();
        let record = SlotRecord { used_at: self.now(), ..record };
        let written = self.with_store(move |store, live_refs, _| {
            if live_refs.is_open(model, &record.conversation) {
                return Ok(false);
            }
            store.put_slot(model, &record)?;
            live_refs.slot_file_replaced(model, &record.conversation);
            Ok(true)
        });
        written.await?.map_err(|error: hob_slots::store::StoreError| failed(&error))
    }
}
