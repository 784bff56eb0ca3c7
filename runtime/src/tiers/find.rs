//! Reads one object: from memory, or else from disk. Makes a state of a rounded object again.

use std::sync::atomic::Ordering;

use hob_slots::format::ObjectKind;
use hob_slots::store::Miss;
use hob_slots::{BlockId, Payload};
use tracing::warn;

use super::counters::Counters;
use super::shared::{Known, Shared};
use crate::backend::lossy::is_rounded;
use crate::map::Origin;

/// A reader thread's access to the tiers.
pub(super) struct Finder<'s> {
    pub shared: &'s Shared,
    /// For the next object, and for the state that is made of a rounded object: the system takes as long to clear
    /// new memory as the finder to hash it.
    buffers: Vec<Vec<u8>>,
}

/// One for an object, and one for a state.
const MAX_BUFFERS: usize = 2;

impl<'s> Finder<'s> {
    pub fn new(shared: &'s Shared) -> Self {
        Self { shared, buffers: Vec::new() }
    }

    /// An object's state, verified, and the tier that it came from.
    pub fn find(&mut self, id: &BlockId, kind: ObjectKind) -> Result<(Payload, Origin), Miss> {
        let (payload, origin) = self.find_stored(id, kind)?;
        if !is_rounded(&payload) {
            return Ok((payload, origin));
        }
        let buffer = self.buffers.pop().unwrap_or_default();
        let Some(state) = self.shared.model.state_of_rounded(&payload, buffer) else {
            Counters::add(&self.shared.counters.rejected, 1);
            warn!(%id, "rounded KV has another layout than this version knows: its tokens are computed");
            return Err(Miss::Absent);
        };
        self.reuse(payload);
        self.shared.block_bytes.fetch_max(state.len(), Ordering::Relaxed);
        Ok((Payload::from(state), origin))
    }

    /// An object's payload as it is stored, verified, and the tier that it came from.
    pub fn find_stored(
        &mut self,
        id: &BlockId,
        kind: ObjectKind,
    ) -> Result<(Payload, Origin), Miss> {
        let shared = self.shared;
        if let Some(payload) = shared.pool().get(id) {
            return Ok((payload, Origin::Memory));
        }
        let store = shared.store.as_ref().ok_or(Miss::Absent)?;
        let buffer = self.buffers.pop().unwrap_or_default();
        let _present = shared.reading();
        match store.get_object_in(shared.fingerprint, *id, kind, buffer) {
            Ok(object) => {
                Counters::add(&shared.counters.read_bytes, object.payload.len() as u64);
                shared.learn_names([*id]);
                shared.objects().insert(*id, Known::on_disk(object.file_bytes()));
                if kind == ObjectKind::Block {
                    shared.block_bytes.fetch_max(object.payload.len(), Ordering::Relaxed);
                }
                Ok((object.payload, Origin::Disk))
            }
            Err(miss) => {
                if shared.lose(id) {
                    Counters::add(&shared.counters.lost_blocks, 1);
                    warn!(%id, reason = %miss, "KV is lost: its tokens are computed again");
                }
                if !matches!(miss, Miss::Absent) {
                    Counters::add(&shared.counters.rejected, 1);
                }
                Err(miss)
            }
        }
    }

    /// Reuses the payload's memory, unless the memory tier holds it too.
    pub fn reuse(&mut self, payload: Payload) {
        self.buffers.extend(payload.into_buffer());
        self.buffers.truncate(MAX_BUFFERS);
    }
}
