//! `/v1/turns`: the latest answers over all conversations. Times are seconds since 1970.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::query::Query;
use crate::error::ApiError;
use crate::service::Service;
use crate::transcript::RecentTurn;

const MOST: usize = 1000;

/// How many are wanted.
#[derive(Debug, Deserialize)]
pub struct Wanted {
    #[serde(default = "usual")]
    limit: usize,
}

fn usual() -> usize {
    200
}

/// `GET /v1/turns?limit=`: the latest first.
pub async fn list(
    State(service): State<Service>,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Value>, ApiError> {
    if !(1..=MOST).contains(&wanted.limit) {
        return Err(ApiError::field("limit", format!("`limit` must be from 1 to {MOST}")));
    }
    let turns = service.recent_turns(wanted.limit).await?;
    let data: Vec<Value> = turns.iter().map(describe).collect();
    Ok(Json(json!({"object": "list", "data": data})))
}

fn describe(turn: &RecentTurn) -> Value {
    let RecentTurn { conversation, title, message, parent, at, finish } = turn;
    let hob = &finish["hob"];
    json!({
        "object": "turn",
        "conversation": conversation,
        "title": title,
        "message": message,
        "parent": parent,
        "at": at / 1000,
        "model": finish["model"],
        "finish_reason": finish["finish_reason"],
        "tokens": hob["tokens"],
        "completion_tokens": finish["usage"]["completion_tokens"],
        "restore_ms": hob["restore_ms"],
        "ttft_ms": hob["ttft_ms"],
        "saved_ms": hob["saved_ms"],
        "cold": hob["cold"].as_bool().unwrap_or(false),
    })
}
