//! `/v1/conversations`: saved conversations. Times are seconds since 1970, as everywhere in this
//! API.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use hob_api::{Conversation, List};
use hob_slots::ConversationId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::body::JsonBody;
use super::query::Query;
use crate::chat::answer::RESPONSE;
use crate::chat::identity::conversation_id;
use crate::conversations::transcript::{
    Change, ConversationText, Listing, MAX_TITLE_CHARS, SavedMessage, SearchQuery, Snippet, Summary,
};
use crate::conversations::{Conversations, KvLocation, trash};
use crate::error::{ApiError, ErrorKind};
use crate::wire::fields::Fields;
use crate::wire::sampling::SamplingFields;

const MAX_QUERY_CHARS: usize = 200;

#[derive(Debug, Deserialize)]
pub struct ListQuery {
    #[serde(default)]
    trashed: bool,
    #[serde(default)]
    pub(super) q: String,
}

impl ListQuery {
    pub(super) fn listing(&self) -> Listing {
        if self.trashed { Listing::Trash } else { Listing::Current }
    }
}

/// `GET /v1/conversations`: the latest first; `?trashed=true` lists the trash, `?q=` searches.
pub async fn list(
    State(conversations): State<Conversations>,
    Query(listed): Query<ListQuery>,
) -> Result<Response, ApiError> {
    if listed.q.chars().count() > MAX_QUERY_CHARS {
        let message = format!("`q` has {MAX_QUERY_CHARS} characters at most");
        return Err(ApiError::field("q", message));
    }
    let Some(query) = SearchQuery::of(&listed.q) else {
        let list = conversations.list(listed.listing()).await?;
        let lines = list.iter().map(|it| line(&it.summary, &it.location)).collect();
        return Ok(match listed.listing() {
            Listing::Current => list_of(lines),
            Listing::Trash => trash_of(lines),
        });
    };
    let hits = conversations.search(query, listed.listing()).await?;
    let lines = hits.iter().map(|it| Hit {
        conversation: line(&it.summary, &it.location),
        snippet: it.snippet.as_ref(),
    });
    Ok(list_of(lines.collect()))
}

/// A list may have ten thousand lines: it is serialised directly, not through a `Value`.
fn list_of<T: Serialize>(data: Vec<T>) -> Response {
    Json(List { object: "list".into(), data }).into_response()
}

/// The trash, and how long it holds a conversation.
fn trash_of(data: Vec<Conversation<'_>>) -> Response {
    #[derive(Serialize)]
    struct Trash<'l> {
        #[serde(flatten)]
        list: List<Conversation<'l>>,
        retention_secs: u64,
    }
    let list = List { object: "list".into(), data };
    Json(Trash { list, retention_secs: trash::RETENTION.as_secs() }).into_response()
}

/// A conversation that a search has found.
#[derive(Serialize)]
struct Hit<'l> {
    #[serde(flatten)]
    conversation: Conversation<'l>,
    snippet: Option<&'l Snippet>,
}

fn line<'l>(summary: &'l Summary, location: &KvLocation) -> Conversation<'l> {
    Conversation {
        id: summary.id.as_str().into(),
        object: "conversation".into(),
        title: summary.title.as_deref().map(Into::into),
        created_at: summary.created_at / 1000,
        updated_at: summary.updated_at / 1000,
        message_count: summary.messages,
        pinned: summary.pinned,
        private: summary.private,
        trashed_at: summary.trashed_at.map(|at| at / 1000),
        slot: location.slot,
        place: location.name.into(),
        tier: location.tier.into(),
        tokens: Some(location.tokens),
        memory_tokens: location.memory_tokens,
        disk_tokens: location.disk_tokens,
        ready: Some(location.next.ready),
        read_ms: location.next.read_ms,
    }
}

#[derive(Debug, Deserialize)]
pub struct ReadQuery {
    #[serde(default)]
    pub(super) branches: bool,
}

/// `GET /v1/conversations/{id}`: the current branch; with `?branches=true` all of them.
pub async fn read(
    State(conversations): State<Conversations>,
    Path(id): Path<String>,
    Query(query): Query<ReadQuery>,
) -> Result<Json<Value>, ApiError> {
    let (text, location) =
        conversations.get(&name(&id)?).await?.ok_or_else(ApiError::no_such_conversation)?;
    Ok(Json(whole(&text, &location, query.branches)))
}

/// `PATCH /v1/conversations/{id} {"title", "pinned", "trashed", "head", "sampling", "instructions"}`
pub async fn change(
    State(conversations): State<Conversations>,
    Path(id): Path<String>,
    body: JsonBody,
) -> Result<Json<Value>, ApiError> {
    let change = parse_change(&body.value)?;
    let id = name(&id)?;
    if !conversations.change(&id, change).await? {
        return Err(ApiError::no_such_conversation());
    }
    let (text, location) =
        conversations.get(&id).await?.ok_or_else(ApiError::no_such_conversation)?;
    let mut changed = describe(&text.summary, &location);
    changed["head"] = text.head.into();
    changed["sampling"] = text.sampling.into();
    changed["instructions"] = text.instructions.into();
    Ok(Json(changed))
}

fn parse_change(body: &Value) -> Result<Change, ApiError> {
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
        sampling: SamplingFields::object(&fields)?,
        instructions: fields.string("instructions")?.map(|text| text.trim().to_owned()),
    };
    if change == Change::default() {
        let message = "say what to change: `title`, `pinned`, `trashed`, `head`, `sampling` or \
                       `instructions`";
        return Err(ApiError::new(ErrorKind::Invalid, message).code("missing"));
    }
    Ok(change)
}

/// `DELETE /v1/conversations/{id}`: the text and the KV.
pub async fn delete(
    State(conversations): State<Conversations>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id = name(&id)?;
    if !conversations.delete(&id).await? {
        return Err(ApiError::no_such_conversation());
    }
    Ok(Json(json!({"id": id, "object": "conversation.deleted", "deleted": true})))
}

pub(super) fn name(id: &str) -> Result<ConversationId, ApiError> {
    match conversation_id(id, "id") {
        Err(error) if error.code != Some("reserved_name") => Err(ApiError::no_such_conversation()),
        known => known,
    }
}

pub(super) fn describe(summary: &Summary, location: &KvLocation) -> Value {
    json!(line(summary, location))
}

pub(super) fn whole(text: &ConversationText, location: &KvLocation, branches: bool) -> Value {
    let messages: Vec<Value> = if branches {
        text.messages.iter().map(message).collect()
    } else {
        text.path().into_iter().map(message).collect()
    };
    let mut whole = describe(&text.summary, location);
    whole["head"] = text.head.into();
    whole["sampling"] = text.sampling.clone().into();
    whole["instructions"] = text.instructions.clone().into();
    whole["messages"] = messages.into();
    whole
}

/// The message in OpenAI's shape, with its place in the tree.
fn message(saved: &SavedMessage) -> Value {
    let mut message = saved.message.clone();
    message["id"] = saved.id.into();
    message["parent"] = saved.parent.into();
    message["status"] = saved.status.as_str().into();
    message["created_at"] = (saved.created_at / 1000).into();
    let mut finish = saved.finish.clone().unwrap_or_default();
    if let Some(finish) = finish.as_object_mut() {
        finish.shift_remove(RESPONSE); // Tools and instructions again.
    }
    message["finish"] = finish;
    message["starts_prompt"] = saved.starts_prompt.into();
    message["summary"] = saved.summary.clone().into();
    message
}
