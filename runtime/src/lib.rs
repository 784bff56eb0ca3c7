//! The engine: one thread owns llama.cpp's context, everyone else holds a cloneable [`Engine`].
//!
//! Reading order: [`turn`] (what is asked and answered), [`engine`] (the handle), `worker` (the
//! thread), [`map`] (what its cells hold), `tiers` (memory and disk, off the thread), [`backend`] (the seam to llama.cpp). Beside
//! them: [`template`] and [`grammar`] (before a turn), [`sample`] (after a micro-batch).

pub mod backend;
pub mod engine;
pub mod grammar;
mod lifecycle;
pub mod map;
mod miss;
mod pace;
pub mod sample;
mod splice;
pub mod status;
pub mod template;
mod tiers;
pub mod turn;
pub mod vocabulary;
mod worker;

pub use backend::{MemoryKind, Model, ModelFacts};
pub use engine::{Engine, EngineOptions};
pub use map::{BlockMap, CacheMap, Eviction, EvictionReason, Origin, SlotMap, Tier};
pub use miss::MissReason;
pub use status::{EngineCounters, EngineStatus, Residency, SlotState, SlotStatus};
pub use tiers::in_the_background;
pub use turn::{
    AheadCounts, FinishReason, Logprobs, Purpose, Retention, TokenCounts, TokenLogprob, Turn,
    TurnError, TurnEvent, TurnReport, TurnRequest,
};
pub use vocabulary::Vocabulary;
