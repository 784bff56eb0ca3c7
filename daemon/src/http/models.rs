//! `/v1/models`: the one model that this daemon runs, and those that it could run instead.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::JsonBody;
use crate::catalogue::Entry;
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

/// `GET /v1/models/local`: what is on this machine.
pub async fn local(State(service): State<Service>) -> Json<Value> {
    let shelf = service.local_models().await;
    let options = service.catalogue().options();
    let current = shelf.entries.iter().find(|entry| entry.is_current);
    let entries: Vec<Value> = shelf.entries.iter().map(Entry::to_json).collect();
    Json(json!({
        "object": "list",
        "data": entries,
        "problems": shelf.problems,
        "current": current.map(|entry| &entry.id),
        "fixed": options.fixed,
        "directory": options.models_dir,
        "ctx": options.demand.ctx,
        "slots": options.demand.slots,
        "memory": shelf.memory,
        "free_bytes": shelf.free_bytes,
    }))
}

/// What is wanted instead.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    model: String,
    #[serde(default)]
    force: bool,
}

/// `POST /v1/models/switch`: 202, and the daemon starts over.
pub async fn switch(State(service): State<Service>, body: JsonBody) -> Result<Response, ApiError> {
    let Wish { model, force } = serde_json::from_value(body.value)
        .map_err(|error| ApiError::field("model", error.to_string()))?;
    let switch = service.switch_model(model, force).await?;
    let status = if switch.restarts { StatusCode::ACCEPTED } else { StatusCode::OK };
    let happens = match switch.restarts {
        true => "kept on disk, comes back with the model",
        false => "it runs already",
    };
    let told = json!({
        "object": "model.switch",
        "model": switch.model,
        "name": switch.name,
        "restarts": switch.restarts,
        "from": {
            "model": service.catalogue().current().choice.to_string(),
            "name": service.model_name(),
            "kept": switch.kept,
        },
        "kv": happens,
    });
    Ok((status, Json(told)).into_response())
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
