//! `/v1/models`: the one model that this daemon runs.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::service::Service;

/// `GET /v1/models`
pub async fn list(State(service): State<Service>) -> Json<Value> {
    Json(json!({"object": "list", "data": [describe(&service)]}))
}

/// `GET /v1/models/{id}`
pub async fn one(
    State(service): State<Service>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    if id == service.model_name() {
        return Ok(Json(describe(&service)));
    }
    Err(ApiError::not_found("this daemon runs another model; GET /v1/models names it")
        .param("model")
        .code("model_not_found"))
}

fn describe(service: &Service) -> Value {
    let facts = service.engine().model().facts();
    json!({
        "id": service.model_name(),
        "object": "model",
        "created": service.started().0 / 1000,
        "owned_by": "hob",
        "meta": {
            "architecture": facts.architecture,
            "context": service.engine().context_tokens(),
            "trained_context": facts.trained_context,
            "parameters": facts.parameters,
            "size_bytes": facts.size_bytes,
            "memory": facts.memory.to_string(),
            "pooling": facts.pooling,
            "vocabulary": service.engine().model().vocabulary().len(),
            "fingerprint": service.engine().fingerprint().to_string(),
        },
    })
}
