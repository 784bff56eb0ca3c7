//! Voice: who is heard, and what is said while the model thinks.
//!
//! Reading order: [`vad`] (sound to the beginning and end of speech), [`active_speakers`] (whether someone
//! speaks), [`recognizer`] (sound to text), [`filler`] (short phrases at hand), and what those are made
//! with: [`program`], [`command`], [`wav`] and [`phrase_cache`]. Which phrase is made, said or dropped is decided in [`hob_prewarm::phrase`].

pub mod active_speakers;
pub mod command;
pub mod filler;
pub mod phrase_cache;
pub mod program;
pub mod recognizer;
pub mod vad;
pub mod wav;
