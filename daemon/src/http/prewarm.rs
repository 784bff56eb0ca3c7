//! `/v1/prewarm`: prefills the prompt of a chat, or reads documents.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::body::JsonBody;
use super::prewarm_documents;
use crate::chat::Chat;
use crate::chat::identity::Identity;
use crate::conversations::Conversations;
use crate::documents::Documents;
use crate::error::{ApiError, SUPERSEDED};
use crate::wire::fields::Fields;

const OBJECT: &str = "prewarm";

/// `POST /v1/prewarm`: answers when the prompt is hot, or at once with `"wait": false`. With
/// `"compute": false` it restores what is saved, and takes no slot where nothing is. With `documents` it
/// reads these.
pub async fn prewarm(
    State(chat): State<Chat>,
    State(conversations): State<Conversations>,
    State(documents): State<Documents>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let fields = Fields::of_body(&body.value)?;
    let wait = fields.boolean("wait")?.unwrap_or(true);
    if let Some(list) = fields.list("documents")? {
        return prewarm_documents::prewarm(documents, &fields, list, wait).await;
    }
    if !fields.boolean("compute")?.unwrap_or(true) {
        let identity = Identity::of(&body.value, &body.session)?;
        let has_messages = fields.list("messages")?.is_some_and(|list| !list.is_empty());
        // A hint has no text: without messages there is no prompt to restore.
        let owner = if has_messages { identity.pinned() } else { identity.named() };
        let is_restorable = match owner {
            Some(id) => conversations.is_restorable(id).await?,
            None => false,
        };
        if !is_restorable {
            return Ok(Json(json!({"object": OBJECT, "hot": false})).into_response());
        }
    }
    if wait {
        let mut answer = chat.prewarm(&body.value, &body.session).await?;
        answer.collect().await?;
        let (usage, hob) = (answer.usage().to_json(), answer.hob());
        let body = json!({"object": OBJECT, "hot": true, "usage": usage, "hob": hob});
        return Ok(Json(body).into_response());
    }
    let begun = chat.prewarm_unattended(&body.value, &body.session).await;
    if let Err(error) = begun
        && error.code != Some(SUPERSEDED)
    {
        return Err(error);
    }
    Ok((StatusCode::ACCEPTED, Json(json!({"object": OBJECT, "hot": false}))).into_response())
}
