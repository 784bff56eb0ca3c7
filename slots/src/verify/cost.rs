//! The cost of damage by conversation.

use std::collections::HashSet;

use serde::Serialize;

use super::reading::Reading;
use crate::format::SlotRecord;
use crate::id::{BlockId, ModelHash};
use crate::store::{ObjectName, StoreReader};

/// A damaged conversation.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Cost {
    pub conversation: String,
    pub fingerprint: ModelHash,
    /// The length of its timeline.
    pub tokens: u32,
    /// Tokens after the last restorable one.
    pub lost_tokens: u32,
    /// Existing objects that cannot be used.
    pub damaged: usize,
    pub missing: usize,
}

impl Reading {
    /// Whether all files are whole and no object is missing.
    pub fn is_whole(&self, costs: &[Cost]) -> bool {
        self.faults.is_empty() && costs.is_empty()
    }

    /// The cost of the faults. Faults of files removed meanwhile are dropped.
    pub fn costs(&mut self, reader: &StoreReader) -> Vec<Cost> {
        self.faults.retain(|fault| fault.file.path.exists());
        let whole: HashSet<(ModelHash, ObjectName)> = self.objects.iter().copied().collect();
        let mut costs = Vec::new();
        for (model, record) in &self.records {
            let bad = |id: &BlockId| !whole.contains(&(*model, reader.name(*id)));
            if !record.objects().any(|(id, _)| bad(&id)) {
                continue;
            }
            // An object is damaged, or changed since the listing.
            let Ok(now) = reader.get_slot(*model, &record.conversation) else { continue };
            let there = |id: &BlockId| reader.has_object(*model, *id);
            let known: HashSet<ObjectName> = self
                .faults
                .iter()
                .filter(|fault| fault.file.model == *model)
                .filter_map(|fault| fault.file.object)
                .collect();
            let lost = |id: &BlockId| !there(id) || known.contains(&reader.name(*id));
            let lost_objects: Vec<BlockId> =
                now.objects().map(|(id, _)| id).filter(|id| lost(id)).collect();
            if lost_objects.is_empty() {
                continue;
            }
            let missing = lost_objects.iter().filter(|id| !there(id)).count();
            let restorable = restorable(&now, &lost);
            costs.push(Cost {
                conversation: record.conversation.as_str().to_owned(),
                fingerprint: *model,
                tokens: now.tokens.len() as u32,
                lost_tokens: now.tokens.len() as u32 - restorable,
                damaged: lost_objects.len() - missing,
                missing,
            });
        }
        costs.sort_by(|a, b| {
            (&a.conversation, a.fingerprint).cmp(&(&b.conversation, b.fingerprint))
        });
        costs
    }
}

/// The length of the restorable prefix: blocks up to the first lost one, or a snapshot.
fn restorable(record: &SlotRecord, lost: &impl Fn(&BlockId) -> bool) -> u32 {
    let blocks = record.blocks.iter().take_while(|block| !lost(&block.id));
    let blocks = blocks.last().map_or(0, |block| block.end);
    let snapshots = record.snapshots.iter().filter(|snapshot| !lost(&snapshot.id));
    snapshots.map(|snapshot| snapshot.position).fold(blocks, u32::max)
}
