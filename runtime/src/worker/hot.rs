//! The timelines in the cells that others may share: a radix tree for each adapter set, because equal tokens
//! have other KV under other adapters.
//!
//! - Of a timeline, it has what is pure and before the first token that is away.

use std::collections::BTreeMap;

use hob_slots::{BlockId, RadixTree, SlotId, Token};

/// Trees by the roots of their timelines.
#[derive(Debug, Default)]
pub(super) struct HotTimelines(BTreeMap<BlockId, RadixTree>);

impl HotTimelines {
    /// Appends to the timeline of `slot`.
    pub fn extend(&mut self, root: BlockId, slot: SlotId, tokens: &[Token]) {
        self.0.entry(root).or_default().extend(slot, tokens);
    }

    /// Replaces the timeline of `slot`.
    pub fn set(&mut self, root: BlockId, slot: SlotId, tokens: &[Token]) {
        if tokens.is_empty() {
            return self.remove(root, slot);
        }
        self.0.entry(root).or_default().set(slot, tokens);
    }

    /// Removes the timeline of `slot`.
    pub fn remove(&mut self, root: BlockId, slot: SlotId) {
        if let Some(tree) = self.0.get_mut(&root) {
            tree.remove(slot);
            if tree.is_empty() {
                self.0.remove(&root);
            }
        }
    }

    /// The slot other than `except` with the longest prefix of `tokens` under `root`, and its length.
    pub fn longest_prefix(
        &self,
        root: BlockId,
        tokens: &[Token],
        except: SlotId,
    ) -> Option<(SlotId, usize)> {
        self.0.get(&root)?.longest_prefix(tokens, Some(except))
    }
}
