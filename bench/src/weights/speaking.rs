//! Which tokens a model with random weights and a real vocabulary answers.
//!
//! - An answer's token is a plain word or a part of one, never an end, half a character or a mark of a
//!   tool call: each is a piece of text of its own, so that a client can count tokens and time them.
//! - All rows of the output matrix are computed, and all logits are sampled from, as of any model.
//! - Logits spread so that sampling chooses among a few likely tokens, as in a trained model, whose
//!   entropy is about 2 nats.

use std::io;

use super::gguf::Metadata;
use super::layout::Scales;
use super::tensor::Tensor;

/// Standard deviation of the logits.
const LOGITS: f32 = 4.5;

/// A scale in half precision, the smallest normal one: logits of about 0.
pub const QUIET: u16 = 0x0400;

/// A Q8_0 block: its scale, and 32 bytes.
const BLOCK_BYTES: usize = 34;

/// What a layer adds, as a factor: small beside it, a token's own embedding makes it not much likelier to
/// follow itself, which drafts would guess.
const LAYER: f32 = 4.0;

/// The embeddings are the output matrix too, and activations in front of it have the norm sqrt(width).
pub fn scales(width: usize) -> Scales {
    Scales { embedding: LOGITS / (width as f32).sqrt(), layer: LAYER }
}

/// Tokens that are never likely; a model without any speaks all.
#[derive(Default)]
pub struct Quiet(Vec<bool>);

impl Quiet {
    pub fn of(lender: &Metadata<'_>) -> io::Result<Self> {
        let tokens = lender.texts("tokenizer.ggml.tokens")?;
        Ok(Self(tokens.into_iter().map(|token| !is_word(token)).collect()))
    }

    /// Makes the quiet tokens among these rows of the output matrix unlikely; tokens beyond those of the
    /// lender, too.
    pub fn silence(&self, rows: &mut [u8], tensor: &Tensor, first: usize) {
        if self.0.is_empty() {
            return;
        }
        for (row, token) in rows.chunks_exact_mut(tensor.row_bytes()).zip(first..) {
            if self.0.get(token).is_none_or(|&quiet| quiet) {
                for block in row.chunks_exact_mut(BLOCK_BYTES) {
                    block[..2].copy_from_slice(&QUIET.to_le_bytes());
                }
            }
        }
    }
}

/// Letters, with a space before them or without; GPT-2's alphabet writes a space as this character.
fn is_word(token: &[u8]) -> bool {
    let letters = token.strip_prefix("\u{120}".as_bytes()).unwrap_or(token);
    !letters.is_empty() && letters.iter().all(u8::is_ascii_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_speak_and_all_else_is_quiet() {
        let spoken = ["river", "\u{120}stone", "A"];
        let quiet =
            ["<|im_end|>", "\u{120}", "{", "42", "\u{e9}", "", "[PAD151935]", "\u{120}\u{120}in"];
        assert!(spoken.iter().all(|token| is_word(token.as_bytes())));
        assert!(quiet.iter().all(|token| !is_word(token.as_bytes())));
    }
}
