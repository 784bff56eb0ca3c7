//! A request without the token reads and writes no stored text: its answer is not stored, and it names no stored
//! response, conversation or item. [`JsonBody`](crate::http::body::JsonBody) refuses the cache keys of conversations.

use serde_json::Value;

use super::references::is_reference;
use crate::error::ApiError;
use crate::http::body::needs_token;

/// # Errors
/// 401 with the field that needs the token.
pub fn check(body: &Value) -> Result<(), ApiError> {
    let is_given = |name: &&str| body.get(*name).is_some_and(|value| !value.is_null());
    if let Some(name) = ["previous_response_id", "conversation"].into_iter().find(is_given) {
        let message = format!("`{name}` names stored text, which needs the token: send");
        return Err(needs_token(name, &message));
    }
    let items = body.get("input").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if let Some(n) = items.iter().position(is_reference) {
        let path = format!("input[{n}]");
        let message = format!("`{path}` names a stored item, which needs the token: send");
        return Err(needs_token(path, &message));
    }
    if body.get("store") != Some(&Value::Bool(false)) {
        let message = "a response is stored unless `store` is false, and a stored one needs the token: \
                       send `\"store\": false` or";
        return Err(needs_token("store", message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_request_without_the_token_names_and_stores_nothing() {
        let message =
            json!({"type": "message", "role": "user", "content": "Hi", "id": "msg_1_room"});
        for (field, value, refused) in [
            ("input", json!("Hi"), None),
            ("input", json!([message, {"role": "user", "content": "Hi"}]), None),
            ("previous_response_id", Value::Null, None),
            ("previous_response_id", json!("resp_1_room"), Some("previous_response_id")),
            ("conversation", json!("room"), Some("conversation")),
            ("conversation", json!({"id": "room"}), Some("conversation")),
            ("input", json!([message, {"type": "item_reference", "id": "a"}]), Some("input[1]")),
            ("input", json!([{"id": "msg_1_room"}]), Some("input[0]")),
            ("store", json!(true), Some("store")),
            ("store", Value::Null, Some("store")),
            ("store", json!("false"), Some("store")),
        ] {
            let mut body = json!({"input": "Hi", "store": false});
            body[field] = value;
            let error = check(&body).err();
            let param = error.as_ref().and_then(|error| error.param.as_deref());
            assert_eq!(param, refused, "{body}");
            assert!(error.is_none_or(|error| error.kind == ErrorKind::Unauthorized), "{body}");
        }
        assert_eq!(check(&json!({"input": "Hi"})).unwrap_err().param.as_deref(), Some("store"));
        assert!(check(&json!([])).is_err());
    }
}
