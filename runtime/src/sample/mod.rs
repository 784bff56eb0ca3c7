//! Samples a token from logits, and assembles text from tokens.
//!
//! Reading order: `params` (a request's settings), `sampler` (one choice), `shortlist` (its
//! filters), `logprobs` (the model's own distribution), `output` (bytes to text).
//!
//! - Equal seeds, parameters and logits choose equal tokens, on every platform.
//! - No logits, however broken, make the sampler panic; a NaN is a token that cannot be chosen.
//! - Independent of the model: tokens are indices into the slice of logits.

mod exp;
mod logprobs;
mod output;
mod params;
mod sampler;
mod shortlist;

pub use logprobs::{LOWEST_LOGPROB, RankedLogprobs, logprobs};
pub use output::{Output, Pushed};
pub use params::{Sampling, SamplingError};
pub use sampler::Sampler;
