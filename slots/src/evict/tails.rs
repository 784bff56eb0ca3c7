//! The kept blocks as a forest, with its leaves in the order in which they should leave.
//!
//! - Only leaves are in the order: a block is out of reach while one that follows it is kept.
//! - A block whose parent is not kept is a root. When the parent comes, it is none any more.
//! - Lower ranks leave first. No two blocks have the same rank.

use std::collections::{BTreeMap, HashMap};

use super::Name;

/// Blocks, each with a rank and with what a policy notes about it.
#[derive(Clone, Debug)]
pub struct Tails<Id, Rank, Note> {
    blocks: HashMap<Id, Block<Id, Rank, Note>>,
    // Kept children of a block, whether it is kept itself or not. Never zero.
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
    /// Adds a block that is not here.
    pub fn insert(&mut self, id: Id, parent: Option<Id>, rank: Rank, note: Note) {
        let before = self.blocks.insert(id, Block { parent, rank, note });
        assert!(before.is_none(), "{id:?} is kept already");
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

    /// Takes a block out. Its parent may be a leaf then.
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

    /// Changes when a block should leave. One that is not here is left alone.
    pub fn set_rank(&mut self, id: &Id, rank: Rank) {
        let Some(block) = self.blocks.get_mut(id) else { return };
        let before = std::mem::replace(&mut block.rank, rank);
        if !self.children.contains_key(id) {
            self.leaves.remove(&before);
            self.add_leaf(rank, *id);
        }
    }

    /// What is noted about a block.
    pub fn note(&self, id: &Id) -> Option<&Note> {
        self.blocks.get(id).map(|block| &block.note)
    }

    /// What is noted about a block, to be changed.
    pub fn note_mut(&mut self, id: &Id) -> Option<&mut Note> {
        self.blocks.get_mut(id).map(|block| &mut block.note)
    }

    /// Its rank.
    pub fn rank(&self, id: &Id) -> Option<Rank> {
        self.blocks.get(id).map(|block| block.rank)
    }

    /// Kept blocks that follow `id` directly.
    pub fn children(&self, id: &Id) -> u32 {
        self.children.get(id).copied().unwrap_or(0)
    }

    /// The block before `id`, kept or not.
    pub fn parent(&self, id: &Id) -> Option<Id> {
        self.blocks.get(id)?.parent
    }

    /// Whether it is here.
    pub fn contains(&self, id: &Id) -> bool {
        self.blocks.contains_key(id)
    }

    /// The leaves, the first to leave first.
    pub fn leaves(&self) -> impl Iterator<Item = (Rank, Id)> + '_ {
        self.leaves.iter().map(|(&rank, &id)| (rank, id))
    }

    /// The leaves of this rank and above.
    pub fn leaves_from(&self, rank: Rank) -> impl Iterator<Item = (Rank, Id)> + '_ {
        self.leaves.range(rank..).map(|(&rank, &id)| (rank, id))
    }

    /// The first leaf that may leave.
    pub fn first(&self, may_leave: &dyn Fn(&Id) -> bool) -> Option<Id> {
        self.leaves().map(|(_, id)| id).find(|id| may_leave(id))
    }

    /// Blocks that are here.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    fn add_leaf(&mut self, rank: Rank, id: Id) {
        let other = self.leaves.insert(rank, id);
        assert!(other.is_none(), "two blocks of one rank: {other:?} and {id:?}");
    }
}
