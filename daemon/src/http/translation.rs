//! What the protocols share whose requests become the body of a chat.

use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::wire::fields::{Fields, unsupported};
use crate::wire::form;

/// Fields of a chat, Hob's own and those of other servers, that mean the same in every protocol.
pub const OF_CHATS: [&str; 17] = [
    "allowed_token_ids",
    "bad_words",
    "chat_template_kwargs",
    "eliza",
    "evoke_pinned",
    "evoke_priority",
    "hob",
    "id_slot",
    "ignore_eos",
    "logit_bias",
    "lora",
    "min_tokens",
    "promptCacheKey",
    "prompt_cache_key",
    "prompt_cache_retention",
    "providerOptions",
    "stop_token_ids",
];

/// The body of a chat with the fields that mean the same: [`OF_CHATS`], those that demand a form of the answer, and
/// `own`.
pub fn copied(fields: &Fields<'_>, own: &[&str]) -> Map<String, Value> {
    let names = OF_CHATS.iter().chain(&form::NAMES).chain(&form::FOREIGN).chain(own);
    names.filter_map(|name| Some(((*name).to_owned(), fields.get(name)?.clone()))).collect()
}

/// Refuses a chat's `response_format` where the protocol has the field `own` for it.
pub fn refuse_response_format(fields: &Fields<'_>, own: &str) -> Result<(), ApiError> {
    match fields.get("response_format") {
        Some(format) if format["type"] != "text" => {
            let message = format!("`response_format` is a field of chats: use `{own}`");
            Err(unsupported("response_format", message))
        }
        _ => Ok(()),
    }
}

/// Sets variables of the chat template, unless the request itself sets them.
pub fn set_variables(chat: &mut Map<String, Value>, variables: Map<String, Value>) {
    if variables.is_empty() {
        return;
    }
    let given = chat.entry("chat_template_kwargs").or_insert_with(|| json!({}));
    if let Value::Object(given) = given {
        for (name, value) in variables {
            given.entry(name).or_insert(value);
        }
    }
}

/// The error about the field that the client sent. `own`: the client's path of the chat's, `None` where they are
/// equal.
pub fn renamed(error: ApiError, own: impl FnOnce(&str) -> Option<String>) -> ApiError {
    let Some(param) = &error.param else { return error };
    let Some(name) = own(param) else { return error };
    let message = error.message.replace(&format!("`{param}`"), &format!("`{name}`"));
    ApiError { message, param: Some(name), ..error }
}

/// What stands behind `field` in the path of it or of a part of it: nothing, `.name` or `[0]`.
pub fn behind<'p>(path: &'p str, field: &str) -> Option<&'p str> {
    path.strip_prefix(field).filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
