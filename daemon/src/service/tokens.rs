//! What a text is in tokens, and tokens as text.

use hob_slots::Token;

use super::{Service, compute};

impl Service {
    /// A text in tokens. `add_special`: with those that the model wants around it. `parse_special`:
    /// the written form of a control token becomes that token.
    pub async fn tokenize(
        &self,
        text: String,
        add_special: bool,
        parse_special: bool,
    ) -> Vec<Token> {
        let model = self.engine().model().clone();
        compute(move || model.tokenize(&text, add_special, parse_special)).await
    }

    /// Tokens as text; bytes that are no text become U+FFFD.
    pub async fn detokenize(&self, tokens: Vec<Token>) -> String {
        let model = self.engine().model().clone();
        compute(move || {
            let bytes = model.vocabulary().bytes(&tokens);
            String::from_utf8_lossy(&bytes).into_owned()
        })
        .await
    }
}
