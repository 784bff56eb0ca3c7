//! `POST /v1/responses`, and the tokens of its prompt.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::{Value, json};

use super::object::{Frame, Outcome, Status};
use super::request::Request;
use super::stream::Events;
use super::{origin, references, without_token};
use crate::chat::Chat;
use crate::chat::answer::Piece;
use crate::chat::identity::Session;
use crate::conversations::Conversations;
use crate::error::ApiError;
use crate::http::body::JsonBody;
use crate::http::guard::WithoutToken;
use crate::http::sse;
use crate::wire::answer::{EndReason, chat_logprobs, of_text};

/// `POST /v1/responses`
pub async fn create(
    State(chat): State<Chat>,
    State(conversations): State<Conversations>,
    lacks_token: Option<Extension<WithoutToken>>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let JsonBody { value: body, session } = body;
    if lacks_token.is_some() {
        without_token::check(&body)?;
    }
    let (mut request, chat_body, session) = translated(&body, session, &conversations).await?;
    let begun = chat.answer(&chat_body, &session).await;
    let (asked, mut answer) = begun.map_err(|error| request.paths.own(error))?;
    let sampling = &asked.shape.sampling;
    request.echo.insert("temperature".into(), as_written(sampling.temperature));
    request.echo.insert("top_p".into(), as_written(sampling.top_p));
    answer.keep(Value::Object(request.echo.clone()));
    if asked.shape.stream {
        return Ok(sse::stream(Events::new(request, answer)));
    }
    let (mut in_text, mut reason) = (Vec::new(), EndReason::default());
    while let Some(piece) = answer.next().await {
        match piece.map_err(|error| request.paths.own(error))? {
            // Log-probabilities of reasoning, of calls and of their marks belong to no item.
            Piece::More { delta, logprobs, .. } if !delta.content.is_empty() => {
                in_text.extend(of_text(&delta.content, &logprobs).iter().cloned());
            }
            Piece::End { reason: ended, .. } => reason = ended,
            _ => {}
        }
    }
    let frame = Frame::of(&answer, request.echo.clone());
    let status = Status::of_reason(reason);
    let logprobs = chat_logprobs(&in_text)["content"].take();
    let message = answer.message(0).to_json();
    let outcome = Outcome::of(&answer, frame.output(&message, status, &logprobs));
    Ok(Json(frame.response(status, outcome)).into_response())
}

/// `POST /v1/responses/input_tokens`
pub async fn input_tokens(
    State(chat): State<Chat>,
    State(conversations): State<Conversations>,
    body: JsonBody,
) -> Result<Json<Value>, ApiError> {
    let JsonBody { value: body, session } = body;
    let (request, chat_body, session) = translated(&body, session, &conversations).await?;
    let tokens = chat.count_tokens(&chat_body, &session).await;
    let tokens = tokens.map_err(|error| request.paths.own(error))?;
    Ok(Json(json!({"object": "response.input_tokens", "input_tokens": tokens})))
}

/// The request, the body of its chat, and the session of that: what follows a response is in no other conversation.
async fn translated(
    body: &Value,
    session: Session,
    conversations: &Conversations,
) -> Result<(Request, Value, Session), ApiError> {
    let input = references::resolved(body, &session, conversations).await?;
    let mut request = Request::parse(body, &input)?;
    let chat = origin::chat_body(&mut request, body, &session, conversations).await?;
    let session = if request.previous.is_some() { Session::default() } else { session };
    Ok((request, chat, session))
}

/// The number with the digits of its text: 0.7 and not 0.699999988079071.
fn as_written(number: f32) -> Value {
    number.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}
