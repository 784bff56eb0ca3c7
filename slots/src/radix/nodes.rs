//! The nodes of a [`RadixTree`](super::RadixTree): edges that split and merge.
//!
//! - A node is the end of an edge; its depth counts the tokens from the root to there.
//! - `slots` are the timelines that run along the whole edge, so a child's are among its parent's.
//!   No node but the root is without slots.
//! - Splitting and merging keep the id of the *lower* end: a timeline that ends there still does.

use std::collections::{BTreeMap, BTreeSet};

use crate::block::common_prefix;
use crate::id::{SlotId, Token};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeId(usize);

pub(super) const ROOT: NodeId = NodeId(0);

#[derive(Debug)]
struct Node {
    parent: NodeId,
    edge: Vec<Token>,
    depth: usize,
    slots: BTreeSet<SlotId>,
    // How many timelines end here.
    ends: usize,
    children: BTreeMap<Token, NodeId>,
}

#[derive(Debug)]
pub(super) struct Nodes {
    nodes: BTreeMap<NodeId, Node>,
    next: usize,
}

impl Nodes {
    pub fn new() -> Self {
        let root = Node {
            parent: ROOT,
            edge: Vec::new(),
            depth: 0,
            slots: BTreeSet::new(),
            ends: 0,
            children: BTreeMap::new(),
        };
        Self { nodes: BTreeMap::from([(ROOT, root)]), next: 1 }
    }

    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    pub fn tokens(&self) -> usize {
        self.nodes.values().map(|node| node.edge.len()).sum()
    }

    pub fn depth(&self, id: NodeId) -> usize {
        self.node(id).depth
    }

    pub fn edge(&self, id: NodeId) -> &[Token] {
        &self.node(id).edge
    }

    pub fn slots(&self, id: NodeId) -> &BTreeSet<SlotId> {
        &self.node(id).slots
    }

    pub fn child(&self, id: NodeId, token: Token) -> Option<NodeId> {
        self.node(id).children.get(&token).copied()
    }

    /// Adds an empty timeline, which ends at the root.
    pub fn enter(&mut self) -> NodeId {
        self.node_mut(ROOT).ends += 1;
        ROOT
    }

    /// Removes the timeline of `slot`, which ends at `end`.
    pub fn retire(&mut self, end: NodeId, slot: SlotId) {
        let root = self.withdraw(end, slot, 0);
        self.node_mut(root).ends -= 1;
    }

    /// Whether the edge belongs to `slot` alone and ends its timeline.
    pub fn is_leaf_of(&self, id: NodeId, slot: SlotId) -> bool {
        let node = self.node(id);
        id != ROOT && node.children.is_empty() && node.slots.iter().eq([&slot])
    }

    /// Extends the edge of a leaf.
    pub fn append(&mut self, leaf: NodeId, tokens: &[Token]) {
        let node = self.node_mut(leaf);
        node.edge.extend_from_slice(tokens);
        node.depth += tokens.len();
    }

    /// Extends the timeline of `slot` from `start` by `tokens`: over existing edges, then a new
    /// one. Returns its end.
    pub fn descend(&mut self, start: NodeId, slot: SlotId, mut tokens: &[Token]) -> NodeId {
        let mut end = start;
        while let Some(&next) = tokens.first() {
            let along = match self.child(end, next) {
                None => {
                    end = self.add(end, tokens);
                    tokens.len()
                }
                Some(child) => {
                    let edge = self.edge(child);
                    let along = common_prefix(edge, tokens);
                    end = if along < edge.len() { self.split(child, along) } else { child };
                    along
                }
            };
            self.node_mut(end).slots.insert(slot);
            tokens = &tokens[along..];
        }
        // Counted before merging: `end` may be a child of `start`.
        self.node_mut(end).ends += 1;
        self.node_mut(start).ends -= 1;
        self.merge(start);
        end
    }

    /// Truncates the timeline of `slot`, which ends at `end`, to `len` tokens. Returns its end.
    pub fn withdraw(&mut self, mut end: NodeId, slot: SlotId, len: usize) -> NodeId {
        self.node_mut(end).ends -= 1;
        while self.depth(end) > len {
            let node = self.node(end);
            let stays = len.saturating_sub(node.depth - node.edge.len());
            let upper = if stays > 0 { self.split(end, stays) } else { node.parent };
            self.leave(end, slot);
            end = upper;
        }
        self.node_mut(end).ends += 1;
        end
    }

    /// Merges `id` with its only child when no timeline ends at it.
    fn merge(&mut self, id: NodeId) {
        let node = self.node(id);
        if id == ROOT || node.ends > 0 || node.children.len() != 1 {
            return;
        }
        let upper = self.nodes.remove(&id).expect("was there above");
        let lower = *upper.children.values().next().expect("has one child");
        self.node_mut(upper.parent).children.insert(upper.edge[0], lower);
        let node = self.node_mut(lower);
        node.parent = upper.parent;
        let tail = std::mem::replace(&mut node.edge, upper.edge);
        node.edge.extend(tail);
    }

    /// Splits the edge of `id` after `at` tokens. Returns the new node in the middle.
    fn split(&mut self, id: NodeId, at: usize) -> NodeId {
        let middle = self.fresh_id();
        let lower = self.node_mut(id);
        let tail = lower.edge.split_off(at);
        let edge = std::mem::replace(&mut lower.edge, tail);
        let depth = lower.depth - lower.edge.len();
        let parent = std::mem::replace(&mut lower.parent, middle);
        let slots = lower.slots.clone();
        let children = BTreeMap::from([(lower.edge[0], id)]);
        self.node_mut(parent).children.insert(edge[0], middle);
        self.nodes.insert(middle, Node { parent, edge, depth, slots, ends: 0, children });
        middle
    }

    fn add(&mut self, parent: NodeId, tokens: &[Token]) -> NodeId {
        let id = self.fresh_id();
        let node = Node {
            parent,
            edge: tokens.to_vec(),
            depth: self.depth(parent) + tokens.len(),
            slots: BTreeSet::new(),
            ends: 0,
            children: BTreeMap::new(),
        };
        self.nodes.insert(id, node);
        self.node_mut(parent).children.insert(tokens[0], id);
        id
    }

    fn leave(&mut self, id: NodeId, slot: SlotId) {
        let node = self.node_mut(id);
        node.slots.remove(&slot);
        if node.slots.is_empty() {
            let node = self.nodes.remove(&id).expect("was there above");
            self.node_mut(node.parent).children.remove(&node.edge[0]);
        } else {
            self.merge(id);
        }
    }

    fn fresh_id(&mut self) -> NodeId {
        self.next += 1;
        NodeId(self.next - 1)
    }

    fn node(&self, id: NodeId) -> &Node {
        self.nodes.get(&id).expect("a node is referred to only while it is there")
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes.get_mut(&id).expect("a node is referred to only while it is there")
    }
}
