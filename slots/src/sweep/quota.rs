//! The disk quota, and which conversations it removes.
//!
//! - The cheapest to rebuild per byte is removed first: little computation for much disk. Unused
//!   ones lose worth, so a conversation of last month does not displace today's.
//! - A conversation is removed whole, so no block stays without its prefix.
//! - Shared bytes are freed with their last conversation, and counted so.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use crate::ageing::AdjustedTime;
use crate::id::{BlockId, ModelHash};
use crate::store::SavedContents;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quota {
    /// A tenth of what the disk has free without saved KV, 32 GiB at most, and none of its last 10
    /// GiB.
    #[default]
    Automatic,
    /// In bytes.
    Bytes(u64),
}

/// The maximum by default.
const MAX_AUTOMATIC_BYTES: u64 = 32 << 30;

/// What saved KV leaves free by default.
const SPARED_BYTES: u64 = 10 << 30;

/// The default quota is 0, because too little of the disk is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    pub free_bytes: u64,
}

/// The consequence, and the remedy.
impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let free_gib = self.free_bytes as f64 / (1_u64 << 30) as f64;
        write!(
            f,
            "saved KV is removed once its conversation is not in use: {free_gib:.1} GiB of the disk \
             are free, and the default quota leaves 10 GiB free; free some, or set \
             slots_quota_bytes"
        )
    }
}

/// At this position of a prompt a token costs twice what the first one does: attention over the
/// tokens before it is as much work as the weights. For a 0.5B shape; larger models reach it later.
const ATTENTION_EQUALS_WEIGHTS_TOKENS: f64 = 16_384.0;

/// A conversation loses half its worth after this many hours unused, two thirds after twice as
/// many.
const HALF_WORTH_HOURS: f64 = 24.0;

impl Quota {
    /// The quota of a setting in which 0 stands for the default.
    pub fn of_setting(bytes: u64) -> Self {
        if bytes == 0 { Self::Automatic } else { Self::Bytes(bytes) }
    }

    /// `None` for the default.
    pub fn set_bytes(self) -> Option<u64> {
        match self {
            Self::Automatic => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }

    /// In bytes, with `used_bytes` in the directory and `free_bytes` on its disk. Saving KV does not
    /// change it; other programs that fill the disk do.
    pub fn bytes(self, used_bytes: u64, free_bytes: u64) -> u64 {
        let room_bytes = used_bytes.saturating_add(free_bytes);
        match self {
            Self::Automatic => {
                let most = MAX_AUTOMATIC_BYTES.min(room_bytes.saturating_sub(SPARED_BYTES));
                most.min(room_bytes / 10)
            }
            Self::Bytes(bytes) => bytes,
        }
    }

    /// Why nothing may stay on disk; `None` if something may.
    pub fn no_room(self, used_bytes: u64, free_bytes: u64) -> Option<NoRoom> {
        let is_none = self == Self::Automatic && self.bytes(used_bytes, free_bytes) == 0;
        is_none.then_some(NoRoom { free_bytes })
    }
}

/// The cost of computing a timeline, in units of its first token.
pub fn rebuild_cost(tokens: u32) -> f64 {
    let tokens = f64::from(tokens);
    tokens + tokens * tokens / (2.0 * ATTENTION_EQUALS_WEIGHTS_TOKENS)
}

/// What a saved conversation is worth per byte, unused for `silent`. The least leaves first.
pub fn worth(tokens: u32, silent: Duration, bytes: f64) -> f64 {
    let silent_hours = silent.as_secs_f64() / 3_600.0;
    let recency = HALF_WORTH_HOURS / (HALF_WORTH_HOURS + silent_hours);
    rebuild_cost(tokens) * recency / bytes.max(1.0)
}

/// The `closed` conversations to remove, in order, to free `surplus_bytes` of what `all` reference,
/// or as many as possible.
pub(super) fn leaving<'s>(
    all: impl Iterator<Item = &'s SavedContents>,
    closed: &[SavedContents],
    surplus_bytes: u64,
    now: &AdjustedTime,
) -> Vec<usize> {
    let mut needs: HashMap<(ModelHash, BlockId), u32> = HashMap::new();
    for slot in all {
        for object in objects(slot).keys() {
            *needs.entry((slot.entry.model, *object)).or_default() += 1;
        }
    }
    let worth_of = |slot: &SavedContents| {
        let share =
            |(id, bytes): (BlockId, u64)| bytes as f64 / f64::from(needs[&(slot.entry.model, id)]);
        let bytes =
            slot.entry.file_bytes as f64 + objects(slot).into_iter().map(share).sum::<f64>();
        worth(slot.entry.tokens, now.age(slot.entry.used_at), bytes)
    };
    let mut order: Vec<(f64, usize)> =
        closed.iter().enumerate().map(|(at, slot)| (worth_of(slot), at)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));

    let (mut freed_bytes, mut chosen) = (0, Vec::new());
    for (_, at) in order {
        if freed_bytes >= surplus_bytes {
            break;
        }
        let slot = &closed[at];
        freed_bytes += slot.entry.file_bytes;
        for (id, bytes) in objects(slot) {
            let need = needs.get_mut(&(slot.entry.model, id)).expect("all include the closed ones");
            *need -= 1;
            freed_bytes += if *need == 0 { bytes } else { 0 };
        }
        chosen.push(at);
    }
    chosen
}

/// Each object once, even if a slot file references it twice.
fn objects(slot: &SavedContents) -> BTreeMap<BlockId, u64> {
    slot.objects.iter().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_default_is_a_tenth_of_the_free_disk_32_gib_at_most() {
        assert_eq!(Quota::Automatic.bytes(0, 100 * GIB), 10 * GIB);
        assert_eq!(Quota::Automatic.bytes(0, 5_000 * GIB), 32 * GIB);
    }

    #[test]
    fn the_default_never_uses_the_last_10_gib() {
        assert_eq!(Quota::Automatic.bytes(0, 11 * GIB), GIB);
        assert_eq!(Quota::Automatic.bytes(0, 10 * GIB), 0);
        assert_eq!(Quota::Automatic.bytes(2 * GIB, 7 * GIB), 0, "what is saved counts as room");
    }

    #[test]
    fn a_full_disk_is_said_with_its_free_bytes_and_the_remedy() {
        let no_room = Quota::Automatic.no_room(0, 8 * GIB + GIB / 2).unwrap().to_string();
        assert!(no_room.contains("8.5 GiB") && no_room.contains("slots_quota_bytes"), "{no_room}");
        assert_eq!(Quota::Automatic.no_room(0, 11 * GIB), None);
        assert_eq!(Quota::of_setting(1).no_room(0, GIB), None, "a quota that is set holds");
    }

    #[test]
    fn saving_kv_leaves_the_default_as_it_is_and_other_programs_lower_it() {
        assert_eq!(Quota::Automatic.bytes(9 * GIB, 91 * GIB), 10 * GIB);
        assert_eq!(Quota::Automatic.bytes(9 * GIB, 51 * GIB), 6 * GIB);
    }

    #[test]
    fn a_set_quota_counts_as_it_is_and_zero_means_the_default() {
        assert_eq!(Quota::of_setting(70 * GIB).bytes(0, GIB), 70 * GIB);
        assert_eq!(Quota::of_setting(0), Quota::Automatic);
    }
}
