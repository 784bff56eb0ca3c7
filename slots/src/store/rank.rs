//! Which of two slot files of one conversation is the valid one: a crash during a class change
//! leaves both.

use crate::time::Timestamp;
use crate::ttl::TtlClass;

/// The file with the higher rank of a conversation is the valid one.
pub type Rank = (Timestamp, u32, TtlClass);

/// By last use, then turns, then the class with the longer lifetime.
pub fn rank(used_at: Timestamp, turns: u32, class: TtlClass) -> Rank {
    (used_at, turns, class)
}
