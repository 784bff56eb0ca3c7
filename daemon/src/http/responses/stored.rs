//! `/v1/responses/{id}`: stored responses.
//!
//! - Every answer of a stored conversation is a response, whichever route it was asked on.
//! - Deleting one deletes what only it needs: the answer, the messages that it alone answers, and all
//!   that follows. As everywhere, deleted messages are gone after an hour; a conversation without another
//!   message is deleted at once.

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::client_tools::ClientTools;
use super::echo::defaults;
use super::object::{self, Frame, Outcome, Status};
use super::place::{Ids, Place};
use crate::chat::answer::RESPONSE;
use crate::conversations::Conversations;
use crate::conversations::transcript::{self, ConversationText, SavedMessage};
use crate::error::{ApiError, ErrorKind};
use crate::http::query::Query;
use crate::wire::answer::EndReason;
use crate::wire::fields::unsupported;

/// Items of one page.
const MAX_ITEMS: usize = 100;
const DEFAULT_ITEMS: usize = 20;

/// A stored answer.
pub struct StoredAnswer {
    pub text: ConversationText,
    pub row: i64,
    pub place: Place,
}

impl StoredAnswer {
    /// The answer of this id, whichever kind of item it names; `None`: no such answer is stored.
    pub async fn find(id: &str, conversations: &Conversations) -> Result<Option<Self>, ApiError> {
        let Some(place) = Place::parse(id) else { return Ok(None) };
        let text = conversations.transcript.get(&place.conversation).done().await?;
        let row = place.row;
        let is_answer =
            |saved: &SavedMessage| saved.id == row && saved.message["role"] == "assistant";
        let text = text.filter(|text| text.messages.iter().any(is_answer));
        Ok(text.map(|text| Self { text, row, place }))
    }

    fn message(&self) -> &SavedMessage {
        let message = self.text.messages.iter().find(|saved| saved.id == self.row);
        message.expect("`find` has found it")
    }

    /// The tools of the request that asked.
    fn tools(&self) -> ClientTools {
        let finish = self.message().finish.as_ref();
        ClientTools::of(finish.and_then(|finish| finish[RESPONSE].get("tools")))
    }

    fn ids_of(&self, row: i64) -> Ids {
        Ids::Stored(Place { row, ..self.place.clone() })
    }

    /// The first message that can go with the answer: between it and the answer before, each message has
    /// one message behind it.
    fn first_own(&self) -> &SavedMessage {
        let children = |parent: i64| {
            self.text.messages.iter().filter(move |saved| saved.parent == Some(parent)).count()
        };
        let path = self.text.path_to(self.row);
        let asked = path.iter().rev().skip(1);
        let own = asked
            .take_while(|saved| saved.message["role"] != "assistant" && children(saved.id) == 1);
        own.last().copied().unwrap_or_else(|| self.message())
    }
}

/// The answer that a request continues.
///
/// # Errors
/// When there is none, in OpenAI's words.
pub async fn previous(id: &str, conversations: &Conversations) -> Result<StoredAnswer, ApiError> {
    StoredAnswer::find(id, conversations).await?.ok_or_else(|| {
        let message = format!(
            "Previous response with id '{}' not found. Unknown 'previous_response_id': it was \
             deleted, or never stored.",
            id.escape_debug()
        );
        ApiError::field("previous_response_id", message).code("previous_response_not_found")
    })
}

async fn found(id: &str, conversations: &Conversations) -> Result<StoredAnswer, ApiError> {
    StoredAnswer::find(id, conversations).await?.ok_or_else(|| {
        let message = format!("Response with id '{}' not found.", id.escape_debug());
        ApiError::not_found(message).code("response_not_found")
    })
}

#[derive(Debug, Deserialize)]
pub struct ReadQuery {
    #[serde(default)]
    stream: bool,
}

/// `GET /v1/responses/{id}`
pub async fn read(
    State(conversations): State<Conversations>,
    Path(id): Path<String>,
    Query(query): Query<ReadQuery>,
) -> Result<Json<Value>, ApiError> {
    if query.stream {
        let message = "`stream` is not supported: hobd streams an answer to the request that asks";
        return Err(unsupported("stream", message));
    }
    let answer = found(&id, &conversations).await?;
    Ok(Json(response(&answer)))
}

