//! From logits to a token, and from tokens to text.
//!
//! Reading order: `params` (what a request may ask for), `sampler` (one choice), `shortlist` (the
//! filters behind it), `logprobs` (what the model thought), `output` (bytes to certain text).
//!
//! - Equal seeds, parameters and logits choose equal tokens, on every platform.
//! - No logits, however broken, make the sampler panic; a NaN is a token that cannot be chosen.
//! - Nothing here knows a model: tokens are indices into the slice of logits.

mod exp;
mod logprobs;
mod output;
mod params;
mod sampler;
mod shortlist;

pub use logprobs::{LOWEST_LOGPROB, RankedLogprobs, logprobs};
pub use output::{Output, Pushed};
pub use params::{Sampling, SamplingError};
pub use sampler::{REPEAT_WINDOW, Sampler};
