//! Where the saved KV of conversations is: looked up in the tiers, block by block, at each call.
//!
//! - Runs on the caller's thread. A lock is held for one conversation at a time.
//! - Memory is the pool. Disk is what this process wrote or read and did not lose since; a block
//!   that it never touched is looked up in the directory.
//! - KV behind the first missing block cannot be restored and is not counted.
//! - Records that were dropped from memory count as on disk: their conversations are those used
//!   longest ago, and more of them are in memory than the pool has blocks for.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use hob_slots::format::SlotRecord;
use hob_slots::{Block, BlockId, ConversationId};

use super::KvTiers;
use super::records::Located;
use super::shared::{Known, Shared};
use crate::map::Tier;
use crate::status::SavedStatus;

/// A look into the tiers. It does not keep them open.
#[derive(Clone)]
pub struct TierIndex(Weak<Shared>);

impl KvTiers {
    pub fn index(&self) -> TierIndex {
        TierIndex(Arc::downgrade(&self.shared))
    }
}

impl TierIndex {
    /// The conversations whose record this process has seen and for which `is_asked` is true.
    pub fn conversations(&self, is_asked: impl Fn(&ConversationId) -> bool) -> Vec<SavedStatus> {
        let Some(shared) = self.0.upgrade() else { return Vec::new() };
        let known: Vec<(ConversationId, Located)> = {
            let records = shared.records();
            let asked = records.located().filter(|(conversation, _)| is_asked(conversation));
            asked.map(|(conversation, located)| (conversation.clone(), located)).collect()
        };
        let status = |(conversation, located)| match located {
            Located::InMemory(record) => shared.look_up(conversation, &record),
            Located::OnDisk { tokens } => {
                SavedStatus { conversation, tokens, memory_tokens: 0, disk_tokens: tokens }
            }
        };
        known.into_iter().map(status).collect()
    }

    /// A conversation's newest record. Blocks on the disk.
    pub fn record(&self, conversation: &ConversationId) -> Option<Arc<SlotRecord>> {
        let shared = self.0.upgrade()?;
        if let Some(known) = shared.records().lookup(conversation) {
            return known;
        }
        let record = shared.store.as_ref()?.get_slot(shared.fingerprint, conversation).ok()?;
        Some(Arc::new(record))
    }

    /// The members of `conversations` that are in a slot or in the queue, or whose record this process has seen.
    pub fn known_among(&self, conversations: &[ConversationId]) -> BTreeSet<ConversationId> {
        let Some(shared) = self.0.upgrade() else { return BTreeSet::new() };
        // Before the records: a conversation that leaves its slot has its record by then.
        let open = shared.open.lock().clone();
        let is_known =
            |id: &ConversationId| open.contains(id) || shared.records().summary(id).is_some();
        conversations.iter().filter(|id| is_known(id)).cloned().collect()
    }

    /// The tokens of the blocks up to the first missing one: in memory, and on disk.
    pub fn tokens_of(&self, blocks: &[Block]) -> (usize, usize) {
        let Some(shared) = self.0.upgrade() else { return (0, 0) };
        let (mut memory_tokens, mut disk_tokens) = (0, 0);
        for block in blocks {
            match shared.tier_of_recorded(&block.id) {
                Tier::Memory => memory_tokens += block.range.len(),
                Tier::Disk => disk_tokens += block.range.len(),
                Tier::Nowhere => break,
            }
        }
        (memory_tokens, disk_tokens)
    }
}

impl Shared {
    /// The fastest tier that has the object.
    pub fn tier_of(&self, id: &BlockId) -> Tier {
        if self.pool().contains(id) {
            Tier::Memory
        } else if self.holds(id) {
            Tier::Disk
        } else {
            Tier::Nowhere
        }
    }

    /// The tier that has the object once it is written: bytes that only wait for the disk leave
    /// a memory that is too small for them.
    pub fn tier_once_written(&self, id: &BlockId) -> Tier {
        match self.tier_of(id) {
            Tier::Memory if self.store.is_some() && !self.pool().may_stay(id) => Tier::Disk,
            tier => tier,
        }
    }

    fn look_up(&self, conversation: ConversationId, record: &SlotRecord) -> SavedStatus {
        // The furthest snapshot is restored: with the blocks before it, unless there are none.
        let mut latest_first =
            record.snapshots.iter().rev().map(|it| (it.position as usize, it.id));
        let snapshot = latest_first.find_map(|(position, id)| {
            let tier = self.tier_of_recorded(&id);
            (tier != Tier::Nowhere).then_some((position, tier))
        });
        let restored = match snapshot {
            Some((position, _)) => position,
            None if record.snapshots.is_empty() => record.tokens.len(),
            None => 0,
        };
        let (mut memory_tokens, mut disk_tokens, mut start) = (0, 0, 0);
        for block in &record.blocks {
            let tokens = (block.end as usize).min(restored).saturating_sub(start);
            match self.tier_of_recorded(&block.id) {
                Tier::Memory => memory_tokens += tokens,
                Tier::Disk => disk_tokens += tokens,
                Tier::Nowhere => break,
            }
            start = block.end as usize;
        }
        if record.blocks.is_empty() {
            match snapshot {
                Some((position, Tier::Memory)) => memory_tokens = position,
                Some((position, _)) => disk_tokens = position,
                None => {}
            }
        }
        let tokens = record.tokens.len();
        SavedStatus { conversation, tokens, memory_tokens, disk_tokens }
    }

    /// As [`Shared::tier_of`], for an object that a record names: this process may have neither
    /// written nor read it.
    fn tier_of_recorded(&self, id: &BlockId) -> Tier {
        let tier = self.tier_of(id);
        if tier != Tier::Nowhere || self.objects().contains_key(id) {
            return tier;
        }
        let Some(store) = &self.store else { return Tier::Nowhere };
        let _present = self.reading();
        let Some(file_bytes) = store.reader().object_bytes(self.fingerprint, *id) else {
            return Tier::Nowhere;
        };
        self.learn_names([*id]);
        self.objects().entry(*id).or_insert(Known::on_disk(file_bytes));
        Tier::Disk
    }
}

#[cfg(test)]
mod tests {
    use hob_slots::format::{Object, ObjectKind};
    use hob_slots::store::{Key, Store};
    use hob_slots::{ModelHash, Payload, Token};

    use super::super::shared::MemoryBudget;
    use super::*;
    use crate::backend::fake::FakeModel;

    const MODEL: ModelHash = ModelHash([1; 8]);

    #[test]
    fn a_block_that_is_found_in_a_sealed_directory_is_known_by_the_name_of_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let key = Key::load_or_make(&directory.path().join("key")).unwrap();
        let store = Store::open(directory.path().join("slots")).unwrap().sealed(&key).unwrap();
        let object = Object {
            kind: ObjectKind::Block,
            model: MODEL,
            parent: BlockId::root(MODEL),
            start: 0,
            tokens: vec![Token(1); 64],
            payload: Payload::from(vec![1; 100]),
        };
        let id = object.id();
        store.put_object(MODEL, id, &object).unwrap();
        let (name, store) = (store.name(id), Arc::new(store));
        let budget = MemoryBudget { memory_bytes: 0, unsaved_bytes: 0 };
        let shared = Shared::new(Arc::new(FakeModel::new()), MODEL, Some(store), budget, None);

        assert_eq!(shared.tier_of_recorded(&id), Tier::Disk);
        assert_eq!(shared.id_of(&name), Some(id), "a removal asks whether it is in use");
    }
}
