//! Anthropic's Messages API: `POST /v1/messages` and `POST /v1/messages/count_tokens`.
//!
//! - A request becomes the body of a chat that means the same; [`Chat`] checks and answers that.
//! - Errors name the fields of Anthropic's request.
//! - Errors of every layer in front of the routes, such as a missing token, have Anthropic's form.
//!
//! Reading order:
//! - The request: `files` (texts in place of files), `request` (the body), `blocks` (contents of messages) with
//!   `ran` (results of Anthropic's tools), `tools`, `thinking`, `cache` (`cache_control`), `thread` (a conversation
//!   on the server), `names` (fields in errors).
//! - The answer: `answer` (a whole message, its usage, why it ended), `events` (a stream), `errors`.

mod answer;
mod blocks;
mod cache;
pub mod errors;
mod events;
mod files;
mod names;
mod ran;
mod request;
mod thinking;
mod thread;
mod tools;

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::body::JsonBody;
use super::{Shared, sse};
use crate::chat::Chat;
use crate::conversations::Conversations;
use crate::error::ApiError;
use crate::metrics::Metrics;
use events::Events;
use request::{Purpose, Request};
use thread::Thread;

pub fn routes() -> Router<Shared> {
    Router::new()
        .route("/v1/messages", post(create))
        .route("/v1/messages/count_tokens", post(count_tokens))
}

/// `POST /v1/messages`
async fn create(
    State(chat): State<Chat>,
    State(conversations): State<Conversations>,
    State(metrics): State<Arc<Metrics>>,
    mut asked: JsonBody,
) -> Result<Response, ApiError> {
    let extracted = files::read(&mut asked.value, &conversations.pdf_texts, &metrics).await?;
    let request = Request::of(&asked.value, &asked.session, Purpose::Answer)?;
    let Request { mut body, names, form, thread } = request;
    if let Some(thread) = &thread {
        thread.place(&mut body, &asked.session, &conversations).await?;
    }
    let answered = chat.answer(&body, &asked.session).await;
    let (request, mut answer) = answered.map_err(|error| names.rename(error))?;
    extracted.keep(&body, &asked.session, &conversations);
    if thread.is_some() {
        answer.keep(thread::kept(&body));
    }
    if request.shape.stream {
        return Ok(sse::stream(Events::new(form, answer, names)));
    }
    let choices = answer.collect().await.map_err(|error| names.rename(error))?;
    let [choice] = choices.as_slice() else { unreachable!("a message has one choice") };
    Ok(Json(answer::whole(&answer, choice, form)).into_response())
}

/// `POST /v1/messages/count_tokens`
async fn count_tokens(
    State(chat): State<Chat>,
    State(conversations): State<Conversations>,
    State(metrics): State<Arc<Metrics>>,
    mut asked: JsonBody,
) -> Result<Json<Value>, ApiError> {
    let extracted = files::read(&mut asked.value, &conversations.pdf_texts, &metrics).await?;
    let request = Request::of(&asked.value, &asked.session, Purpose::Count)?;
    let Request { mut body, names, thread, .. } = request;
    if let Some(thread @ Thread::Continue(_)) = &thread {
        thread.place(&mut body, &asked.session, &conversations).await?;
    }
    let counted = chat.count_tokens(&body, &asked.session).await;
    let tokens = counted.map_err(|error| names.rename(error))?;
    extracted.keep(&body, &asked.session, &conversations);
    Ok(Json(json!({"input_tokens": tokens})))
}
