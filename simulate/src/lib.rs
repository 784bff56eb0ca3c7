//! Replays request traces against eviction policies and counts cache hits.
//!
//! - No model and no files: block names, and a clock of its own.
//! - The same trace, seed and policy always give the same figures.
//!
//! Reading order: [`trace`] reads recorded requests; [`workload`] makes request streams from them;
//! [`policy`] has the policies; [`replay`](mod@replay) counts hits in order of arrival; [`optimum`]
//! is what a policy with knowledge of the future reaches; [`closed`] lets clients wait for their
//! answers, over the memory and the [`disk`] of the runtime; [`summary`] says what a stream asks of a
//! cache; [`fit`] makes the policy's prior; [`study`] runs tables of all that, and [`plot`] draws them.

pub mod bundled;
pub mod closed;
pub mod disk;
pub mod fit;
pub mod optimum;
pub mod plot;
pub mod policy;
pub mod random;
pub mod replay;
pub mod study;
pub mod summary;
pub mod trace;
pub mod workload;

/// Tokens of a block, as in the published traces.
pub const BLOCK_TOKENS: u64 = 512;
