//! A real hobd for tests: starts the process, waits until it serves, and talks HTTP to it.
//!
//! - The caller names the binary: tests of hob-daemon their own, checks of the page the one that
//!   was built beside them.
//! - hobd listens on a free port of loopback, writes below a directory of the test, and inherits no
//!   variable of the environment.
//! - No process outlives its value: dropping a [`Process`] kills its process group and reaps it.
//! - Every wait has a bound, and its panic says what it waited for.
//!
//! Reading order: [`hobd`], [`client`] (requests that must succeed), [`http`] (any request, also a
//! malformed one), [`process`], [`wait`], [`files`], [`asset`](mod@asset), [`gguf`], [`real_model`](mod@real_model),
//! [`registry`], [`port`].

pub mod asset;
pub mod client;
pub mod files;
pub mod gguf;
pub mod hobd;
pub mod http;
pub mod port;
pub mod process;
pub mod real_model;
pub mod registry;
pub mod wait;

pub use asset::asset;
pub use client::Client;
pub use gguf::Gguf;
pub use hobd::{Fault, Hobd, Launch};
pub use http::{Answer, Call, Stream};
pub use port::free_port;
pub use process::{Memory, Process, Signal};
pub use real_model::real_model;
