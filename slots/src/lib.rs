//! What kept KV is called, where it lies and how long it stays. No C++, no model, no clock.
//!
//! Read in this order:
//!
//! 1. [`id`]: the names. [`time`] and [`ttl`]: when something is old.
//! 2. [`block`]: how a timeline is cut into blocks and how their names chain; [`layer`] and
//!    [`key`]: what a request says about its prompt, and what pins it.
//! 3. [`registry`]: which conversation is pinned to which slot. [`radix`]: which slot already
//!    holds the longest beginning of a prompt. [`warm`]: bytes kept in host memory, and [`evict`]:
//!    which of them leave.
//! 4. [`format`](mod@format): the bytes of a file, without a path. [`store`]: the directory,
//!    without a policy. [`fingerprint`]: what names a model's directory.
//! 5. [`evict`]: who leaves a place that is full. [`sweep`]: the pass that keeps the directory
//!    small, [`ageing`]: how old something is there. [`usage`]: which bytes each
//!    conversation needs; [`maintenance`]: prune, collect, remove and change classes; [`verify`]: whether what is kept is
//!    whole; [`archive`]: conversations as one portable file.

pub mod ageing;
pub mod archive;
pub mod block;
pub mod evict;
pub mod fingerprint;
pub mod format;
pub mod id;
pub mod key;
pub mod layer;
pub mod maintenance;
pub mod payload;
pub mod radix;
pub mod registry;
pub mod store;
pub mod sweep;
pub mod time;
pub mod ttl;
pub mod usage;
pub mod verify;
pub mod warm;

pub use ageing::{AdjustedTime, ClockTracker};
pub use block::{BLOCK_TOKENS, Block, Timeline, blocks_of, common_prefix, cut};
pub use fingerprint::{FileDigest, Fingerprint, FingerprintError, Lora, Rope};
pub use format::{
    BlockRef, FormatError, Object, ObjectHeader, ObjectKind, Seal, SegmentRef, SlotHeader,
    SlotRecord, SlotTable, SnapshotRef,
};
pub use id::{BlockId, ConversationId, ModelHash, ParseIdError, SlotId, Token};
pub use key::{CacheKey, KeyFields, KeySegment, PrefixHash, derive_slot_id, stable_prefix_hash};
pub use layer::Layer;
pub use payload::Payload;
pub use radix::RadixTree;
pub use registry::{Pin, Registry};
pub use store::{
    Checked, Garbage, Listing, Miss, ObjectName, Quarantined, Rejected, SAVE_GRACE, SavedContents,
    SavedEntry, Store, StoreError, StoreReader, StoredFile,
};
pub use sweep::{LiveRefs, NoEngine, Quota, Rules, Sweeper, Swept};
pub use time::Timestamp;
pub use ttl::{Lifetimes, TtlClass, TtlParseError};
pub use warm::{Use, WarmPool};
