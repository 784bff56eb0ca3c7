//! `/v1/embeddings`, for models that make them.

use axum::Json;
use axum::extract::State;
use serde_json::Value;

use super::body::JsonBody;
use crate::error::ApiError;
use crate::service::Service;
use crate::wire::embedding::{EmbeddingRequest, response};

/// `POST /v1/embeddings`
pub async fn embed(
    State(service): State<Service>,
    body: JsonBody,
) -> Result<Json<Value>, ApiError> {
    let vocabulary = service.engine().model().vocabulary().len();
    let request = EmbeddingRequest::parse(&body.value, vocabulary)?;
    let (vectors, tokens) = service.embed(&request.inputs).await?;
    Ok(Json(response(service.model_name(), request.encoding, &vectors, tokens)))
}
