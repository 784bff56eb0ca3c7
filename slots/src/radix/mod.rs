//! Finds the slot with the longest prefix of a prompt.
//!
//! - A radix tree over the timelines in the cells: an edge is a run of tokens that the same slots
//!   share, and splits where they differ. A lookup walks the prompt once, whatever the number of
//!   slots.
//! - Appending to an unshared timeline extends one edge; every decoded token does that.
//! - Deterministic: among slots with equally long prefixes the lowest is returned.

use std::collections::{BTreeMap, BTreeSet};

use crate::block::common_prefix;
use crate::id::{SlotId, Token};

mod nodes;

use nodes::{NodeId, Nodes, ROOT};

/// The timelines of all slots, merged at common prefixes.
#[derive(Debug)]
pub struct RadixTree {
    nodes: Nodes,
    // The end of each timeline, always the end of an edge.
    ends: BTreeMap<SlotId, NodeId>,
}

impl Default for RadixTree {
    fn default() -> Self {
        Self::new()
    }
}

impl RadixTree {
    pub fn new() -> Self {
        Self { nodes: Nodes::new(), ends: BTreeMap::new() }
    }

    /// Replaces the timeline of `slot`.
    pub fn set(&mut self, slot: SlotId, tokens: &[Token]) {
        let kept = self.shared_with(slot, tokens);
        self.truncate(slot, kept);
        self.extend(slot, &tokens[kept..]);
    }

    /// Appends to the timeline of `slot`.
    pub fn extend(&mut self, slot: SlotId, tokens: &[Token]) {
        let end = self.ends.entry(slot).or_insert_with(|| self.nodes.enter());
        if self.nodes.is_leaf_of(*end, slot) {
            self.nodes.append(*end, tokens);
        } else {
            *end = self.nodes.descend(*end, slot, tokens);
        }
    }

    /// Truncates the timeline of `slot` to `len` tokens.
    pub fn truncate(&mut self, slot: SlotId, len: usize) {
        if let Some(end) = self.ends.get_mut(&slot) {
            *end = self.nodes.withdraw(*end, slot, len);
        }
    }

    /// Removes the timeline of `slot`.
    pub fn remove(&mut self, slot: SlotId) {
        if let Some(end) = self.ends.remove(&slot) {
            self.nodes.retire(end, slot);
        }
    }

    /// Whether no slot has a timeline.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Tokens of all timelines; a common prefix counts once.
    pub fn tokens(&self) -> usize {
        self.nodes.tokens()
    }

    /// The length of the common prefix of `tokens` and `slot`.
    pub fn shared_with(&self, slot: SlotId, tokens: &[Token]) -> usize {
        self.walk(tokens, |slots| slots.get(&slot).copied()).map_or(0, |(_, matched)| matched)
    }

    /// The length of the timeline of `slot`.
    pub fn len(&self, slot: SlotId) -> usize {
        self.ends.get(&slot).map_or(0, |&end| self.nodes.depth(end))
    }

    /// The slot other than `except` with the longest prefix of `tokens`, and its length; `None`
    /// when no slot shares a token.
    pub fn longest_prefix(
        &self,
        tokens: &[Token],
        except: Option<SlotId>,
    ) -> Option<(SlotId, usize)> {
        self.walk(tokens, |slots| slots.iter().copied().find(|&slot| Some(slot) != except))
    }

