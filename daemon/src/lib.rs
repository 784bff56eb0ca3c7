//! `hobd` without its `main`: the service, its HTTP face, transcripts and the access token.
//!
//! Reading order: [`startup`] (how the parts are opened and joined), [`service`] (what can be
//! asked), [`transcript`] (what is remembered), [`explain`] (why
//! something was computed twice), [`wire`] (the wire's shapes), [`http`] (routes,
//! guards and the socket), [`warm`] and [`idle`] (what happens in silence), [`watch`]
//! (what happens to files), [`catalogue`] (which other models there are), [`voice`] (who is heard,
//! and what is said first), [`auth`] and [`metrics`].

pub mod auth;
pub mod catalogue;
pub mod clock;
pub mod error;
pub mod explain;
pub mod http;
pub mod idle;
pub mod metrics;
pub mod portable;
pub mod service;
pub mod silence;
pub mod startup;
pub mod sweeping;
pub mod transcript;
pub mod trash;
pub mod utf16;
pub mod voice;
pub mod warm;
pub mod watch;
pub mod wire;
