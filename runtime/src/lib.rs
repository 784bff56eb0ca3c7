//! The engine: one thread owns llama.cpp's context; callers hold a cloneable [`Engine`].
//!
//! Reading order: [`turn`] (requests and events), [`engine`] (the handle), `command` (what it
//! sends), `lifecycle` and `worker` (the thread), [`map`] (a view of its cells), `tiers` (KV
//! offload to memory and disk), [`backend`] (the trait that calls llama.cpp). Beside them: [`template`]
//! and [`grammar`] (before a turn), `draft`, `draft_model` and `drafter` (guessed tokens), `embedder`
//! (vectors of blocks that left their cells), [`sample`] (after a micro-batch), [`heartbeat`] (whether
//! the thread makes progress), [`likeness`] (of two answers), [`adapters`] (of a turn), [`fault`] (faults
//! that tests inject), [`probe`] (a trial of a model).

pub mod adapters;
mod attention;
pub mod backend;
mod background;
mod command;
mod draft;
mod draft_model;
mod drafter;
mod embedder;
pub mod engine;
pub mod fault;
pub mod grammar;
pub mod heartbeat;
mod labels;
mod lifecycle;
pub mod likeness;
pub mod map;
mod miss;
mod no_eviction;
mod options;
mod pace;
mod position;
pub mod probe;
pub mod sample;
pub mod splice;
pub mod status;
pub mod template;
mod tiers;
pub mod turn;
pub mod vocabulary;
mod watcher;
mod worker;

pub use backend::{MemoryKind, Model, ModelFacts};
pub use background::in_the_background;
pub use draft_model::{Disagreement, DraftModel};
pub use embedder::{Embedder, NoEmbeddings};
pub use engine::Engine;
pub use heartbeat::{Death, Health};
pub use map::{BlockMap, CacheMap, Eviction, EvictionReason, Origin, SlotMap, Tier};
pub use miss::MissReason;
pub use no_eviction::NoEviction;
pub use options::{EngineOptions, Recovery, ignore_time};
pub use status::{
    DraftModelCounters, EngineCounters, EngineStatus, LossyStatus, MtpCounters, MtpStatus,
    Residency, SavedStatus, SlotState, SlotStatus,
};
pub use turn::{
    AheadCounts, BackReason, CellCounts, DraftCounts, FinishReason, Logprobs, Moved, PromptPhase,
    PromptProgress, Purpose, RecallReport, Retention, Reuse, TokenCounts, TokenLogprob, Turn,
    TurnError, TurnEvent, TurnReport, TurnRequest, Way,
};
pub use vocabulary::Vocabulary;
