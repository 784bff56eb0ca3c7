//! The only tokens that may be chosen. A choice is made of their logits, in the order of their ids: it costs their
//! number, and not the vocabulary's.
//!
//! A token's *place* is its index among them, written as a token.

use std::collections::BTreeSet;

use hob_slots::Token;

#[derive(Debug)]
pub(super) struct Allowed {
    /// Ascending.
    tokens: Vec<Token>,
    logits: Vec<f32>, // Reused between choices.
}

impl Allowed {
    pub fn new(tokens: &BTreeSet<Token>) -> Self {
        Self { tokens: tokens.iter().copied().collect(), logits: Vec::new() }
    }

    /// Their logits, of those of the vocabulary. A token outside it cannot be chosen.
    pub fn logits_of(&mut self, all: &[f32]) -> &[f32] {
        self.logits.clear();
        self.logits.extend(self.tokens.iter().map(|token| {
            let logit = usize::try_from(token.0).ok().and_then(|index| all.get(index));
            logit.copied().unwrap_or(f32::NEG_INFINITY)
        }));
        &self.logits
    }

    /// The token at `place`.
    pub fn at(&self, place: Token) -> Token {
        self.tokens[place.0.unsigned_abs() as usize]
    }

    /// No token's place where it is not allowed.
    pub fn place_of(&self, token: Token) -> Token {
        Token(self.tokens.binary_search(&token).map_or(-1, |place| place as i32))
    }
}
