//! The timelines in the cells: a radix tree for each adapter set, because equal tokens have other KV under
//! other adapters.

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

    /// Truncates the timeline of `slot` to `len` tokens.
    pub fn truncate(&mut self, root: BlockId, slot: SlotId, len: usize) {
        if let Some(tree) = self.0.get_mut(&root) {
            tree.truncate(slot, len);
        }
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
