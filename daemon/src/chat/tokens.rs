//! Text to tokens and back, without the engine.

use hob_slots::Token;

use super::Chat;
use crate::blocking::compute;

impl Chat {
    /// `add_special`: adds the model's begin and end tokens. `parse_special`: the written form of a
    /// control token becomes that token.
    pub async fn tokenize(
        &self,
        text: String,
        add_special: bool,
        parse_special: bool,
    ) -> Vec<Token> {
        let model = self.engine().model().clone();
        compute(move || model.tokenize(&text, add_special, parse_special)).await
    }

    /// Bytes that are not UTF-8 become U+FFFD.
    pub async fn detokenize(&self, tokens: Vec<Token>) -> String {
        let model = self.engine().model().clone();
        compute(move || {
            let bytes = model.vocabulary().bytes(&tokens);
            String::from_utf8_lossy(&bytes).into_owned()
        })
        .await
    }
}
