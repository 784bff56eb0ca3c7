//! The guess that logits give.

use hob_slots::Token;

use crate::vocabulary::Vocabulary;

/// The likeliest token and its probability; `None` for one that ends an answer, unless the answer `ignores_end`, or where
/// the logits are no numbers.
pub fn likeliest(
    logits: &[f32],
    vocabulary: &Vocabulary,
    ignores_end: bool,
) -> Option<(Token, f32)> {
    let id = |at: usize| Token(i32::try_from(at).expect("a vocabulary has fewer than 2^31 tokens"));
    let counts = |at: usize| !(ignores_end && vocabulary.is_eog(id(at)));
    let mut best: Option<(usize, f32)> = None;
    for (at, &logit) in logits.iter().enumerate() {
        if logit.is_nan() {
            return None;
        }
        if best.is_none_or(|(_, most)| logit > most) && counts(at) {
            best = Some((at, logit));
        }
    }
    let (at, most) = best?;
    let sum: f32 = logits.iter().map(|logit| (logit - most).exp()).sum();
    (!vocabulary.is_eog(id(at)) || ignores_end).then(|| (id(at), sum.recip().min(1.0)))
}
