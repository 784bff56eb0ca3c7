//! Cached blocks as a forest, with the leaves in order of eviction.
//!
//! - Only leaves are ordered: a block cannot be evicted while one that follows it is cached.
//! - A block without a cached parent is a root until its parent is inserted.
//! - Lower ranks are evicted first. Ranks are unique.

use std::collections::{BTreeMap, HashMap};

use super::Name;

/// Blocks, each with a rank and a policy's note.
#[derive(Clone, Debug)]
pub struct Tails<Id, Rank, Note> {
    blocks: HashMap<Id, Block<Id, Rank, Note>>,
    // Cached children of a block, whether it is cached or not. Never zero.
    children: HashMap<Id, u32>,
    leaves: BTreeMap<Rank, Id>,
}

#[derive(Clone, Debug)]
struct Block<Id, Rank, Note> {
    parent: Option<Id>,
    rank: Rank,
    note: Note,
}

impl<Id, Rank, Note> Default for Tails<Id, Rank, Note> {
    fn default() -> Self {
        Self { blocks: HashMap::new(), children: HashMap::new(), leaves: BTreeMap::new() }
    }
}

impl<Id: Name, Rank: Copy + Ord, Note> Tails<Id, Rank, Note> {
    /// Inserts a new block.
    pub fn insert(&mut self, id: Id, parent: Option<Id>, rank: Rank, note: Note) {
        let before = self.blocks.insert(id, Block { parent, rank, note });
        assert!(before.is_none(), "{id:?} is cached already");
        if !self.children.contains_key(&id) {
            self.add_leaf(rank, id);
        }
        if let Some(parent) = parent {
            let children = self.children.entry(parent).or_insert(0);
            *children += 1;
            if *children == 1
                && let Some(block) = self.blocks.get(&parent)
            {
                self.leaves.remove(&block.rank);
            }
        }
    }

    /// Removes a block. Its parent may become a leaf.
    pub fn remove(&mut self, id: &Id) -> Option<Note> {
        let block = self.blocks.remove(id)?;
        if !self.children.contains_key(id) {
            self.leaves.remove(&block.rank);
        }
        if let Some(parent) = block.parent {
            let children = self.children.get_mut(&parent).expect("a parent's children count");
            *children -= 1;
            if *children == 0 {
                self.children.remove(&parent);
                if let Some(rank) = self.rank(&parent) {
                    self.add_leaf(rank, parent);
                }
            }
        }
        Some(block.note)
    }

    /// Changes the rank of a block, if it is cached.
    pub fn set_rank(&mut self, id: &Id, rank: Rank) {
        let Some(block) = self.blocks.get_mut(id) else { return };
        let before = std::mem::replace(&mut block.rank, rank);
        if !self.children.contains_key(id) {
            self.leaves.remove(&before);
            self.add_leaf(rank, *id);
        }
    }

    pub fn note(&self, id: &Id) -> Option<&Note> {
        self.blocks.get(id).map(|block| &block.note)
    }

    pub fn note_mut(&mut self, id: &Id) -> Option<&mut Note> {
        self.blocks.get_mut(id).map(|block| &mut block.note)
    }

    pub fn rank(&self, id: &Id) -> Option<Rank> {
        self.blocks.get(id).map(|block| block.rank)
    }

    /// Cached blocks that follow `id` directly.
    pub fn children(&self, id: &Id) -> u32 {
        self.children.get(id).copied().unwrap_or(0)
    }

    /// The block before `id`, cached or not.
    pub fn parent(&self, id: &Id) -> Option<Id> {
        self.blocks.get(id)?.parent
    }

    pub fn contains(&self, id: &Id) -> bool {
        self.blocks.contains_key(id)
    }

    /// The leaves in order of eviction.
    pub fn leaves(&self) -> impl Iterator<Item = (Rank, Id)> + '_ {
        self.leaves.iter().map(|(&rank, &id)| (rank, id))
    }

    /// The leaves of at least this rank.
    pub fn leaves_from(&self, rank: Rank) -> impl Iterator<Item = (Rank, Id)> + '_ {
        self.leaves.range(rank..).map(|(&rank, &id)| (rank, id))
    }

    /// The first leaf that may be evicted.
    pub fn first(&self, may_leave: &dyn Fn(&Id) -> bool) -> Option<Id> {
        self.leaves().map(|(_, id)| id).find(|id| may_leave(id))
    }

    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    fn add_leaf(&mut self, rank: Rank, id: Id) {
        let other = self.leaves.insert(rank, id);
        assert!(other.is_none(), "two blocks of one rank: {other:?} and {id:?}");
    }
}
