//! Token ids of a request, and vLLM's fields about tokens: which an answer may have (`allowed_token_ids`, `bad_words`),
//! and where it may end (`stop_token_ids`, `min_tokens`).

use std::collections::BTreeSet;

use hob_slots::Token;
use serde_json::Value;

use super::fields::{Fields, whole, wrong_type};
use crate::error::ApiError;

/// Each is tokenized.
const MAX_BAD_WORDS: usize = 512;
const MAX_BAD_WORD_BYTES: usize = 1024;

/// A list of token ids.
pub fn tokens(list: &[Value], path: &str, vocabulary: usize) -> Result<Vec<Token>, ApiError> {
    let each = list.iter().enumerate();
    each.map(|(n, value)| {
        let known = |&id: &i64| usize::try_from(id).is_ok_and(|id| id < vocabulary);
        match whole(value).filter(known).and_then(|id| i32::try_from(id).ok()) {
            Some(id) => Ok(Token(id)),
            None => {
                let path = format!("{path}[{n}]");
                let message = format!("`{path}` is not a token of this vocabulary of {vocabulary}");
                Err(ApiError::field(path, message))
            }
        }
    })
    .collect()
}

/// The only tokens that an answer may have; `None`: all. `vocabulary`: the number of tokens.
pub fn allowed_token_ids(
    fields: &Fields<'_>,
    vocabulary: usize,
) -> Result<Option<BTreeSet<Token>>, ApiError> {
    const NAME: &str = "allowed_token_ids";
    let Some(list) = fields.list(NAME)? else { return Ok(None) };
    if list.is_empty() {
        return Err(ApiError::field(NAME, format!("`{NAME}` must not be empty")));
    }
    Ok(Some(tokens(list, NAME, vocabulary)?.into_iter().collect()))
}

/// Tokens that end the answer. `vocabulary`: the number of tokens.
pub fn stop_token_ids(fields: &Fields<'_>, vocabulary: usize) -> Result<BTreeSet<Token>, ApiError> {
    const NAME: &str = "stop_token_ids";
    let list = fields.list(NAME)?.map_or(&[][..], Vec::as_slice);
    Ok(tokens(list, NAME, vocabulary)?.into_iter().collect())
}

/// How many tokens the answer has before a token or a text may end it. `max_tokens`: how many it may have.
pub fn min_tokens(fields: &Fields<'_>, max_tokens: Option<usize>) -> Result<usize, ApiError> {
    const NAME: &str = "min_tokens";
    let least = fields.integer(NAME, 0..=i64::from(i32::MAX))?.unwrap_or(0) as usize;
    match max_tokens {
        // With 0 there is no answer.
        Some(most @ 1..) if most < least => {
            let message = format!("`{NAME}` must be at most `max_tokens`, {most}, not {least}");
            Err(ApiError::field(NAME, message))
        }
        _ => Ok(least),
    }
}

/// Texts whose tokens an answer may not have. None is empty.
pub fn bad_words(fields: &Fields<'_>) -> Result<Vec<String>, ApiError> {
    const NAME: &str = "bad_words";
    let list = fields.list(NAME)?.map_or(&[][..], Vec::as_slice);
    if list.len() > MAX_BAD_WORDS {
        let message = format!("`{NAME}` may have {MAX_BAD_WORDS} texts, not {}", list.len());
        return Err(ApiError::field(NAME, message));
    }
    let word = |(n, word): (usize, &Value)| {
        let path = format!("{NAME}[{n}]");
        let text = word.as_str().ok_or_else(|| wrong_type(&path, "a string", word))?;
        if text.trim().is_empty() || text.len() > MAX_BAD_WORD_BYTES {
            let message = format!("`{path}` must be a word of up to {MAX_BAD_WORD_BYTES} bytes");
            return Err(ApiError::field(path, message));
        }
        Ok(text.to_owned())
    };
    list.iter().enumerate().map(word).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_wrong_value_is_named() {
        for (body, param) in [
            (json!({"allowed_token_ids": 1}), "allowed_token_ids"),
            (json!({"allowed_token_ids": []}), "allowed_token_ids"),
            (json!({"allowed_token_ids": [1, 100]}), "allowed_token_ids[1]"),
            (json!({"allowed_token_ids": [-1]}), "allowed_token_ids[0]"),
            (json!({"allowed_token_ids": ["a"]}), "allowed_token_ids[0]"),
        ] {
            let read = allowed_token_ids(&Fields::of_body(&body).unwrap(), 100);
            assert_eq!(read.unwrap_err().param.as_deref(), Some(param), "{body}");
        }
        for (body, param) in [
            (json!({"bad_words": "a"}), "bad_words"),
            (json!({"bad_words": ["a", 1]}), "bad_words[1]"),
            (json!({"bad_words": [" "]}), "bad_words[0]"),
            (json!({"bad_words": ["a".repeat(1025)]}), "bad_words[0]"),
            (json!({"bad_words": vec!["a"; 513]}), "bad_words"),
        ] {
            let read = bad_words(&Fields::of_body(&body).unwrap());
            assert_eq!(read.unwrap_err().param.as_deref(), Some(param), "{body}");
        }
        for (body, param) in [
            (json!({"stop_token_ids": 1}), "stop_token_ids"),
            (json!({"stop_token_ids": [1, 100]}), "stop_token_ids[1]"),
            (json!({"stop_token_ids": ["a"]}), "stop_token_ids[0]"),
        ] {
            let read = stop_token_ids(&Fields::of_body(&body).unwrap(), 100);
            assert_eq!(read.unwrap_err().param.as_deref(), Some(param), "{body}");
        }
        for body in
            [json!({"min_tokens": -1}), json!({"min_tokens": "1"}), json!({"min_tokens": 10})]
        {
            let read = min_tokens(&Fields::of_body(&body).unwrap(), Some(9));
            assert_eq!(read.unwrap_err().param.as_deref(), Some("min_tokens"), "{body}");
        }
        let nothing = json!({"allowed_token_ids": null, "bad_words": [], "stop_token_ids": []});
        let nothing = Fields::of_body(&nothing).unwrap();
        assert_eq!(allowed_token_ids(&nothing, 100), Ok(None));
        assert_eq!(bad_words(&nothing), Ok(Vec::new()));
        assert_eq!(stop_token_ids(&nothing, 100), Ok(BTreeSet::new()));
        assert_eq!(min_tokens(&nothing, Some(9)), Ok(0));
        let least = json!({"min_tokens": 9});
        let least = Fields::of_body(&least).unwrap();
        for max_tokens in [Some(9), Some(0), None] {
            assert_eq!(min_tokens(&least, max_tokens), Ok(9), "{max_tokens:?}");
        }
    }
}
