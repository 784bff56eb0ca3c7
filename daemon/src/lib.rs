//! `hobd` without its `main`.
//!
//! Reading order:
//! - [`startup`] opens, joins, serves and closes the [`parts`]; [`http`] has the routes, the guard and the
//!   socket, [`wire`] OpenAI's shapes.
//! - One module a part: [`chat`] with [`prompt`] (messages to tokens), [`conversations`] (text, trash, import
//!   and export), [`documents`] (the library), [`profiles`], [`learned`] (prefixes without a profile),
//!   [`adapters`] (of requests), [`speech`], [`storage`] (KV on disk), [`shared`] (a tier of several daemons),
//!   [`models`], [`settings`].
//! - Two that generate elsewhere or for others: [`upstream`] (an engine at another address) and [`bridge`]
//!   (agents that generate here).
//! - Loops: [`warm`] (prefixes), [`watch`] (changed files).
//! - Shared by all: [`explain`] (why tokens were computed again), [`metrics`], [`crashes`], [`auth`], [`error`],
//!   [`clock`], [`children`] and their `limits`, `blocking`, `engine_status`, `uncancelled`, `json_file`,
//!   `private_dir`, [`utf16`].

pub mod adapters;
pub mod auth;
mod blocking;
pub mod bridge;
pub mod chat;
pub mod children;
pub mod clock;
pub mod conversations;
pub mod crashes;
pub mod documents;
mod engine_status;
pub mod error;
pub mod explain;
pub mod http;
mod json_file;
pub mod learned;
mod limits;
pub mod metrics;
pub mod models;
pub mod parts;
mod private_dir;
pub mod profiles;
pub mod prompt;
pub mod settings;
pub mod shared;
pub mod speech;
pub mod startup;
pub mod storage;
mod uncancelled;
pub mod upstream;
pub mod utf16;
pub mod warm;
pub mod watch;
pub mod wire;
