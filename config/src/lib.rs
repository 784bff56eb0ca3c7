//! Where Hob keeps its things and how it is configured.
//!
//! Four layers, weakest first: defaults, a TOML file, the environment, flags. They are merged once,
//! in `main`; nothing below reads the environment.
//!
//! Reading order: [`key`] is the table of everything that can be set; [`settings`] is what the rest
//! of the program sees; [`resolve`] merges the layers and remembers where each value came from;
//! [`sources`] gathers the layers and [`flags`] teaches clap the table; [`parse`] turns text into
//! values, `speech` those of the voice; [`edit`] writes a setting into the file; [`paths`] names the
//! directories; [`running`] tells a client where the daemon is.

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
pub use paths::Places;
pub use resolve::Resolved;
pub use running::RunningDaemon;
pub use settings::Settings;
pub use sources::{ConfigFile, Sources};
pub use values::{CacheType, ModelChoice};
