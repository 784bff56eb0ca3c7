//! `/v1/profiles`: what prompts begin with, for whoever writes it.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hob_slots::TtlClass;
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::JsonBody;
use super::respond::no_such_method;
use crate::error::ApiError;
use crate::service::{
    Edit, EditSegment, PrefixStatus, ProfileAsked, ProfileView, SegmentView, Service,
};
use crate::utf16::units;

/// `GET /v1/profiles`
pub async fn list(State(service): State<Service>) -> Result<Json<Value>, ApiError> {
    let prefixes = prefixes(&service).await?;
    let profiles = service.profiles().await;
    let data: Vec<Value> = profiles
        .iter()
        .map(|profile| {
            let prefix = prefixes.get(&profile.name);
            json!({
                "name": profile.name,
                "ttl": profile.ttl,
                "segments": profile.prefix.len() + profile.tail.len(),
                "tokens": profile.tokens,
                "kv_bytes": kv_bytes(&service, profile.tokens),
                "state": prefix.map(|prefix| prefix.state.as_str()),
                "place": prefix.map(|prefix| prefix.place),
                "error": profile.error,
            })
        })
        .collect();
    let directory = service.profiles_dir();
    Ok(Json(json!({"object": "list", "data": data, "directory": directory})))
}

/// `GET /v1/profiles/{name}`
pub async fn read(
    State(service): State<Service>,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let asked = service.profile(&name).await?;
    Ok(Json(described(&service, &asked).await?))
}

/// A profile as an editor sends it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Draft {
    name: Option<String>,
    revision: Option<String>,
    #[serde(default = "extended")]
    ttl: TtlClass,
    segments: Vec<EditSegment>,
}

fn extended() -> TtlClass {
    TtlClass::Extended
}

/// `PUT /v1/profiles/{name}`
pub async fn save(
    State(service): State<Service>,
    Path(name): Path<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let draft = parsed(body)?;
    let status = if draft.revision.is_none() { StatusCode::CREATED } else { StatusCode::OK };
    let edit = Edit { ttl: draft.ttl, segments: draft.segments };
    let saved = service.save_profile(&name, draft.revision, edit).await?;
    Ok((status, Json(described(&service, &saved).await?)).into_response())
}

/// `DELETE /v1/profiles/{name}`
pub async fn delete(
    State(service): State<Service>,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let files = service.remove_profile(&name).await?;
    Ok(Json(json!({"name": name, "object": "profile.deleted", "deleted": true, "files": files})))
}

/// `POST /v1/profiles/check`: a profile may have that name too.
pub async fn check(
    State(service): State<Service>,
    Path(action): Path<String>,
    body: JsonBody,
) -> Result<Json<Value>, ApiError> {
    if action != "check" {
        return Err(no_such_method().await);
    }
    let draft = parsed(body)?;
    let edit = Edit { ttl: draft.ttl, segments: draft.segments };
    let view = service.check_profile(draft.name, edit).await?;
    Ok(Json(figures(&service, &view)))
}

fn parsed(body: JsonBody) -> Result<Draft, ApiError> {
    serde_json::from_value(body.value)
        .map_err(|error| ApiError::field("segments", error.to_string()))
}

async fn described(service: &Service, asked: &ProfileAsked) -> Result<Value, ApiError> {
    let prefixes = prefixes(service).await?;
    let prefix = prefixes.get(asked.name.as_str());
    let mut told = json!({
        "object": "profile",
        "name": asked.name.as_str(),
        "path": asked.path,
        "revision": asked.revision,
        "error": asked.error,
        "state": prefix.map(|prefix| prefix.state.as_str()),
        "place": prefix.map(|prefix| prefix.place),
        "segments": null,
    });
    if let Some(view) = &asked.view
        && let Value::Object(view) = figures(service, view)
    {
        told.as_object_mut().expect("it is one").extend(view);
    }
    Ok(told)
}

fn figures(service: &Service, view: &ProfileView) -> Value {
    let segments: Vec<Value> = view.segments.iter().map(|it| segment(service, it)).collect();
    json!({
        "ttl": view.ttl,
        "tokens": view.tokens,
        "kv_bytes": kv_bytes(service, view.tokens),
        "computed_tokens": view.computed_tokens,
        "segments": segments,
    })
}

fn segment(service: &Service, segment: &SegmentView) -> Value {
    let text = segment.content.as_deref().unwrap_or_default();
    let volatile: Vec<Value> = segment
        .volatile
        .iter()
        .map(|word| {
            json!({
                "start": units(&text[..word.start]),
                "end": units(&text[..word.end]),
                "kind": word.kind.as_str(),
            })
        })
        .collect();
    json!({
        "layer": segment.layer,
        "key": segment.key,
        "stable": segment.stable,
        "source": segment.source,
        "path": segment.path,
        "editable": segment.is_editable,
        "content": segment.content,
        "in_prefix": segment.in_prefix,
        "tokens": segment.tokens,
        "kv_bytes": kv_bytes(service, Some(segment.tokens)),
        "warm": segment.is_warm,
        "volatile": volatile,
    })
}

fn kv_bytes(service: &Service, tokens: Option<usize>) -> Option<u64> {
    Some(tokens? as u64 * service.catalogue().current().kv_bytes_per_token?)
}

async fn prefixes(service: &Service) -> Result<BTreeMap<String, PrefixStatus>, ApiError> {
    let status = service.engine().status().await?;
    let prefixes = service.prefixes(&status).await.into_iter();
    Ok(prefixes.map(|prefix| (prefix.profile.as_str().to_owned(), prefix)).collect())
}
