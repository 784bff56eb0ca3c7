//! `/v1/settings`: those that a client may change while the daemon runs.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::body::JsonBody;
use super::slots::lifetimes;
use crate::error::ApiError;
use crate::settings::SettingsEditor;
use crate::storage::sweep;

/// `GET /v1/settings`
pub async fn list(State(settings): State<SettingsEditor>) -> Json<Value> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let resolved = settings.live.get();
    Json(json!({
        "object": "list",
        "data": settings.list(),
        "file": resolved.config_file().to_string_lossy(),
        "cores": cores,
        "lifetimes": lifetimes(&sweep::lifetimes(&resolved.settings)),
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    /// By name, as in the configuration file.
    settings: Map<String, Value>,
    #[serde(default)]
    force: bool,
}

/// `PATCH /v1/settings`: 202, and the daemon restarts, if one of them needs it.
pub async fn change(
    State(settings): State<SettingsEditor>,
    body: JsonBody,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let Change { settings: wanted, force } = serde_json::from_value(body.value)
        .map_err(|error| ApiError::field("settings", error.to_string()))?;
    let restarts = settings.change(wanted, force).await?;
    let status = if restarts { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, Json(json!({"object": "settings.change", "restarts": restarts}))))
}