    /// Walks `tokens` as long as `choose` finds a slot on the edge.
    fn walk(
        &self,
        tokens: &[Token],
        choose: impl Fn(&BTreeSet<SlotId>) -> Option<SlotId>,
    ) -> Option<(SlotId, usize)> {
        let (mut best, mut node, mut matched) = (None, ROOT, 0);
        while let Some(&next) = tokens.get(matched) {
            let Some(child) = self.nodes.child(node, next) else { break };
            let Some(slot) = choose(self.nodes.slots(child)) else { break };
            let edge = self.nodes.edge(child);
            let along = common_prefix(edge, &tokens[matched..]);
            matched += along;
            best = Some((slot, matched));
            if along < edge.len() {
                break;
            }
            node = child;
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: SlotId = SlotId(0);
    const B: SlotId = SlotId(1);
    const C: SlotId = SlotId(2);

    fn tokens(text: &str) -> Vec<Token> {
        text.bytes().map(|byte| Token(byte.into())).collect()
    }

    fn tree<const N: usize>(timelines: [(SlotId, &str); N]) -> RadixTree {
        let mut tree = RadixTree::new();
        for (slot, text) in timelines {
            tree.set(slot, &tokens(text));
        }
        tree
    }

    #[test]
    fn the_slot_with_the_longest_prefix_is_found_with_its_length() {
        let tree = tree([(A, "you are a poet"), (B, "you are a cook"), (C, "hello")]);
        assert_eq!(tree.longest_prefix(&tokens("you are a cobbler"), None), Some((B, 12)));
        assert_eq!(tree.longest_prefix(&tokens("you are a poet and more"), None), Some((A, 14)));
        assert_eq!(tree.longest_prefix(&tokens("hell"), None), Some((C, 4)));
    }

    #[test]
    fn a_common_prefix_counts_once() {
        let mut tree = tree([(A, "you are a poet"), (B, "you are a cook"), (C, "hello")]);
        assert_eq!(tree.tokens(), "you are a poet".len() + "cook".len() + "hello".len());
        tree.remove(A);
        assert_eq!(tree.tokens(), "you are a cook".len() + "hello".len());
    }

    #[test]
    fn an_unknown_prompt_has_no_common_prefix() {
        let tree = tree([(A, "abc")]);
        assert_eq!(tree.longest_prefix(&tokens("xbc"), None), None);
        assert_eq!(tree.longest_prefix(&[], None), None);
        assert_eq!(RadixTree::new().longest_prefix(&tokens("abc"), None), None);
    }

    #[test]
    fn a_slot_can_be_left_out_of_the_search() {
        let tree = tree([(A, "abcdef"), (B, "abc")]);
        assert_eq!(tree.longest_prefix(&tokens("abcdef"), Some(A)), Some((B, 3)));
        assert_eq!(tree.longest_prefix(&tokens("abcdef"), Some(B)), Some((A, 6)));
    }

    #[test]
    fn among_equals_the_lowest_slot_is_returned() {
        let tree = tree([(C, "abc"), (A, "abd"), (B, "abc")]);
        assert_eq!(tree.longest_prefix(&tokens("abx"), None), Some((A, 2)));
        assert_eq!(tree.longest_prefix(&tokens("abc"), None), Some((B, 3)));
    }

    #[test]
    fn a_timeline_grows_and_is_truncated() {
        let mut tree = tree([(A, "abc"), (B, "abc")]);
        tree.extend(A, &tokens("def"));
        assert_eq!(tree.longest_prefix(&tokens("abcdef"), None), Some((A, 6)));
        tree.truncate(A, 2);
        assert_eq!(tree.longest_prefix(&tokens("abcdef"), None), Some((B, 3)));
        assert_eq!((tree.len(A), tree.len(B), tree.len(C)), (2, 3, 0));
    }

    #[test]
    fn edges_merge_when_timelines_no_longer_differ() {
        let mut tree = tree([(A, "abcdef"), (B, "abcxyz"), (C, "abq")]);
        tree.remove(B);
        tree.remove(C);
        assert_eq!(tree.nodes.count(), 2, "the root and one edge");
        tree.remove(A);
        assert_eq!(tree.nodes.count(), 1, "the root");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Set(SlotId, Vec<Token>),
        Extend(SlotId, Vec<Token>),
        Truncate(SlotId, usize),
        Remove(SlotId),
    }

    /// Few different tokens, so timelines often have common prefixes.
    fn timeline() -> impl Strategy<Value = Vec<Token>> {
        prop::collection::vec((0..3).prop_map(Token), 0..12)
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let slot = || (0_u32..5).prop_map(SlotId);
        let step = prop_oneof![
            3 => (slot(), timeline()).prop_map(|(slot, tokens)| Step::Set(slot, tokens)),
            3 => (slot(), timeline()).prop_map(|(slot, tokens)| Step::Extend(slot, tokens)),
            2 => (slot(), 0_usize..20).prop_map(|(slot, len)| Step::Truncate(slot, len)),
            1 => slot().prop_map(Step::Remove),
        ];
        prop::collection::vec(step, 1..40)
    }

    type Naive = BTreeMap<SlotId, Vec<Token>>;

    fn longest_of(
        naive: &Naive,
        prompt: &[Token],
        except: Option<SlotId>,
    ) -> Option<(SlotId, usize)> {
        let others = naive.iter().filter(|(slot, _)| Some(**slot) != except);
        let shared = others.map(|(&slot, timeline)| (slot, common_prefix(timeline, prompt)));
        // `max_by_key` returns the last of equals: in reverse order, the lowest slot.
        let lowest_first: Vec<_> = shared.filter(|&(_, len)| len > 0).collect();
        lowest_first.into_iter().rev().max_by_key(|&(_, len)| len)
    }

    /// The nodes of a fully compressed tree: the root, and one for each prefix where a timeline
    /// ends or two differ.
    fn compressed_count(naive: &Naive) -> usize {
        let beginnings =
            |t: &Vec<Token>| (1..=t.len()).map(|len| t[..len].to_vec()).collect::<Vec<_>>();
        let all: BTreeSet<Vec<Token>> = naive.values().flat_map(beginnings).collect();
        let ends = |b: &Vec<Token>| naive.values().any(|timeline| timeline == b);
        let followers = |b: &Vec<Token>| {
            all.iter().filter(|a| a.len() == b.len() + 1 && a.starts_with(b)).count()
        };
        1 + all.iter().filter(|b| ends(b) || followers(b) > 1).count()
    }

    proptest! {
        #[test]
        fn the_tree_answers_like_a_comparison_with_every_timeline(
            steps in steps(),
            prompts in prop::collection::vec((timeline(), prop::option::of(0_u32..5)), 1..8),
        ) {
            let (mut tree, mut naive) = (RadixTree::new(), Naive::new());
            for step in steps {
                match step {
                    Step::Set(slot, tokens) => {
                        tree.set(slot, &tokens);
                        naive.insert(slot, tokens);
                    }
                    Step::Extend(slot, tokens) => {
                        tree.extend(slot, &tokens);
                        naive.entry(slot).or_default().extend(tokens);
                    }
                    Step::Truncate(slot, len) => {
                        tree.truncate(slot, len);
                        naive.entry(slot).or_default().truncate(len);
                    }
                    Step::Remove(slot) => {
                        tree.remove(slot);
                        naive.remove(&slot);
                    }
                }
                for (prompt, except) in &prompts {
                    let except = except.map(SlotId);
                    prop_assert_eq!(
                        tree.longest_prefix(prompt, except),
                        longest_of(&naive, prompt, except)
                    );
                }
                for (&slot, timeline) in &naive {
                    prop_assert_eq!(tree.len(slot), timeline.len());
                }
                prop_assert_eq!(tree.nodes.count(), compressed_count(&naive));
            }
        }
    }
}
