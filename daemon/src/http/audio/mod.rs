//! `/v1/audio`: speech and transcription as in OpenAI's API.
//!
//! - The configured commands know neither when a word was spoken nor in which language: what would need that
//!   is refused, or left out. Nor do they translate.
//!
//! Reading order: `speak` (a text to sound), `transcribe` (sound to a text) with `transcript` (how it is
//! written), `events` (both as streams).

mod events;
mod speak;
mod transcribe;
mod transcript;

pub use speak::speak;
pub use transcribe::{transcribe, translate};
