//! Token ids of a request, and which tokens an answer may have: `allowed_token_ids` and `bad_words`, vLLM's fields.

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
        let nothing = json!({"allowed_token_ids": null, "bad_words": []});
        let nothing = Fields::of_body(&nothing).unwrap();
        assert_eq!(allowed_token_ids(&nothing, 100), Ok(None));
        assert_eq!(bad_words(&nothing), Ok(Vec::new()));
    }
}
