//! `/v1/profiles`: listed, read, checked, saved, removed.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use hob_prewarm::profile::unquoted;
use hob_slots::{Layer, TtlClass};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::body::JsonBody;
use super::respond::no_such_method;
use crate::chat::Chat;
use crate::engine_status::engine_status;
use crate::error::ApiError;
use crate::models::Models;
use crate::profiles::Profiles;
use crate::profiles::edit::ProfileDetails;
use crate::profiles::files::{Edit, EditSegment};
use crate::profiles::status::PrefixStatus;
use crate::profiles::view::{ProfileView, SegmentView};
use crate::utf16::units;

/// `GET /v1/profiles`
pub async fn list(
    State(profiles): State<Profiles>,
    State(models): State<Models>,
    State(chat): State<Chat>,
) -> Result<Json<Value>, ApiError> {
    let prefixes = prefixes(&profiles, &models).await?;
    let list = profiles.list().await;
    let data = list.into_iter().map(|profile| {
        let prefix = prefixes.get(&profile.name);
        let watched = profile.name.parse().ok().and_then(|it| chat.reuse_guard().watched(&it));
        Line {
            segments: profile.prefix.len() + profile.tail.len(),
            kv_bytes: kv_bytes(&models, profile.tokens),
            state: prefix.map(|prefix| prefix.state.as_str()),
            place: prefix.map(|prefix| prefix.place),
            name: profile.name,
            ttl: profile.ttl,
            tokens: profile.tokens,
            error: profile.error,
            fell_back: watched.and_then(|watched| watched.fell_back),
        }
    });
    let data: Vec<Line> = data.collect();
    let directory = profiles.directory();
    Ok(Json(json!({"object": "list", "data": data, "directory": directory})))
}

/// A profile as the list shows it.
#[derive(Serialize)]
struct Line {
    name: String,
    ttl: Option<TtlClass>,
    segments: usize,
    tokens: Option<usize>,
    kv_bytes: Option<u64>,
    state: Option<&'static str>,
    place: Option<&'static str>,
    error: Option<String>,
    /// Why its answers use exact KV alone, although it says otherwise.
    fell_back: Option<String>,
}

/// `GET /v1/profiles/{name}`
pub async fn read(
    State(profiles): State<Profiles>,
    State(models): State<Models>,
    Path(name): Path<String>,
) -> Result<Json<Details>, ApiError> {
    let details = profiles.details(&name).await?;
    Ok(Json(Details::of(&profiles, &models, details).await?))
}

/// A profile as an editor sends it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EditRequest {
    name: Option<String>,
    revision: Option<String>,
    #[serde(default = "extended")]
    ttl: TtlClass,
    sampling: Option<BTreeMap<String, f64>>,
    segments: Vec<EditSegment>,
}

fn extended() -> TtlClass {
    TtlClass::Extended
}

/// `PUT /v1/profiles/{name}`
pub async fn save(
    State(profiles): State<Profiles>,
    State(models): State<Models>,
    Path(name): Path<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let request = parsed(body)?;
    let status = if request.revision.is_none() { StatusCode::CREATED } else { StatusCode::OK };
    let edit = Edit { ttl: request.ttl, sampling: request.sampling, segments: request.segments };
    let saved = profiles.save(&name, request.revision, edit).await?;
    Ok((status, Json(Details::of(&profiles, &models, saved).await?)).into_response())
}

/// `DELETE /v1/profiles/{name}`
pub async fn delete(
    State(profiles): State<Profiles>,
    State(chat): State<Chat>,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let files = profiles.remove(&name).await?;
    if let Ok(name) = name.parse() {
        chat.reuse_guard().forget(&name).await;
    }
    Ok(Json(json!({"name": name, "object": "profile.deleted", "deleted": true, "files": files})))
}

/// `POST /v1/profiles/check`: a profile may have that name too.
pub async fn check(
    State(profiles): State<Profiles>,
    State(models): State<Models>,
    Path(action): Path<String>,
    method: Method,
    uri: Uri,
    body: JsonBody,
) -> Result<Json<Checked>, ApiError> {
    if action != "check" {
        return Err(no_such_method(method, uri).await);
    }
    let request = parsed(body)?;
    let edit = Edit { ttl: request.ttl, sampling: request.sampling, segments: request.segments };
    let view = profiles.check(request.name, edit).await?;
    Ok(Json(Checked::of(&models, view)))
}

