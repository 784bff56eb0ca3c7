//! The entries of a slot file's table.

use super::ObjectKind;
use crate::id::BlockId;
use crate::layer::Layer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRef {
    /// The end of the block in the timeline.
    pub end: u32,
    pub id: BlockId,
    /// [The length](super::Object::file_bytes) of its object's file, when that is raw.
    pub bytes: u64,
}

/// A snapshot, whole or partial: its name tells which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRef {
    /// The snapshot's position in the timeline.
    pub position: u32,
    pub id: BlockId,
    /// [The length](super::Object::file_bytes) of its object's file, when that is raw.
    pub bytes: u64,
}

/// An object of an earlier branch: of a timeline that an edit, another answer or a cancelled turn
/// replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchRef {
    /// A block, or a snapshot, whole or partial.
    pub kind: ObjectKind,
    /// The position of its first token in that timeline; 0 for a snapshot.
    pub start: u32,
    /// The object's end in that timeline; a snapshot's position.
    pub end: u32,
    pub id: BlockId,
    /// [The length](super::Object::file_bytes) of its object's file, when that is raw.
    pub bytes: u64,
}

/// What stands before the number in the key of a message without one of its own.
const MESSAGE: &str = "message ";

/// A token range with one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRef {
    /// The end of the segment in the timeline; it begins at the end of the one before.
    pub end: u32,
    pub layer: Layer,
    /// The key of the segment, truncated to [`SegmentRef::MAX_KEY_BYTES`].
    pub key: String,
    /// At most [`SegmentRef::MAX_WEIGHT`]: how much it matters that the segment stays in a live conversation's
    /// cells.
    pub weight: u8,
    /// The segment always stays there.
    pub pinned: bool,
}

impl SegmentRef {
    pub const MAX_KEY_BYTES: usize = 200;
    /// Weight of segments whose request says nothing about it.
    pub const DEFAULT_WEIGHT: u8 = 50;
    pub const MAX_WEIGHT: u8 = 100;

    /// With the default weight, not pinned.
    pub fn new(end: u32, layer: Layer, key: impl Into<String>) -> Self {
        Self { end, layer, key: key.into(), weight: Self::DEFAULT_WEIGHT, pinned: false }
    }

    /// The key of the message with this number, where its request gives none.
    pub fn message_key(number: usize) -> String {
        format!("{MESSAGE}{number}")
    }

    /// The number in such a key; `None`: it has a key of its own.
    pub fn message_number(&self) -> Option<usize> {
        self.key.strip_prefix(MESSAGE)?.parse().ok()
    }

    /// Whether its weight and its pin are those of [`SegmentRef::new`].
    pub(super) fn is_plain(&self) -> bool {
        self.weight == Self::DEFAULT_WEIGHT && !self.pinned
    }

    /// `key`, truncated.
    pub fn bounded(key: &str) -> &str {
        let end =
            (0..=key.len().min(Self::MAX_KEY_BYTES)).rev().find(|&at| key.is_char_boundary(at));
        &key[..end.expect("every text has a border at 0")]
    }
}
