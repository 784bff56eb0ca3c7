//! One object after the other, from memory or else from disk.

use std::sync::atomic::Ordering;

use hob_slots::format::ObjectKind;
use hob_slots::store::Miss;
use hob_slots::{BlockId, Payload, Use};

use super::{Counters, Known, Shared};
use crate::map::Origin;

/// Where a piece was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In host memory.
    Memory,
    /// On disk, verified.
    Disk,
}

impl Place {
    /// The same, of tokens.
    pub fn origin(self) -> Origin {
        match self {
            Self::Memory => Origin::Memory,
            Self::Disk => Origin::Disk,
        }
    }
}

/// What one thread reads with.
pub(super) struct Finder<'s> {
    pub shared: &'s Shared,
    /// For the next object: clearing new memory takes the system as long as hashing it takes us.
    buffer: Vec<u8>,
}

impl<'s> Finder<'s> {
    pub fn new(shared: &'s Shared) -> Self {
        Self { shared, buffer: Vec::new() }
    }

    /// An object's payload.
    pub fn find(
        &mut self,
        id: &BlockId,
        kind: ObjectKind,
        used: Use,
    ) -> Result<(Payload, Place), Miss> {
        let shared = self.shared;
        if let Some(payload) = shared.pool().get(id, used) {
            return Ok((payload, Place::Memory));
        }
        let store = shared.store.as_ref().ok_or(Miss::Absent)?;
        let buffer = std::mem::take(&mut self.buffer);
        let _present = shared.reading();
        match store.get_object_in(shared.fingerprint, *id, kind, buffer) {
            Ok(object) => {
                Counters::add(&shared.counters.read_bytes, object.payload.len() as u64);
                let file_bytes = object.file_bytes();
                shared.objects().insert(*id, Known { file_bytes, on_disk: true });
                if kind == ObjectKind::Block {
                    shared.block_bytes.fetch_max(object.payload.len(), Ordering::Relaxed);
                }
                Ok((object.payload, Place::Disk))
            }
            Err(miss) => {
                shared.objects().remove(id);
                if !matches!(miss, Miss::Absent) {
                    Counters::add(&shared.counters.rejected, 1);
                }
                Err(miss)
            }
        }
    }

    /// The payload was copied: its memory serves again, unless somebody else holds it.
    pub fn reuse(&mut self, payload: Payload) {
        self.buffer = payload.into_buffer().unwrap_or_default();
    }
}