fn parsed(body: JsonBody) -> Result<EditRequest, ApiError> {
    serde_json::from_value(body.value)
        .map_err(|error| ApiError::field("segments", unquoted(&error.to_string())))
}

/// A profile with its segments.
#[derive(Serialize)]
pub struct Details {
    object: &'static str,
    name: String,
    path: String,
    revision: String,
    error: Option<String>,
    state: Option<&'static str>,
    place: Option<&'static str>,
    /// `None` when its file cannot be parsed.
    segments: Option<Vec<Segment>>,
    #[serde(flatten)]
    figures: Option<Figures>,
}

/// An unsaved profile.
#[derive(Serialize)]
pub struct Checked {
    #[serde(flatten)]
    figures: Figures,
    segments: Vec<Segment>,
}

/// Figures of the whole prefix.
#[derive(Serialize)]
struct Figures {
    ttl: TtlClass,
    sampling: BTreeMap<String, f64>,
    tokens: Option<usize>,
    kv_bytes: Option<u64>,
    computed_tokens: Option<usize>,
}

#[derive(Serialize)]
struct Segment {
    layer: Layer,
    key: String,
    stable: bool,
    source: &'static str,
    path: Option<String>,
    editable: bool,
    content: Option<String>,
    in_prefix: bool,
    tokens: usize,
    kv_bytes: Option<u64>,
    warm: bool,
    volatile: Vec<VolatileWord>,
}

/// Positions count UTF-16 units, as JavaScript does.
#[derive(Serialize)]
struct VolatileWord {
    start: usize,
    end: usize,
    kind: &'static str,
}

impl Details {
    async fn of(
        profiles: &Profiles,
        models: &Models,
        details: ProfileDetails,
    ) -> Result<Self, ApiError> {
        let ProfileDetails { name, path, revision, error, view } = details;
        let prefixes = prefixes(profiles, models).await?;
        let prefix = prefixes.get(name.as_str());
        let checked = view.map(|view| Checked::of(models, view));
        let (figures, segments) =
            checked.map(|Checked { figures, segments }| (figures, segments)).unzip();
        Ok(Self {
            object: "profile",
            name: name.as_str().to_owned(),
            path: path.to_string_lossy().into_owned(),
            revision,
            error,
            state: prefix.map(|prefix| prefix.state.as_str()),
            place: prefix.map(|prefix| prefix.place),
            segments,
            figures,
        })
    }
}

impl Checked {
    fn of(models: &Models, view: ProfileView) -> Self {
        let ProfileView { ttl, sampling, segments, tokens, computed_tokens } = view;
        let kv_bytes = kv_bytes(models, tokens);
        let figures = Figures { ttl, sampling, tokens, kv_bytes, computed_tokens };
        let segments = segments.into_iter().map(|segment| Segment::of(models, segment));
        Self { figures, segments: segments.collect() }
    }
}

impl Segment {
    fn of(models: &Models, segment: SegmentView) -> Self {
        let text = segment.content.as_deref().unwrap_or_default();
        let volatile = segment.volatile.iter().map(|word| VolatileWord {
            start: units(&text[..word.start]),
            end: units(&text[..word.end]),
            kind: word.kind.as_str(),
        });
        Self {
            volatile: volatile.collect(),
            kv_bytes: kv_bytes(models, Some(segment.tokens)),
            layer: segment.layer,
            key: segment.key,
            stable: segment.stable,
            source: segment.source,
            path: segment.path,
            editable: segment.is_editable,
            content: segment.content,
            in_prefix: segment.in_prefix,
            tokens: segment.tokens,
            warm: segment.is_warm,
        }
    }
}

fn kv_bytes(models: &Models, tokens: Option<usize>) -> Option<u64> {
    models.kv_bytes(tokens?)
}

async fn prefixes(
    profiles: &Profiles,
    models: &Models,
) -> Result<BTreeMap<String, PrefixStatus>, ApiError> {
    let status = engine_status(&models.engine).await?;
    let prefixes = profiles.prefixes(&status).await.into_iter();
    Ok(prefixes.map(|prefix| (prefix.profile.as_str().to_owned(), prefix)).collect())
}
