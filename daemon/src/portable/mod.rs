//! Conversations outside of the database: as JSON, as Markdown, and in an archive with their KV.
//!
//! - JSON is everything that is known: all branches, and how each answer ended. Markdown is the branch
//!   that was used last, for people, and can be read back.
//! - What comes in is somebody else's: every message is checked as a request's are, and nothing of a
//!   document decides where anything is written.
//!
//! Reading order: `document`, `finish`, `markdown`, `archive`.

pub mod archive;
mod document;
mod finish;
pub mod markdown;

pub use document::{Document, Extent, Node, VERSION};
