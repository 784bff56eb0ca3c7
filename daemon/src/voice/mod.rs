//! Voice: who is heard, and what is said first.
//!
//! Reading order: [`ears`] (sound to the beginning and end of speech).

pub mod ears;
