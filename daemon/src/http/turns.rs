//! `/v1/turns`: the latest answers over all conversations. Times are seconds since 1970.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::{Value, json};

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
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Json<Value>, ApiError> {
    let limit = wanted.ok().map(|Query(wanted)| wanted.limit);
    let limit = limit.filter(|limit| (1..=MOST).contains(limit)).ok_or_else(|| {
        ApiError::field("limit", format!("`limit` must be a number from 1 to {MOST}"))
    })?;
    let turns = service.recent_turns(limit).await?;
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
