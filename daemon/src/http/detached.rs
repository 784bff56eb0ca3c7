//! `/v1/conversations/{id}/answer`: an answer that goes on without the client that asked for it.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::chat_stream::stream_of;
use super::conversations::name;
use super::sse::{self, Source};
use crate::chat::Chat;
use crate::chat::detached::{Reader, Writer};
use crate::chat::identity::{Identity, Session};
use crate::error::ApiError;

impl Source for Reader {
    type Object = Arc<str>;

    async fn next(&mut self) -> Option<Arc<str>> {
        Self::next(self).await
    }
}

/// Streams an answer that goes on when this client leaves.
pub(super) async fn complete(
    chat: Chat,
    body: Value,
    session: Session,
) -> Result<Response, ApiError> {
    let identity = Identity::of(&body, &session)?;
    let id = identity.named().cloned().ok_or_else(|| {
        ApiError::field("hob.detached", "`hob.detached` needs a `conversation` to answer in")
    })?;
    let writer = chat.detached().begin(id);
    let reader = writer.reader();
    let (begun, begins) = oneshot::channel();
    tokio::spawn(async move {
        tokio::select! {
            biased;
            () = writer.stopped() => {}
            () = write(&chat, &body, &session, &writer, begun) => {}
        }
    });
    match begins.await {
        Ok(Err(error)) => Err(error),
        // A client stopped it before it began: there is nothing to read.
        Ok(Ok(())) | Err(_) => Ok(sse::stream(reader)),
    }
}

/// `begun`: whether the answer has begun.
async fn write(
    chat: &Chat,
    body: &Value,
    session: &Session,
    writer: &Writer,
    begun: oneshot::Sender<Result<(), ApiError>>,
) {
    let mut chunks = match chat.answer(body, session).await {
        Ok((request, answer)) => stream_of(&request, answer),
        Err(error) => {
            let _ = begun.send(Err(error)); // An error: the client has left.
            return;
        }
    };
    let _ = begun.send(Ok(()));
    while let Some(chunk) = chunks.next().await {
        let json = chunk.to_string();
        if chunk.get("prompt_progress").is_some() {
            writer.push_report(json);
        } else {
            writer.push(json);
        }
    }
}

/// `GET /v1/conversations/{id}/answer`: the chunks of the running answer, from the first one.
pub async fn read(State(chat): State<Chat>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let reader = chat.detached().read(&name(&id)?).ok_or_else(|| {
        let message = "no detached answer of this conversation is running";
        ApiError::not_found(message).code("no_answer")
    })?;
    Ok(sse::stream(reader))
}

/// `DELETE /v1/conversations/{id}/answer`: ends it; the text so far stays.
pub async fn stop(
    State(chat): State<Chat>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let stopped = chat.detached().stop(&name(&id)?);
    Ok(Json(json!({"conversation": id, "object": "conversation.answer", "stopped": stopped})))
}
