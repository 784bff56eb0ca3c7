//! `/embedding`, and `/embeddings` of either kind.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::super::body::JsonBody;
use super::super::embeddings;
use super::prompt::normalised;
use crate::chat::Chat;
use crate::error::ApiError;
use crate::http::translation::{behind, renamed};
use crate::wire::embedding::EmbeddingRequest;
use crate::wire::fields::Fields;

/// `POST /embedding {"content"}`: one entry an input, each with a list of one vector.
pub async fn embed(State(chat): State<Chat>, body: JsonBody) -> Result<Json<Value>, ApiError> {
    let fields = Fields::of_body(&body.value)?;
    let name = if fields.get("content").is_some() { "content" } else { "input" };
    let input = normalised(&chat, fields.required(name)?, name).await?;
    let vocabulary = chat.token_bound();
    let request = EmbeddingRequest::parse(&json!({ "input": input }), vocabulary);
    let request = request.map_err(|error| {
        renamed(error, |param| Some(format!("{name}{}", behind(param, "input")?)))
    })?;
    let embeddings = chat.embed(body.value["model"].as_str(), &request.inputs).await?;
    let entry = |(index, vector)| json!({"index": index, "embedding": [vector]});
    Ok(Json(embeddings.vectors.into_iter().enumerate().map(entry).collect()))
}

/// `POST /embeddings`: OpenAI's with `input`, llama-server's with `content`.
pub async fn either(chat: State<Chat>, body: JsonBody) -> Result<Json<Value>, ApiError> {
    match body.value.get("content") {
        Some(_) => embed(chat, body).await,
        None => embeddings::embed(chat, body).await,
    }
}
