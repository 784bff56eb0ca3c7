//! `bad_words`: the tokens that an answer may not have.
//!
//! - A word begins an answer or stands behind a space: both ways have tokens of their own. Of each way, one token is
//!   never chosen.
//! - A word of several tokens is refused: each of them is part of other words, too.

use hob_runtime::backend::Model;
use hob_slots::Token;

use crate::error::ApiError;
use crate::wire::fields::unsupported;
use crate::wire::sampling::Shape;

/// # Errors
/// Names a word of several tokens; and `bad_words` where none of `allowed_token_ids` is left.
pub fn banned(model: &dyn Model, shape: &Shape) -> Result<Vec<Token>, ApiError> {
    let mut banned = Vec::new();
    for (n, word) in shape.bad_words.iter().enumerate() {
        let Some(tokens) = tokens_of(model, word.trim_start()) else {
            let path = format!("bad_words[{n}]");
            let message = format!("`{path}` has several tokens: words of one can be left out");
            return Err(unsupported(path, message));
        };
        banned.extend(tokens);
    }
    let is_left = |token: &Token| !banned.contains(token);
    if shape.sampling.allowed.as_ref().is_some_and(|allowed| !allowed.iter().any(is_left)) {
        let message = "`bad_words` leave none of the `allowed_token_ids`";
        return Err(ApiError::field("bad_words", message));
    }
    Ok(banned)
}

/// The word's token, and the one of the word behind a space, unless the first is part of that. `None`: there are more.
fn tokens_of(model: &dyn Model, word: &str) -> Option<Vec<Token>> {
    let alone = model.tokenize(word, false, true);
    let &[token] = alone.as_slice() else { return None };
    match model.tokenize(&format!(" {word}"), false, true).as_slice() {
        &[behind] => Some(vec![token, behind]),
        tokens if tokens.contains(&token) => Some(vec![token]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use hob_runtime::backend::fake::FakeModel;
    use serde_json::json;

    use super::*;
    use crate::wire::fields::Fields;

    #[test]
    fn words_of_one_token_are_banned_and_others_refused() {
        let model = FakeModel::new();
        let banned = |body| {
            let vocabulary = model.vocabulary().len();
            let shape = Shape::parse(&Fields::of_body(&body).unwrap(), vocabulary).unwrap();
            banned(&model, &shape)
        };
        // A token a byte.
        let x = model.tokenize("x", false, true)[0];
        assert_eq!(banned(json!({})), Ok(Vec::new()));
        assert_eq!(banned(json!({"bad_words": ["x", " x"]})), Ok(vec![x, x]));
        let several = banned(json!({"bad_words": ["x", "xy"]})).unwrap_err();
        assert_eq!(several.param.as_deref(), Some("bad_words[1]"));
        let none = json!({"bad_words": ["x"], "allowed_token_ids": [x.0]});
        assert_eq!(banned(none).unwrap_err().param.as_deref(), Some("bad_words"));
        let some = json!({"bad_words": ["x"], "allowed_token_ids": [x.0, x.0 + 1]});
        assert_eq!(banned(some), Ok(vec![x]));
    }
}
