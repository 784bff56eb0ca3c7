//! The names of evicted blocks, up to a number of bytes.

use std::collections::{BTreeMap, HashMap};

use hob_slots::evict::Name;

/// A queue of names with the bytes of their blocks.
#[derive(Clone, Debug)]
pub(super) struct Ghosts<Id> {
    places: HashMap<Id, u64>,
    queue: BTreeMap<u64, (Id, u64)>,
    bytes: u64,
    count: u64,
}

impl<Id> Default for Ghosts<Id> {
    fn default() -> Self {
        Self { places: HashMap::new(), queue: BTreeMap::new(), bytes: 0, count: 0 }
    }
}

impl<Id: Name> Ghosts<Id> {
    pub fn push(&mut self, id: Id, bytes: u64) {
        self.take(&id);
        self.count += 1;
        self.places.insert(id, self.count);
        self.queue.insert(self.count, (id, bytes));
        self.bytes += bytes;
    }

    /// Whether the block was remembered.
    pub fn take(&mut self, id: &Id) -> bool {
        let Some(place) = self.places.remove(id) else { return false };
        let (_, bytes) = self.queue.remove(&place).expect("what has a place is in the queue");
        self.bytes -= bytes;
        true
    }

    /// Forgets the oldest names beyond `max_bytes`.
    pub fn trim(&mut self, max_bytes: u64) {
        while self.bytes > max_bytes {
            let (_, (id, bytes)) = self.queue.pop_first().expect("bytes belong to names");
            self.places.remove(&id);
            self.bytes -= bytes;
        }
    }

    /// Bytes of the remembered blocks.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
