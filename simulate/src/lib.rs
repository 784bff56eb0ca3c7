//! Replays request traces against the eviction policies: which one keeps what is asked for again?
//!
//! - No model and no files of a store: names of blocks and a clock of its own. The policies are
//!   those that the runtime uses, see [`hob_slots::evict`].
//! - The same trace, seed and policy always give the same figures.
//!
//! Reading order: [`trace`] reads what was recorded; [`workload`] makes streams of requests from
//! it; [`replay`](mod@replay) counts hits in the order of arrival; [`optimum`] is what a policy
//! could reach that knows the future; [`closed`] lets clients wait for their answers;
//! [`study`] runs a table of it all, and [`plot`] draws one.

pub mod bundled;
pub mod closed;
pub mod optimum;
pub mod plot;
pub mod policy;
pub mod random;
pub mod replay;
pub mod study;
pub mod trace;
pub mod workload;

/// Tokens of a block in these studies, as in the published traces.
pub const BLOCK_TOKENS: u64 = 512;
