//! `completion_probabilities`: how likely each token was, and the likeliest others.

use hob_runtime::turn::{Logprobs, TokenLogprob};
use serde_json::{Value, json};

/// `as_probabilities`: between 0 and 1, and without tokens that cannot be chosen; else their logarithms.
pub fn of(tokens: &[Logprobs], as_probabilities: bool) -> Value {
    let (top_name, value_name) =
        if as_probabilities { ("top_probs", "prob") } else { ("top_logprobs", "logprob") };
    let entry = |token: &TokenLogprob| {
        let value = if as_probabilities { token.logprob.exp() } else { token.logprob };
        json!({
            "id": token.token.0,
            "token": String::from_utf8_lossy(&token.bytes),
            "bytes": token.bytes,
            value_name: value,
        })
    };
    let is_possible = |token: &&TokenLogprob| !as_probabilities || token.logprob.exp() > 0.0;
    let one = |token: &Logprobs| {
        let mut chosen = entry(&token.chosen);
        chosen[top_name] = token.top.iter().filter(is_possible).map(entry).collect();
        chosen
    };
    tokens.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use hob_slots::Token;

    use super::*;

    #[test]
    fn tokens_that_cannot_be_chosen_have_no_probability() {
        let token = |id, logprob| TokenLogprob { token: Token(id), bytes: vec![97], logprob };
        let top = vec![token(1, 0.0), token(2, f32::MIN)];
        let tokens = [Logprobs { chosen: token(1, 0.0), top }];
        let shown = of(&tokens, true);
        assert_eq!(shown[0]["prob"], json!(1.0));
        assert_eq!(shown[0]["top_probs"].as_array().unwrap().len(), 1);
        assert_eq!(of(&tokens, false)[0]["top_logprobs"].as_array().unwrap().len(), 2);
    }
}
