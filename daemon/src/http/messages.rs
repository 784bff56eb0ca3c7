//! `/v1/conversations/{id}/messages/{message}` and `/fork`: single messages of a conversation.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::body::JsonBody;
use super::conversations::{describe, name};
use crate::chat::identity::conversation_id;
use crate::conversations::Conversations;
use crate::conversations::transcript::{Fork, Moved, one_line};
use crate::error::ApiError;
use crate::wire::fields::{Fields, unsupported};

/// `PATCH /v1/conversations/{id}/messages/{message}`: `{"content"}`, another text, as a sibling; or `{"hob": {"pin"}}`,
/// whether it is pinned.
pub async fn edit(
    State(conversations): State<Conversations>,
    Path((id, message)): Path<(String, String)>,
    body: JsonBody,
) -> Result<Json<Value>, ApiError> {
    let fields = Fields::of_body(&body.value)?;
    if let Some(pinned) = pin(&fields)? {
        let (conversation, message) = (name(&id)?, number(&message)?);
        conversations.pin_message(&conversation, message, pinned).await?;
        let hob = json!({"pin": pinned});
        let object = "message.pinned";
        return Ok(Json(
            json!({"conversation": id, "object": object, "message": message, "hob": hob}),
        ));
    }
    let content = fields.required_string("content")?.to_owned();
    let edited = conversations.edit_message(&name(&id)?, number(&message)?, content).await?;
    Ok(Json(json!({"conversation": id, "object": "message.edited", "message": edited})))
}

/// `DELETE /v1/conversations/{id}/messages/{message}`: with all that follow it.
pub async fn delete(
    State(conversations): State<Conversations>,
    Path((id, message)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let moved = conversations.delete_message(&name(&id)?, number(&message)?).await?;
    Ok(Json(moved_json(&id, "message.deleted", "deleted", moved)))
}

/// `POST /v1/conversations/{id}/messages/{message}/restore`: undoes its deletion.
pub async fn restore(
    State(conversations): State<Conversations>,
    Path((id, message)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let moved = conversations.restore_message(&name(&id)?, number(&message)?).await?;
    Ok(Json(moved_json(&id, "message.restored", "restored", moved)))
}

/// `POST /v1/conversations/{id}/fork {"message", "id", "title"}`
pub async fn fork(
    State(conversations): State<Conversations>,
    Path(id): Path<String>,
    body: JsonBody,
) -> Result<Json<Value>, ApiError> {
    let fields = Fields::of_body(&body.value)?;
    fields.required("message")?;
    let message = fields.integer("message", 1..=i64::MAX)?.unwrap_or_default();
    let from = name(&id)?;
    let wanted = match fields.string("id")? {
        Some(wanted) => conversation_id(wanted, "id")?,
        None => from.clone(),
    };
    let title = fields.string("title")?.and_then(one_line);
    let copy = conversations.fork(Fork { from, message, wanted, title }).await?;
    let (text, location) =
        conversations.get(&copy).await?.ok_or_else(ApiError::no_such_conversation)?;
    Ok(Json(describe(&text.summary, &location)))
}

/// `hob.pin` of a change; `None`: it changes the text.
fn pin(fields: &Fields<'_>) -> Result<Option<bool>, ApiError> {
    let Some(hob) = fields.get("hob") else { return Ok(None) };
    let hob = Fields::of(hob, "hob")?;
    if let Some(other) = hob.object().keys().find(|name| *name != "pin") {
        let path = hob.path(&other.escape_debug().to_string());
        return Err(unsupported(path, "only `pin` of a stored message can be changed"));
    }
    if fields.get("content").is_some() {
        let message = "a change has `content` or `hob`: another text is another message";
        return Err(ApiError::field("hob", message));
    }
    hob.required("pin")?;
    hob.boolean("pin")
}

fn moved_json(id: &str, object: &str, what: &str, moved: Moved) -> Value {
    json!({"conversation": id, "object": object, what: moved.messages, "head": moved.head})
}

fn number(message: &str) -> Result<i64, ApiError> {
    message.parse().map_err(|_| {
        ApiError::not_found(format!("`{}` is no id of a message", message.escape_debug()))
            .code("message_not_found")
    })
}
