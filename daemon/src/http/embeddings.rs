//! `/v1/embeddings`, for models that make them.

use axum::Json;
use axum::extract::State;
use serde_json::Value;

use super::body::JsonBody;
use crate::chat::Chat;
use crate::error::ApiError;
use crate::wire::embedding::{EmbeddingRequest, response, shortened};

/// `POST /v1/embeddings`
pub async fn embed(State(chat): State<Chat>, body: JsonBody) -> Result<Json<Value>, ApiError> {
    let vocabulary = chat.engine().model().vocabulary().len();
    let request = EmbeddingRequest::parse(&body.value, vocabulary)?;
    let (mut vectors, tokens) = chat.embed(&request.inputs).await?;
    if let Some(dimensions) = request.dimensions {
        vectors = shortened(vectors, dimensions)?;
    }
    Ok(Json(response(chat.model_name(), request.encoding, &vectors, tokens)))
}
