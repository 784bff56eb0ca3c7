//! `/v1/prewarm`: makes hot what a chat would be answered from.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::body::JsonBody;
use crate::error::ApiError;
use crate::service::Service;
use crate::wire::fields::Fields;

const OBJECT: &str = "prewarm";

/// `POST /v1/prewarm`: when it is hot, or at once with `"wait": false`.
pub async fn prewarm(State(service): State<Service>, body: JsonBody) -> Result<Response, ApiError> {
    let wait = Fields::of_body(&body.value)?.boolean("wait")?.unwrap_or(true);
    let mut answering = service.prewarm(&body.value, body.session.as_deref()).await?;
    if wait {
        answering.collect().await?;
        let (usage, hob) = (answering.usage().to_json(), answering.hob());
        let told = json!({"object": OBJECT, "hot": true, "usage": usage, "hob": hob});
        return Ok(Json(told).into_response());
    }
    tokio::spawn(async move {
        if let Err(error) = answering.collect().await {
            tracing::debug!(%error, "nothing was made hot");
        }
    });
    Ok((StatusCode::ACCEPTED, Json(json!({"object": OBJECT, "hot": false}))).into_response())
}
