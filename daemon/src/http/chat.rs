//! `/v1/chat/completions`

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::body::JsonBody;
use super::call_form::CallForm;
use super::chat_stream::stream_of;
use super::detached;
use super::sse;
use crate::chat::Chat;
use crate::chat::answer::{Answer, Choice};
use crate::error::ApiError;
use crate::wire::answer::chat_logprobs;
use crate::wire::chat::ChatRequest;
use crate::wire::hob::is_detached;

/// `POST /v1/chat/completions`
pub async fn complete(State(chat): State<Chat>, body: JsonBody) -> Result<Response, ApiError> {
    if is_detached(&body.value)? {
        return detached::complete(chat, body.value, body.session).await;
    }
    let (request, answer) = chat.answer(&body.value, &body.session).await?;
    respond(&request, answer).await
}

/// The answer, complete or as a stream.
pub(super) async fn respond(
    request: &ChatRequest,
    mut answer: Answer,
) -> Result<Response, ApiError> {
    let with_logprobs = request.logprobs.is_some();
    if request.shape.stream {
        return Ok(sse::stream(stream_of(request, answer)));
    }
    let collected = answer.collect().await?;
    let form = CallForm::of(request);
    let whole = |(index, choice)| whole(index, choice, with_logprobs, &form);
    let choices = collected.iter().enumerate().map(whole).collect();
    let (usage, hob) = (answer.usage(), answer.hob());
    let mut body = answer.head().whole("chat.completion", choices, usage, hob);
    body["timings"] = answer.figures(0).timings();
    if let Some(prompt) = answer.prompt(0) {
        body["__verbose"] = json!({"prompt": prompt}); // As llama-server's.
    }
    Ok(Json(body).into_response())
}

fn whole(index: usize, choice: &Choice, with_logprobs: bool, form: &CallForm) -> Value {
    json!({
        "index": index,
        "message": form.message(choice.message.to_json()),
        "logprobs": with_logprobs.then(|| chat_logprobs(&choice.logprobs)),
        "finish_reason": form.reason(choice.reason),
    })
}
