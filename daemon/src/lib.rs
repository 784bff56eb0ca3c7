//! `hobd` without its `main`.
//!
//! Reading order: [`startup`] (the parts are opened, joined, served, closed), [`parts`] (what there
//! is), [`http`] (routes, the guard, the socket) and [`wire`] (OpenAI's shapes); then one module a
//! part: [`chat`] with [`prompt`] (messages to tokens), [`conversations`] (text, trash, import and
//! export), [`documents`] (the library), [`profiles`], [`learned`] (prefixes without a profile),
//! [`adapters`] (those of requests), [`speech`], [`storage`] (KV on disk), [`shared`] (that several daemons see), [`upstream`] (an engine at another address), [`bridge`] (agents that generate here), [`models`], [`settings`]; and what they share:
//! [`warm`] (the warming loop), [`watch`] (changed files), [`explain`] (why tokens were computed
//! again), [`metrics`], [`crashes`], [`auth`], [`error`], [`clock`], [`children`] and their `limits`.

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
pub mod upstream;
pub mod utf16;
pub mod warm;
pub mod watch;
pub mod wire;
