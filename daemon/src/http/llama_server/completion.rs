//! `/completion`, and `/completions` of either kind.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::super::body::JsonBody;
use super::super::{completion, sse};
use super::answer::Reply;
use super::prompt::normalised;
use super::request::{AnswerFields, renamed, translated};
use crate::chat::Chat;
use crate::chat::identity::Session;
use crate::error::ApiError;
use crate::wire::fields::Fields;

/// `POST /completion`
pub async fn complete(State(chat): State<Chat>, body: JsonBody) -> Result<Response, ApiError> {
    let fields = Fields::of_body(&body.value)?;
    let prompt = normalised(&chat, fields.required("prompt")?, "prompt").await?;
    let (request, answer_fields) = translated(&chat, &fields, prompt).await?;
    respond(&chat, &request, &body.session, answer_fields).await
}

/// `POST /completions`: OpenAI's where the body names a `model`, as its clients must and those of llama-server do
/// not.
pub async fn either(chat: State<Chat>, body: JsonBody) -> Result<Response, ApiError> {
    if body.value.get("model").is_some_and(Value::is_string) {
        completion::complete(chat, body).await
    } else {
        complete(chat, body).await
    }
}

pub(super) async fn respond(
    chat: &Chat,
    request: &Value,
    session: &Session,
    answer_fields: AnswerFields,
) -> Result<Response, ApiError> {
    let (request, answer) = chat.complete(request, session).await.map_err(renamed)?;
    let streams = request.shape.stream;
    let reply = Reply::new(request, answer_fields, answer);
    if streams { Ok(sse::stream(reply)) } else { Ok(Json(reply.whole().await?).into_response()) }
}
