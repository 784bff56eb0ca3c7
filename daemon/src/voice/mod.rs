//! Voice: who is heard, and what is said while the model thinks.
//!
//! Reading order: [`ears`] (sound to the beginning and end of speech), [`quiet`] (whether someone
//! speaks), [`recognizer`] (sound to text), [`filler`] (short phrases at hand), and what those are made
//! with: [`program`], [`command`], [`wav`] and [`kept`]. Which phrase is made, said or dropped is decided in [`hob_prewarm::phrase`].

pub mod command;
pub mod ears;
pub mod filler;
pub mod kept;
pub mod program;
pub mod quiet;
pub mod recognizer;
pub mod wav;
