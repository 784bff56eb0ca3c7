//! `/v1/embeddings`, for models that make them.

use axum::Json;
use axum::extract::State;
use serde_json::Value;

use super::body::JsonBody;
use super::llama_server::normalised;
use crate::chat::Chat;
use crate::error::ApiError;
use crate::wire::embedding::{EmbeddingRequest, response, shortened};

/// `POST /v1/embeddings`
pub async fn embed(State(chat): State<Chat>, body: JsonBody) -> Result<Json<Value>, ApiError> {
    let vocabulary = chat.token_bound();
    let mut value = body.value;
    if let Some(input) = value.get("input").filter(|input| !input.is_null()) {
        value["input"] = normalised(&chat, input, "input").await?;
    }
    let request = EmbeddingRequest::parse(&value, vocabulary)?;
    let embedded = chat.embed(request.model.as_deref(), &request.inputs).await;
    let mut embeddings = embedded.map_err(too_large)?;
    if let Some(dimensions) = request.dimensions {
        embeddings.vectors = shortened(embeddings.vectors, dimensions)?;
    }
    Ok(Json(response(chat.model_name(), request.encoding, &embeddings)))
}

/// In the words of llama-server, for which clients look.
fn too_large(mut error: ApiError) -> ApiError {
    if error.overflow.is_some() {
        error.message = format!("an input is too large to process. {}", error.message);
    }
    error
}
