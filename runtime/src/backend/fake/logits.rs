//! The logits of the stand-in.

use hob_slots::Token;

use super::content::mix;
use super::{END_OF_TEXT, FakeModel, IM_END, echo};

/// One in this many tokens ends the answer.
const ANSWER_LENGTH: u64 = 24;

/// One in this many tokens of a model that copies is noise.
const COPY_LENGTH: u64 = 12;

/// The logits behind `tokens`, whose last cell has the content `kv`. Sleeps for the pace of an [`echo`].
pub(super) fn next_logits(model: &FakeModel, tokens: &[Token], kv: u64) -> Vec<f32> {
    let mut logits = noise(kv, model.vocabulary.len());
    if model.copies && !mix(kv ^ 0xc0b1).is_multiple_of(COPY_LENGTH) {
        copy(tokens, &mut logits);
    }
    if let Some(echoed) = echo::next(tokens) {
        logits[usize::try_from(echoed.token.0).expect("a token of this vocabulary")] = 100.0;
        std::thread::sleep(echoed.pace);
    }
    if model.computes_nan {
        logits.fill(f32::NAN);
    }
    logits
}

/// Logits that make lower-case words with spaces, an end now and then, and no ties.
fn noise(kv: u64, vocabulary: usize) -> Vec<f32> {
    let mut values: Vec<f32> = (0..vocabulary)
        .map(|id| {
            let noise = (mix(kv ^ (id as u64) << 32) >> 40) as f32 / (1u64 << 24) as f32;
            let letter = (0x61..=0x7a).contains(&id) || id == 0x20;
            if letter { noise + 2.0 } else { noise }
        })
        .collect();
    values[256..].fill(-4.0); // Control tokens.
    if mix(kv ^ 0xe0d).is_multiple_of(ANSWER_LENGTH) {
        values[usize::try_from(IM_END).expect("positive")] = 8.0;
    }
    values[usize::try_from(END_OF_TEXT).expect("positive")] = -8.0;
    values
}

/// Makes the token likeliest that followed the last two tokens before, if they occurred before.
fn copy(tokens: &[Token], logits: &mut [f32]) {
    let Some((_, last)) = tokens.split_at_checked(tokens.len().saturating_sub(2)) else { return };
    let mut earlier = tokens.windows(3).rev();
    if let Some(found) = earlier.find(|found| found[..2] == *last) {
        logits[usize::try_from(found[2].0).expect("a token of this vocabulary")] += 6.0;
    }
}
