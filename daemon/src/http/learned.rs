//! `/v1/learned`: the learned prefixes, listed and forgotten.

use axum::Json;
use axum::extract::{Path, State};
use hob_api::LearnedPrefix;
use hob_prewarm::LearnedName;
use serde_json::{Value, json};

use crate::engine_status::engine_status;
use crate::error::ApiError;
use crate::learned::status::LearnedStatus;
use crate::learned::{Learned, not_learned};
use crate::models::Models;

/// `GET /v1/learned`
pub async fn list(
    State(learned): State<Learned>,
    State(models): State<Models>,
) -> Result<Json<Value>, ApiError> {
    let prefixes = learned.list(engine_status(&models.engine).await?).await;
    let data: Vec<_> = prefixes.into_iter().map(|prefix| line(prefix, &models)).collect();
    Ok(Json(json!({"object": "list", "data": data})))
}

/// `DELETE /v1/learned/{name}`
pub async fn forget(
    State(learned): State<Learned>,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let name: LearnedName =
        name.parse().map_err(|error: hob_prewarm::learned::LearnedNameError| {
            ApiError::field("name", error.to_string())
        })?;
    if !learned.forget(&name) {
        return Err(not_learned(&name));
    }
    Ok(Json(json!({"object": "learned.forgotten", "forgotten": [name]})))
}

/// `DELETE /v1/learned`
pub async fn forget_all(State(learned): State<Learned>) -> Json<Value> {
    let mut names = learned.names();
    names.retain(|name| learned.forget(name));
    Json(json!({"object": "learned.forgotten", "forgotten": names}))
}

fn line(prefix: LearnedStatus, models: &Models) -> LearnedPrefix {
    let warmed = prefix.warmed;
    LearnedPrefix {
        name: prefix.name.as_str().to_owned(),
        text: prefix.text,
        tokens: prefix.tokens,
        kv_bytes: models.kv_bytes(prefix.tokens),
        conversations: prefix.conversations,
        learned_at: prefix.learned_at.0 / 1000,
        used_at: prefix.used_at.0 / 1000,
        state: prefix.state.map(|state| state.as_str().into()),
        place: prefix.place.into(),
        how: warmed.map(|warmed| warmed.from.main().as_str().into()),
        computed_tokens: warmed.map(|warmed| warmed.from.computed),
        error: prefix.error,
    }
}
