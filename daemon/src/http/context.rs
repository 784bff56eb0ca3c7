//! `/v1/conversations/{id}/context`: how full the context is; `/v1/conversations/{id}/shorten`: room
//! in it.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::Response;
use hob_api::conversations::ContextUse;
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::JsonBody;
use super::conversations::name;
use super::query::Query;
use super::sse;
use crate::chat::Chat;
use crate::chat::shorten::{Shortening, ShorteningEvent};
use crate::conversations::Conversations;
use crate::conversations::readiness::Readiness;
use crate::engine_status::prefix_status;
use crate::error::ApiError;
use crate::profiles::Profiles;

const OBJECT: &str = "conversation.context";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Next {
    profile: Option<String>,
    after: Option<i64>,
    beyond: Option<String>,
}

/// `GET /v1/conversations/{id}/context`: of the next turn, before its question. `?after=` names the
/// message that it follows, `?profile=` its profile, `?beyond=` whether it goes on past the context.
pub async fn context(
    State(chat): State<Chat>,
    State(conversations): State<Conversations>,
    State(profiles): State<Profiles>,
    Path(id): Path<String>,
    Query(next): Query<Next>,
) -> Result<Json<ContextUse>, ApiError> {
    let id = name(&id)?;
    let mut hob = json!({"append": true});
    if let Some(profile) = next.profile {
        hob["profile"] = profile.into();
    }
    if let Some(beyond) = next.beyond {
        hob["beyond"] = beyond.into();
    }
    if let Some(after) = next.after {
        hob["after"] = after.into();
    }
    let body = json!({"conversation": id.as_str(), "messages": [], "hob": hob});
    let prompt = chat.next_prompt(&body).await?;
    let status = prefix_status(chat.engine()).await?;
    let speed = conversations.prefill_speed(&status).await?;
    let kept_tokens = prompt.known_tokens.min(conversations.kv_tokens(&id).await?);
    let shared_tokens = match &prompt.prefix {
        Some((profile, tokens)) => {
            let prefixes = profiles.prefixes(&status).await;
            let is_kept = prefixes.iter().any(|it| it.profile == *profile && it.place != "none");
            if is_kept { *tokens } else { 0 }
        }
        None => 0,
    };
    let ready_tokens = kept_tokens.max(shared_tokens.min(prompt.tokens));
    let Readiness { ready, read_ms } = Readiness::of(Some(prompt.tokens), ready_tokens, speed);
    Ok(Json(ContextUse {
        object: OBJECT.into(),
        conversation: id.as_str().to_owned(),
        tokens: prompt.tokens,
        max_tokens: prompt.max_tokens,
        ready_tokens,
        ready,
        read_ms,
        left_out: prompt.left_out,
        goes_on: prompt.goes_on,
    }))
}

/// `POST /v1/conversations/{id}/shorten {"summarise"}`: events of the summary, the last with
/// `result`. A client that disconnects cancels it, and nothing has changed.
pub async fn shorten(
    State(chat): State<Chat>,
    Path(id): Path<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let id = name(&id)?;
    Ok(sse::stream(Events(chat.shorten(id, body.value).await?)))
}

struct Events(Shortening);

impl sse::Source for Events {
    type Object = Value;

    async fn next(&mut self) -> Option<Value> {
        Some(match self.0.next().await? {
            Ok(ShorteningEvent::Progress(report)) => json!({"hob": {"progress": report.to_json()}}),
            Ok(ShorteningEvent::Text(text)) => json!({"text": text}),
            Ok(ShorteningEvent::Done(done)) => json!({"result": {
                "start": done.start, "left_out": done.left_out, "summary": done.summary,
            }}),
            Err(error) => error.to_json(),
        })
    }
}
