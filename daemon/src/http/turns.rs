//! `/v1/turns`: the latest answers over all conversations. Times are seconds since 1970.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::query::Query;
use crate::conversations::Conversations;
use crate::conversations::transcript::RecentTurn;
use crate::error::ApiError;

const DEFAULT_TURNS: usize = 200;
const MAX_TURNS: usize = 1000;

#[derive(Debug, Deserialize)]
pub struct Limit {
    limit: Option<usize>,
}

/// `GET /v1/turns?limit=`: the latest first.
pub async fn list(
    State(conversations): State<Conversations>,
    Query(Limit { limit }): Query<Limit>,
) -> Result<Json<Value>, ApiError> {
    let max_turns = limit.unwrap_or(DEFAULT_TURNS);
    if !(1..=MAX_TURNS).contains(&max_turns) {
        return Err(ApiError::field("limit", format!("`limit` must be from 1 to {MAX_TURNS}")));
    }
    let turns = conversations.recent_turns(max_turns).await?;
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
