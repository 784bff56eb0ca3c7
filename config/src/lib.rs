//! Hob's settings and the directories of its data.
//!
//! Four layers, weakest first: defaults, a TOML file, the environment, flags. They are merged once,
//! in `main`; nothing below reads the environment.
//!
//! Reading order: `table` has one row a setting, and is the only file to edit for a new one;
//! [`key`] and [`settings`] are made of it; [`resolve`] merges the layers and keeps the origin of
//! each value; [`sources`] gathers the layers and [`flags`] gives the table to clap; [`parse`]
//! turns text into values, `voice` into those of the voice; [`edit`] writes a setting into the
//! file; [`paths`] names the directories; `sequences` divides those of llama.cpp; [`running`] describes the
//! running daemon to its clients.

pub mod edit;
pub mod error;
mod file;
pub mod flags;
pub mod key;
mod layers;
pub mod origin;
pub mod parse;
pub mod paths;
pub mod resolve;
pub mod running;
mod sequences;
pub mod settings;
pub mod sources;
mod table;
pub mod values;
mod voice;

pub use edit::EditError;
pub use error::ConfigError;
pub use flags::{ClientFlags, DaemonFlags, Flags};
pub use key::Key;
pub use origin::{Entry, Origin};
pub use paths::UserDirs;
pub use resolve::Resolved;
pub use running::RunningDaemon;
pub use settings::Settings;
pub use sources::{ConfigFile, Sources};
pub use values::{
    Adapter, CacheType, ContextChoice, DraftChoice, EvictionChoice, GpuLayers, LossyChoice,
    ModelChoice, NamedAdapter, OpenRoutes, SharedPlace, TtlClass,
};
