//! `/apply-template`, `/tokenize`, `/detokenize`, and the number of a chat's tokens.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hob_runtime::Vocabulary;
use hob_slots::Token;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::super::body::JsonBody;
use crate::chat::Chat;
use crate::error::ApiError;
use crate::wire::fields::{Fields, wrong_type};
use crate::wire::tokens::tokens;

/// `POST /apply-template`, with the body of a chat.
pub async fn apply_template(
    State(chat): State<Chat>,
    body: JsonBody,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(json!({"prompt": chat.prompt_text(&body.value, &body.session).await?})))
}

/// `POST /v1/chat/completions/input_tokens`, with the body of a chat.
pub async fn count(State(chat): State<Chat>, body: JsonBody) -> Result<Json<Value>, ApiError> {
    let tokens = chat.count_tokens(&body.value, &body.session).await?;
    Ok(Json(json!({"object": "response.input_tokens", "input_tokens": tokens})))
}

/// `POST /tokenize {"content", "add_special", "parse_special", "with_pieces"}`
pub async fn tokenize(State(chat): State<Chat>, body: JsonBody) -> Result<Response, ApiError> {
    let fields = Fields::of_body(&body.value)?;
    let content = fields.required_string("content")?.to_owned();
    let add_special = fields.boolean("add_special")?.unwrap_or(false);
    let parse_special = fields.boolean("parse_special")?.unwrap_or(true);
    let with_pieces = fields.boolean("with_pieces")?.unwrap_or(false);
    let tokens = chat.tokenize(content, add_special, parse_special, "content").await?;
    let vocabulary = chat.engine().model().vocabulary();
    let tokens = Entries { tokens: &tokens, pieces: with_pieces.then_some(vocabulary) };
    Ok(Json(Tokenized { tokens }).into_response())
}

#[derive(Serialize)]
struct Tokenized<'t> {
    tokens: Entries<'t>,
}

/// Serialised one by one: of a text of megabytes, each as a `Value` would take gigabytes together.
struct Entries<'t> {
    tokens: &'t [Token],
    /// Where each token is an object with its piece.
    pieces: Option<&'t Vocabulary>,
}

#[derive(Serialize)]
struct Entry {
    id: i32,
    piece: Value,
}

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tokens = self.tokens.iter();
        let Some(vocabulary) = self.pieces else {
            return serializer.collect_seq(tokens.map(|token| token.0));
        };
        let entry = |token: &Token| Entry { id: token.0, piece: piece(vocabulary.piece(*token)) };
        serializer.collect_seq(tokens.map(entry))
    }
}

/// A token's text, or its bytes where they are a part of a character.
fn piece(bytes: &[u8]) -> Value {
    match str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => bytes.into(),
    }
}

/// `POST /detokenize {"tokens"}`; bytes that are no text become U+FFFD.
pub async fn detokenize(State(chat): State<Chat>, body: JsonBody) -> Result<Json<Value>, ApiError> {
    let fields = Fields::of_body(&body.value)?;
    let list = fields.required("tokens")?;
    let list = list.as_array().ok_or_else(|| wrong_type("tokens", "an array of tokens", list))?;
    let tokens = tokens(list, "tokens", chat.engine().model().vocabulary().len())?;
    Ok(Json(json!({"content": chat.detokenize(tokens).await})))
}
