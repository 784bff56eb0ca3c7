//! The engine: one thread owns llama.cpp's context, everyone else holds a cloneable [`Engine`].
//!
//! Reading order: [`turn`] (what is asked and answered), [`engine`] (the handle), `worker` (the
//! thread), [`map`] (what its cells hold), `shelf` (memory and disk, off the thread), [`backend`] (the seam to llama.cpp). Beside
//! them: [`template`] and [`grammar`] (before a turn), [`sample`] (after a micro-batch).

pub mod backend;
pub mod engine;
pub mod grammar;
pub mod map;
mod miss;
mod pace;
mod residence;
pub mod sample;
mod shelf;
mod splice;
pub mod status;
pub mod template;
pub mod turn;
pub mod vocabulary;
mod worker;

pub use backend::{MemoryKind, Model, ModelFacts};
pub use engine::{Engine, EngineOptions};
pub use map::{BlockMap, CacheMap, Departure, Origin, SlotMap, Whereto, Why};
pub use miss::MissReason;
pub use shelf::in_the_background;
pub use status::{EngineCounters, EngineStatus, Residency, SlotState, SlotStatus};
pub use turn::{
    AheadCounts, FinishReason, Keeping, Logprobs, Purpose, TokenCounts, TokenLogprob, Turn,
    TurnError, TurnEvent, TurnReport, TurnRequest,
};
pub use vocabulary::Vocabulary;
