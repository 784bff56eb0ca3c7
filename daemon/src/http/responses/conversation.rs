//! `POST /v1/conversations`: a name for a conversation, as OpenAI's clients ask for one.
//!
//! - Nothing is stored: the conversation begins with its first response.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::chat::names;
use crate::conversations::Conversations;
use crate::error::ApiError;
use crate::http::body::OptionalBody;
use crate::wire::fields::{Fields, unsupported};

/// `POST /v1/conversations`
pub async fn create(
    State(conversations): State<Conversations>,
    OptionalBody(body): OptionalBody,
) -> Result<Json<Value>, ApiError> {
    if !body.is_null() {
        let fields = Fields::of_body(&body)?;
        if fields.list("items")?.is_some_and(|items| !items.is_empty()) {
            let message = "`items` are not supported: send them with the first response";
            return Err(unsupported("items", message));
        }
    }
    Ok(Json(json!({
        "id": names::conversation(),
        "object": "conversation",
        "created_at": (conversations.clock)().0 / 1000,
        "metadata": {},
    })))
}
