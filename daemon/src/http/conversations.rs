//! `/v1/conversations`: what was said. Times are seconds since 1970, as everywhere in this API.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use hob_slots::ConversationId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::body::JsonBody;
use super::query::Query;
use crate::error::{ApiError, ErrorKind};
use crate::service::{Place, Service};
use crate::transcript::{
    Change, ConversationText, MAX_TITLE_CHARS, SearchQuery, Snippet, StoredMessage, Summary,
};
use crate::wire::fields::Fields;

const MAX_QUERY_CHARS: usize = 200;

/// Which conversations to list.
#[derive(Debug, Deserialize)]
pub struct Listed {
    #[serde(default)]
    pub(super) trashed: bool,
    #[serde(default)]
    pub(super) q: String,
}

/// `GET /v1/conversations`: the latest first; with `?trashed=true` those in the trash, with `?q=`
/// those that have these words.
pub async fn list(
    State(service): State<Service>,
    Query(listed): Query<Listed>,
) -> Result<Response, ApiError> {
    if listed.q.chars().count() > MAX_QUERY_CHARS {
        let message = format!("`q` has {MAX_QUERY_CHARS} characters at most");
        return Err(ApiError::field("q", message));
    }
    let Some(query) = SearchQuery::of(&listed.q) else {
        let list = service.conversations(listed.trashed).await?;
        let lines = list.iter().map(|(summary, place)| Line::of(summary, place));
        return Ok(list_of(lines.collect()));
    };
    let hits = service.search(query, listed.trashed).await?;
    let lines = hits.iter().map(|(summary, snippet, place)| Line {
        snippet: Some(snippet.as_ref()),
        ..Line::of(summary, place)
    });
    Ok(list_of(lines.collect()))
}

/// Ten thousand lines are many: they are written without a detour.
fn list_of(data: Vec<Line<'_>>) -> Response {
    #[derive(Serialize)]
    struct List<'l> {
        object: &'static str,
        data: Vec<Line<'l>>,
    }
    Json(List { object: "list", data }).into_response()
}

/// A conversation as the list shows it.
#[derive(Serialize)]
struct Line<'l> {
    id: &'l str,
    object: &'static str,
    title: Option<&'l str>,
    created_at: i64,
    updated_at: i64,
    message_count: i64,
    pinned: bool,
    trashed_at: Option<i64>,
    slot: Option<u32>,
    place: &'static str,
    tokens: usize,
    /// Of what was found; the outer `None`: nothing was looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    snippet: Option<Option<&'l Snippet>>,
}

impl<'l> Line<'l> {
    fn of(summary: &'l Summary, place: &Place) -> Self {
        Self {
            id: &summary.id,
            object: "conversation",
            title: summary.title.as_deref(),
            created_at: summary.created_at / 1000,
            updated_at: summary.updated_at / 1000,
            message_count: summary.messages,
            pinned: summary.pinned,
            trashed_at: summary.trashed_at.map(|at| at / 1000),
            slot: place.slot,
            place: place.name,
            tokens: place.tokens,
            snippet: None,
        }
    }
}

/// What to show of a conversation.
#[derive(Debug, Deserialize)]
pub struct Wanted {
    #[serde(default)]
    pub(super) branches: bool,
}

/// `GET /v1/conversations/{id}`: the branch that was used last; with `?branches=true` all of them.
pub async fn read(
    State(service): State<Service>,
    Path(id): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Value>, ApiError> {
    let (text, place) = service.conversation(&name(&id)?).await?.ok_or_else(unknown)?;
    Ok(Json(whole(&text, &place, wanted.branches)))
}

/// `GET /v1/conversations/{id}/explain`: why it last computed what was computed before.
pub async fn explain(
    State(service): State<Service>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id = name(&id)?;
    let remembered = service.explanation(&id).await?.ok_or_else(unknown)?;
    Ok(Json(json!({
        "id": id,
        "object": "conversation.explanation",
        "explained_at": remembered.as_ref().map(|remembered| remembered.at / 1000),
        "explanation": remembered.map(|remembered| remembered.explanation),
    })))
}

/// `PATCH /v1/conversations/{id} {"title", "pinned", "trashed", "head"}`
pub async fn change(
    State(service): State<Service>,
    Path(id): Path<String>,
    body: JsonBody,
) -> Result<Json<Value>, ApiError> {
    let change = wanted_change(&body.value)?;
    let id = name(&id)?;
    if !service.change(&id, change).await? {
        return Err(unknown());
    }
    let (text, place) = service.conversation(&id).await?.ok_or_else(unknown)?;
    let mut changed = describe(&text.summary, &place);
    changed["head"] = text.head.into();
    Ok(Json(changed))
}

fn wanted_change(body: &Value) -> Result<Change, ApiError> {
    let fields = Fields::of_body(body)?;
    let title = fields.string("title")?.map(|title| title.trim().to_owned());
    if let Some(title) = &title {
        let length = title.chars().count();
        if !(1..=MAX_TITLE_CHARS).contains(&length) || title.contains(char::is_control) {
            let message =
                format!("`title` must have 1 to {MAX_TITLE_CHARS} characters, on one line");
            return Err(ApiError::field("title", message));
        }
    }
    let change = Change {
        title,
        pinned: fields.boolean("pinned")?,
        trashed: fields.boolean("trashed")?,
        head: fields.integer("head", 1..=i64::MAX)?,
    };
    if change == Change::default() {
        let message = "say what to change: `title`, `pinned`, `trashed` or `head`";
        return Err(ApiError::new(ErrorKind::Invalid, message).code("missing"));
    }
    Ok(change)
}

/// `DELETE /v1/conversations/{id}`: its text and its KV.
pub async fn delete(
    State(service): State<Service>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id = name(&id)?;
    if !service.delete(&id).await? {
        return Err(unknown());
    }
    Ok(Json(json!({"id": id, "object": "conversation.deleted", "deleted": true})))
}

pub(super) fn name(id: &str) -> Result<ConversationId, ApiError> {
    ConversationId::new(id).map_err(|_| unknown())
}

pub(super) fn unknown() -> ApiError {
    ApiError::not_found("there is no conversation of this name").code("conversation_not_found")
}

pub(super) fn describe(summary: &Summary, place: &Place) -> Value {
    json!(Line::of(summary, place))
}

pub(super) fn whole(text: &ConversationText, place: &Place, branches: bool) -> Value {
    let messages: Vec<Value> = match branches {
        true => text.messages.iter().map(message).collect(),
        false => text.path().into_iter().map(message).collect(),
    };
    let mut whole = describe(&text.summary, place);
    whole["head"] = text.head.into();
    whole["messages"] = messages.into();
    whole
}

/// The message in OpenAI's shape, and around it what the tree knows.
fn message(stored: &StoredMessage) -> Value {
    let mut message = stored.message.clone();
    message["id"] = stored.id.into();
    message["parent"] = stored.parent.into();
    message["status"] = stored.status.as_str().into();
    message["created_at"] = (stored.created_at / 1000).into();
    message["finish"] = stored.finish.clone().unwrap_or_default();
    message
}
