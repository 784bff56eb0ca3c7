//! `/v1/chat/completions`

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hob_runtime::turn::Logprobs;
use serde_json::{Map, Value, json};

use super::body::JsonBody;
use super::chunks::{Chunks, Face};
use super::sse;
use crate::chat::Chat;
use crate::chat::answer::{Answer, Choice, Piece};
use crate::chat::assembly::Delta;
use crate::error::ApiError;
use crate::wire::answer::chat_logprobs;
use crate::wire::chat::ChatRequest;

/// `POST /v1/chat/completions`
pub async fn complete(State(chat): State<Chat>, body: JsonBody) -> Result<Response, ApiError> {
    let (request, answer) = chat.answer(&body.value, body.session.as_deref()).await?;
    respond(&request, answer).await
}

/// The answer, complete or as a stream.
pub(super) async fn respond(
    request: &ChatRequest,
    mut answer: Answer,
) -> Result<Response, ApiError> {
    let with_logprobs = request.logprobs.is_some();
    if request.shape.stream {
        let (face, count) = (ChatFace { with_logprobs }, request.shape.choices);
        return Ok(sse::stream(Chunks::new(face, answer, &request.shape, count)));
    }
    let choices = answer.collect().await?;
    let choices = choices.iter().enumerate();
    let choices = choices.map(|(index, choice)| whole(index, choice, with_logprobs)).collect();
    let (usage, hob) = (answer.usage(), answer.hob());
    let body = answer.head().whole("chat.completion", choices, usage, hob);
    Ok(Json(body).into_response())
}

fn whole(index: usize, choice: &Choice, with_logprobs: bool) -> Value {
    json!({
        "index": index,
        "message": choice.message.to_json(),
        "logprobs": with_logprobs.then(|| chat_logprobs(&choice.logprobs)),
        "finish_reason": choice.reason,
    })
}

struct ChatFace {
    with_logprobs: bool,
}

impl ChatFace {
    fn entry(
        &self,
        choice: usize,
        delta: Value,
        logprobs: &[Logprobs],
        reason: Option<&str>,
    ) -> Value {
        let wanted = self.with_logprobs && !logprobs.is_empty();
        json!({
            "index": choice,
            "delta": delta,
            "logprobs": wanted.then(|| chat_logprobs(logprobs)),
            "finish_reason": reason,
        })
    }
}

impl Face for ChatFace {
    const OBJECT: &'static str = "chat.completion.chunk";

    fn choice(&mut self, piece: Piece) -> Option<Value> {
        Some(match piece {
            Piece::Progress(_) => return None,
            Piece::Begin { choice } => {
                self.entry(choice, json!({"role": "assistant", "content": ""}), &[], None)
            }
            Piece::More { choice, delta, logprobs } => {
                self.entry(choice, fields(delta), &logprobs, None)
            }
            Piece::End { choice, reason } => self.entry(choice, json!({}), &[], Some(reason)),
        })
    }
}

fn fields(delta: Delta) -> Value {
    let mut fields = Map::new();
    if !delta.reasoning.is_empty() {
        fields.insert("reasoning_content".into(), delta.reasoning.into());
    }
    if !delta.content.is_empty() {
        fields.insert("content".into(), delta.content.into());
    }
    if !delta.tool_calls.is_empty() {
        fields.insert("tool_calls".into(), delta.tool_calls.into());
    }
    Value::Object(fields)
}
