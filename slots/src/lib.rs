//! Names, formats, storage and eviction of KV. No C++, no model, no clock.
//!
//! Reading order:
//!
//! 1. [`id`]: the names. [`time`], [`ttl`] and [`ageing`]: when saved KV expires.
//! 2. [`block`]: cuts a timeline into blocks and chains their names. [`lineage`]: what its tokens attended to.
//!    [`lossy`]: how aged KV is rounded. [`layer`] and [`key`]: what a request says about its prompt, and its
//!    cache key. [`adapters`]: those of a request, and the names of its KV. [`branches`]: objects that a
//!    conversation has left behind.
//! 3. [`registry`]: pins conversations to slots. [`radix`]: finds the slot with the longest prefix
//!    of a prompt. [`warm`]: the KV blocks in host memory; [`evict`]: the policies that evict them.
//!    [`recall`]: which absent blocks of a conversation come back when new text arrives.
//!    [`away`]: which blocks of a live conversation lose their cells. [`content`]: text of a prompt whose KV
//!    is saved at another place. [`reanchor`]: which part of a conversation goes on in a new timeline.
//! 4. [`format`](mod@format): the bytes of a file, without a path. [`store`]: the directory,
//!    without a policy. [`fingerprint`]: the name of a model's directory.
//! 5. [`sweep`]: expires, collects, compresses and holds the quota. [`usage`]: which bytes a saved
//!    conversation needs. [`maintenance`]: prune, collect, remove, set class. [`verify`]: finds
//!    damage. [`archive`]: export and import.

#[cfg(not(unix))]
compile_error!("Hob runs on Linux and macOS; on Windows, use WSL");

pub mod adapters;
pub mod ageing;
pub mod archive;
pub mod away;
pub mod block;
pub mod branches;
pub mod content;
pub mod evict;
pub mod fingerprint;
pub mod format;
pub mod id;
pub mod key;
pub mod layer;
pub mod lineage;
pub mod lossy;
pub mod maintenance;
pub mod payload;
pub mod radix;
pub mod reanchor;
pub mod recall;
pub mod registry;
pub mod store;
pub mod sweep;
pub mod time;
pub mod ttl;
pub mod usage;
pub mod verify;
pub mod warm;

pub use adapters::{AdapterSet, AdapterSetError};
pub use ageing::{AdjustedTime, ClockTracker};
pub use block::{BLOCK_TOKENS, Block, Timeline, blocks_of, common_prefix, cut};
pub use fingerprint::{FileDigest, Fingerprint, FingerprintError, Lora, Rope};
pub use format::{
    BlockRef, BranchRef, FormatError, Object, ObjectHeader, ObjectKind, Seal, SegmentRef,
    SlotHeader, SlotRecord, SlotTable, SnapshotRef,
};
pub use id::{BlockId, ConversationId, ModelHash, ParseIdError, SlotId, Token, hex_text};
pub use key::{
    CacheKey, KeyFields, KeySegment, PrefixHash, derive_slot_id, slot_of_id, stable_prefix_hash,
};
pub use layer::Layer;
pub use lineage::{Lineage, View, ViewRun};
pub use lossy::Lossy;
pub use payload::Payload;
pub use radix::RadixTree;
pub use registry::{Pin, Registry};
pub use store::{
    Checked, Garbage, Listing, Miss, ObjectName, Quarantined, Rejected, SAVE_GRACE, SavedContents,
    SavedEntry, Store, StoreError, StoreReader, StoredFile,
};
pub use sweep::{LiveRefs, NoEngine, NoRoom, Quota, Rules, Sweeper, Swept};
pub use time::Timestamp;
pub use ttl::{Lifetimes, TtlClass, TtlParseError};
pub use warm::{Figures as MemoryFigures, Use, WarmPool};
