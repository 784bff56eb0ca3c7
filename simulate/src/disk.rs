//! The disk of the runtime, on names: records of conversations under a quota.
//!
//! - A record has the blocks of its conversation's last request; equal blocks are stored once.
//! - Beyond the quota the conversation that is worth least per byte leaves, as in the runtime's
//!   sweep; open ones stay.

use std::collections::{BTreeMap, HashMap};

use hob_slots::Timestamp;
use hob_slots::sweep::worth;

use crate::workload::Arrival;

#[derive(Clone, Debug)]
pub struct Records {
    capacity_blocks: u64,
    by_conversation: BTreeMap<u64, Record>,
    /// The number of records that name a block. Never zero.
    named: HashMap<u64, u32>,
}

#[derive(Clone, Debug)]
struct Record {
    blocks: Vec<u64>,
    tokens: u32,
    used_at: Timestamp,
}

impl Records {
    pub fn new(capacity_blocks: u64) -> Self {
        Self { capacity_blocks, by_conversation: BTreeMap::new(), named: HashMap::new() }
    }

    pub fn contains(&self, block: &u64) -> bool {
        self.named.contains_key(block)
    }

    /// Saves the conversation of a request, and makes room for it. `open`: conversations that stay.
    pub fn save(&mut self, request: &Arrival, open: &[u64]) {
        let (conversation, now) = (request.run.conversation, request.at);
        for &block in &request.blocks {
            *self.named.entry(block).or_insert(0) += 1;
        }
        let (blocks, tokens) = (request.blocks.clone(), request.run.tokens);
        let record = Record { blocks, tokens, used_at: now };
        if let Some(before) = self.by_conversation.insert(conversation, record) {
            self.release(&before);
        }
        while self.named.len() as u64 > self.capacity_blocks {
            let stays = |id: &u64| *id == conversation || open.contains(id);
            let others = self.by_conversation.iter().filter(|(id, _)| !stays(id));
            let worth = |record: &Record| {
                let share = |block: &u64| 1.0 / f64::from(self.named[block]);
                let bytes: f64 = record.blocks.iter().map(share).sum();
                worth(record.tokens, record.used_at.age(now), bytes)
            };
            let least = others.min_by(|(_, a), (_, b)| worth(a).total_cmp(&worth(b)));
            let Some((&id, _)) = least else { return };
            let record = self.by_conversation.remove(&id).expect("it was just found");
            self.release(&record);
        }
    }

    fn release(&mut self, record: &Record) {
        for block in &record.blocks {
            let names = self.named.get_mut(block).expect("a record's blocks are named");
            *names -= 1;
            if *names == 0 {
                self.named.remove(block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hob_slots::evict::Run;

    use super::*;

    fn request(conversation: u64, blocks: &[u64], secs: u64) -> Arrival {
        let tokens = blocks.len() as u64 * 512;
        let run = Run { conversation, tokens: tokens as u32, ..Run::default() };
        Arrival { at: Timestamp(secs * 1_000), run, blocks: blocks.to_vec(), tokens }
    }

    #[test]
    fn the_closed_conversation_that_is_worth_least_leaves_whole() {
        let mut disk = Records::new(5);
        disk.save(&request(1, &[1, 2], 0), &[]);
        disk.save(&request(2, &[3, 4, 5], 1), &[]);
        // A longer prompt costs more to compute per token.
        disk.save(&request(3, &[6], 2), &[]);
        assert!(!disk.contains(&1) && !disk.contains(&2));
        disk.save(&request(4, &[7, 8], 3), &[3]);
        assert!(!disk.contains(&3) && disk.contains(&6), "the third is open");
    }

    #[test]
    fn a_shared_block_leaves_with_its_last_conversation() {
        let mut disk = Records::new(2);
        disk.save(&request(1, &[1, 2], 0), &[]);
        disk.save(&request(2, &[1, 3], 1), &[]);
        assert!(disk.contains(&1) && disk.contains(&3) && !disk.contains(&2));
    }

    #[test]
    fn a_newer_request_replaces_the_record_of_its_conversation() {
        let mut disk = Records::new(9);
        disk.save(&request(1, &[1, 2], 0), &[]);
        disk.save(&request(1, &[1, 3], 0), &[]);
        assert!(disk.contains(&3) && !disk.contains(&2));
    }
}
