//! What the process knows of one conversation's newest record.

use std::sync::Arc;

use hob_slots::format::{BranchRef, SlotRecord};
use hob_slots::{Timestamp, TtlClass};

/// A record without its tokens and blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub class: TtlClass,
    pub created_at: Timestamp,
    pub turns: u32,
    pub tokens: usize,
    /// The record must not reach the disk.
    pub in_memory: bool,
    /// The record is not on disk yet, and was made without reading the slot file before it. So is the next record, if
    /// that one comes first.
    pub unread: Option<Unread>,
}

/// A record that was made without reading the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread {
    /// No class was asked for, as far as is known.
    pub is_default_class: bool,
    /// The record names the branches of the one before: their names had stayed in memory.
    pub names_branches: bool,
}

/// Where a conversation's newest record is.
#[derive(Clone, Debug)]
pub enum Located {
    InMemory(Arc<SlotRecord>),
    OnDisk { tokens: usize },
}

#[derive(Debug)]
pub(super) enum Entry {
    /// There is no record, in memory or on disk.
    Absent,
    InMemory {
        record: Arc<SlotRecord>,
        summary: Summary,
        disk: Disk,
    },
    /// The record is only on disk. The objects of its timeline and those of earlier branches are
    /// known by name: 56 bytes each, where a block's file has ten thousand and more.
    OnDisk {
        summary: Summary,
        own: Vec<BranchRef>,
        older: Vec<BranchRef>,
    },
}

/// Whether a record in memory is on disk too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disk {
    Pending,
    /// The write failed.
    Failed,
    Saved {
        last_use: u64,
    },
}

impl Entry {
    /// The objects of the record's timeline, and those of earlier branches.
    pub fn objects(self) -> (Vec<BranchRef>, Vec<BranchRef>) {
        match self {
            Self::Absent => Default::default(),
            Self::InMemory { record, .. } => split(&record),
            Self::OnDisk { own, older, .. } => (own, older),
        }
    }
}

/// The objects of the record's timeline, and those of earlier branches.
pub fn split(record: &SlotRecord) -> (Vec<BranchRef>, Vec<BranchRef>) {
    let mut own: Vec<BranchRef> = record.placed().collect();
    let older = own.split_off(own.len() - record.branches.len());
    (own, older)
}

pub(super) fn summary(record: &SlotRecord) -> Summary {
    Summary {
        in_memory: false,
        unread: None,
        class: record.class,
        created_at: record.created_at,
        turns: record.turns,
        tokens: record.tokens.len(),
    }
}

/// Memory that the record takes.
pub(super) fn bytes(record: &SlotRecord) -> usize {
    4 * record.tokens.len() + 48 * record.objects().count()
}