fn response(answer: &StoredAnswer) -> Value {
    let saved = answer.message();
    let finish = saved.finish.clone().unwrap_or_default();
    let status = match saved.status {
        transcript::Status::Streaming => Status::InProgress,
        transcript::Status::Interrupted => Status::Cancelled,
        transcript::Status::Complete => {
            let reason = finish["finish_reason"].as_str().and_then(EndReason::parse);
            Status::of_reason(reason.unwrap_or_default())
        }
    };
    // An imported one may be anything.
    let mut echo: Map<String, Value> = defaults();
    for (name, value) in &mut echo {
        if let Some(kept) = finish[RESPONSE].get(name) {
            *value = kept.clone();
        }
    }
    let frame = Frame {
        ids: answer.ids_of(answer.row),
        created_at: u64::try_from(saved.created_at / 1000).unwrap_or(0),
        model: finish["model"].as_str().unwrap_or_default().to_owned(),
        echo,
    };
    let outcome = Outcome {
        output: frame.output(&saved.message, status, &json!([])),
        usage: finish.get("usage").filter(|usage| usage.is_object()).cloned(),
        millis: finish["hob"]["total_ms"].as_f64(),
        hob: finish.get("hob").filter(|hob| hob.is_object()).cloned(),
        ..Outcome::default()
    };
    frame.response(status, outcome)
}

/// `DELETE /v1/responses/{id}`
pub async fn delete(
    State(conversations): State<Conversations>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let answer = found(&id, &conversations).await?;
    let first = answer.first_own();
    let conversation = &answer.place.conversation;
    let roots = answer.text.messages.iter().filter(|saved| saved.parent.is_none()).count();
    if first.parent.is_none() && roots == 1 {
        conversations.delete(conversation).await?;
    } else {
        conversations.delete_message(conversation, first.id).await?;
    }
    Ok(Json(json!({"id": id, "object": "response.deleted", "deleted": true})))
}

/// `POST /v1/responses/{id}/cancel`: hobd has no responses in the background.
pub async fn cancel(
    State(conversations): State<Conversations>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    found(&id, &conversations).await?;
    let message = "only responses with `background: true` can be cancelled, and hobd has none: \
                   close the connection to end an answer";
    Err(ApiError::new(ErrorKind::Invalid, message).code("unsupported"))
}

#[derive(Debug, Deserialize)]
pub struct ItemsQuery {
    after: Option<String>,
    limit: Option<usize>,
    order: Option<String>,
}

/// `GET /v1/responses/{id}/input_items`: all messages before the answer, the latest first.
pub async fn input_items(
    State(conversations): State<Conversations>,
    Path(id): Path<String>,
    Query(query): Query<ItemsQuery>,
) -> Result<Json<Value>, ApiError> {
    let answer = found(&id, &conversations).await?;
    let path = answer.text.path_to(answer.row);
    let before = &path[..path.len() - 1];
    let tools = answer.tools();
    let kinds = tools.kinds(before.iter().map(|saved| &saved.message));
    let items = before
        .iter()
        .flat_map(|saved| object::items(&saved.message, &answer.ids_of(saved.id), &tools, &kinds));
    page(items.collect(), &query).map(Json)
}

pub(super) fn page(mut items: Vec<Value>, query: &ItemsQuery) -> Result<Value, ApiError> {
    match query.order.as_deref() {
        None | Some("desc") => items.reverse(),
        Some("asc") => {}
        Some(_) => return Err(ApiError::field("order", "`order` must be asc or desc")),
    }
    let limit = query.limit.unwrap_or(DEFAULT_ITEMS);
    if !(1..=MAX_ITEMS).contains(&limit) {
        let message = format!("`limit` must be between 1 and {MAX_ITEMS}, not {limit}");
        return Err(ApiError::field("limit", message));
    }
    if let Some(after) = &query.after {
        let place = items.iter().position(|item| item["id"] == after.as_str());
        let place = place.ok_or_else(|| {
            ApiError::field("after", "`after` must be the id of one of these items")
        })?;
        items.drain(..=place);
    }
    let has_more = items.len() > limit;
    items.truncate(limit);
    Ok(list(items, has_more))
}

pub(super) fn list(items: Vec<Value>, has_more: bool) -> Value {
    let id_of = |item: Option<&Value>| item.map(|item| item["id"].clone());
    json!({
        "object": "list",
        "first_id": id_of(items.first()),
        "last_id": id_of(items.last()),
        "has_more": has_more,
        "data": items,
    })
}
