//! Tokens that the engine has reported and the client does not have.
//!
//! - A token is handed out once its text has begun: the engine holds text back that may be the beginning of a stop text.
//! - A token of the stop text that ends an answer is never handed out, unless text in front of the stop text is in it, too.

use std::collections::VecDeque;

use hob_runtime::turn::Logprobs;
use hob_slots::Token;

/// Tokens that are handed out together.
#[derive(Clone, Debug, Default)]
pub(super) struct TokenRun {
    pub tokens: Vec<Token>,
    /// Of `tokens`, if the request asks for them.
    pub logprobs: Vec<Logprobs>,
}

#[derive(Default)]
pub(super) struct HeldTokens {
    held: VecDeque<HeldToken>,
    /// Bytes of all tokens.
    token_bytes: usize,
    /// Bytes of text from the engine.
    text_bytes: usize,
}

struct HeldToken {
    /// Bytes of the tokens before it.
    begin: usize,
    token: Token,
    logprobs: Option<Logprobs>,
}

impl HeldTokens {
    /// `bytes`: of the token.
    pub fn push(&mut self, token: Token, bytes: usize, logprobs: Option<Logprobs>) {
        self.held.push_back(HeldToken { begin: self.token_bytes, token, logprobs });
        self.token_bytes += bytes;
    }

    /// `bytes`: of a text that the engine reports.
    pub fn add_text(&mut self, bytes: usize) {
        self.text_bytes += bytes;
    }

    /// Takes the tokens whose text has begun: the last ones, too, of a choice that a stop text ended.
    pub fn take_begun(&mut self) -> TokenRun {
        let begun = self.held.partition_point(|held| held.begin < self.text_bytes);
        self.take(begun)
    }

    /// Takes all tokens of a choice that no stop text ended.
    pub fn take_all(&mut self) -> TokenRun {
        self.take(self.held.len())
    }

    fn take(&mut self, count: usize) -> TokenRun {
        let mut run = TokenRun::default();
        for HeldToken { token, logprobs, .. } in self.held.drain(..count) {
            run.tokens.push(token);
            run.logprobs.extend(logprobs);
        }
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens of one byte, and the bytes of text that the engine reports with each.
    fn pushed(texts: &[usize]) -> HeldTokens {
        let mut held = HeldTokens::default();
        for (token, text) in (0..).zip(texts) {
            held.push(Token(token), 1, None);
            held.add_text(*text);
        }
        held
    }

    #[test]
    fn a_token_is_handed_out_when_its_text_begins() {
        let mut held = pushed(&[1, 0]);
        assert_eq!(held.take_begun().tokens, [Token(0)]);
        assert!(held.take_begun().tokens.is_empty());
        held.push(Token(2), 3, None);
        held.add_text(2); // The last two bytes of the third token may begin a stop text.
        assert_eq!(held.take_begun().tokens, [Token(1), Token(2)]);
    }

    #[test]
    fn of_a_stop_text_only_a_token_with_text_in_front_of_it_is_handed_out() {
        assert_eq!(pushed(&[1, 0, 0]).take_begun().tokens, [Token(0)]);
        assert_eq!(pushed(&[1, 0, 0]).take_all().tokens, [0, 1, 2].map(Token));
        let mut held = pushed(&[1]);
        held.push(Token(1), 2, None);
        held.add_text(1);
        held.push(Token(2), 1, None);
        assert_eq!(held.take_begun().tokens, [Token(0), Token(1)]);
    }
}
