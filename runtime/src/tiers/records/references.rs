//! How many conversations refer to each object.

use std::collections::HashMap;

use hob_slots::BlockId;

#[derive(Debug, Default)]
pub(super) struct References(HashMap<BlockId, u32>);

impl References {
    pub fn add(&mut self, object: BlockId) {
        *self.0.entry(object).or_default() += 1;
    }

    /// One conversation no longer refers to each of `objects`.
    pub fn release(&mut self, objects: impl Iterator<Item = BlockId>) {
        for object in objects {
            let count = self.0.get_mut(&object).expect("it was counted when it was referred to");
            *count -= 1;
            if *count == 0 {
                self.0.remove(&object);
            }
        }
    }

    pub fn contains(&self, object: &BlockId) -> bool {
        self.0.contains_key(object)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}
