//! `/v1/completions`

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::body::JsonBody;
use super::chunks::{ChunkForm, Chunks};
use super::sse;
use crate::chat::Chat;
use crate::chat::answer::Piece;
use crate::error::ApiError;
use crate::wire::answer::{TextOffset, completion_logprobs};

const OBJECT: &str = "text_completion";

/// `POST /v1/completions`
pub async fn complete(State(chat): State<Chat>, body: JsonBody) -> Result<Response, ApiError> {
    let (request, mut answer) = chat.complete(&body.value, &body.session).await?;
    let with_logprobs = request.logprobs.is_some();
    if request.shape.stream {
        let count = request.prompts.len() * request.shape.choices;
        let form = CompletionForm { with_logprobs, offsets: vec![TextOffset::default(); count] };
        return Ok(sse::stream(Chunks::new(form, answer, &request.shape, count)));
    }
    let choices = answer.collect().await?;
    let choices = choices.iter().enumerate().map(|(index, choice)| {
        let offset = &mut TextOffset::default();
        let logprobs = with_logprobs.then(|| completion_logprobs(&choice.logprobs, offset));
        entry(index, choice.message.text(), logprobs, Some(choice.reason.as_str()))
    });
    let (usage, hob) = (answer.usage(), answer.hob());
    let mut body = answer.head().whole(OBJECT, choices.collect(), usage, hob);
    body["timings"] = answer.figures(0).timings();
    Ok(Json(body).into_response())
}

fn entry(index: usize, text: &str, logprobs: Option<Value>, reason: Option<&str>) -> Value {
    json!({"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason})
}

struct CompletionForm {
    with_logprobs: bool,
    /// Of the next token of each choice.
    offsets: Vec<TextOffset>,
}

impl ChunkForm for CompletionForm {
    const OBJECT: &'static str = OBJECT;

    fn choice(&mut self, piece: Piece) -> Option<Value> {
        match piece {
            Piece::Progress(_) | Piece::Begin { .. } => None,
            Piece::More { choice, delta, logprobs, .. } => {
                let wanted = self.with_logprobs && !logprobs.is_empty();
                let offset = &mut self.offsets[choice];
                let logprobs = wanted.then(|| completion_logprobs(&logprobs, offset));
                Some(entry(choice, &delta.content, logprobs, None))
            }
            Piece::End { choice, reason } => Some(entry(choice, "", None, Some(reason.as_str()))),
        }
    }
}
