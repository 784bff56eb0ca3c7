//! `POST /v1/conversations`, and `/v1/conversations/{id}/items`: a conversation as OpenAI's clients have it.
//!
//! - Without items nothing is stored: the conversation begins with its first response, or its first item. Until then
//!   it has no items.
//! - Its items are those of the branch that is shown, which the next response follows.

use axum::Json;
use axum::extract::{Path, State};
use hob_slots::ConversationId;
use serde_json::{Value, json};

use super::client_tools::ClientTools;
use super::input::Input;
use super::object;
use super::place::{Ids, Place};
use super::stored::{self, ItemsQuery};
use crate::chat::Chat;
use crate::chat::answer::RESPONSE;
use crate::chat::identity::conversation_id;
use crate::chat::names;
use crate::conversations::Conversations;
use crate::conversations::transcript::{ConversationText, SavedMessage};
use crate::error::ApiError;
use crate::http::body::{JsonBody, OptionalBody};
use crate::http::conversations::name;
use crate::http::query::Query;
use crate::http::translation::{behind, renamed};
use crate::wire::fields::{Fields, unsupported};
use crate::wire::message::Message;

/// `POST /v1/conversations`
pub async fn create(
    State(conversations): State<Conversations>,
    OptionalBody(body): OptionalBody,
) -> Result<Json<Value>, ApiError> {
    let messages = if body.is_null() { Vec::new() } else { messages(&body)? };
    let id = names::conversation();
    if !messages.is_empty() {
        let id = conversation_id(&id, "id")?;
        let ticket = conversations.transcript.ticket(&id)?;
        conversations.add_messages(&id, messages, ticket).await?;
    }
    let now = (conversations.clock)().0 / 1000;
    Ok(Json(conversation(&id, i64::try_from(now).unwrap_or(i64::MAX))))
}

/// `GET /v1/conversations/{id}/items`: the latest first.
pub async fn items(
    State(conversations): State<Conversations>,
    Path(id): Path<String>,
    Query(query): Query<ItemsQuery>,
) -> Result<Json<Value>, ApiError> {
    let text = conversations.text(&name(&id)?).await?;
    let items = text.iter().flat_map(|text| items_of(text, |_| true)).collect();
    stored::page(items, &query).map(Json)
}

/// `POST /v1/conversations/{id}/items {"items"}`
pub async fn add(
    State(chat): State<Chat>,
    State(conversations): State<Conversations>,
    Path(id): Path<String>,
    body: JsonBody,
) -> Result<Json<Value>, ApiError> {
    let id = name(&id)?;
    let messages = messages(&body.value)?;
    if messages.is_empty() {
        return Err(ApiError::field("items", "`items` must not be empty"));
    }
    let ticket = conversations.transcript.ticket(&id)?;
    conversations.check_idle(&id).await?;
    // Between what a turn reads and what it writes, the items would land on another branch.
    let _lock = chat.locks().enter(&id).await?;
    let added = conversations.add_messages(&id, messages, ticket).await?;
    let text = text(&conversations, &id).await?;
    let items = items_of(&text, |saved| added.contains(&saved.id));
    Ok(Json(stored::list(items, false)))
}

/// `GET /v1/conversations/{id}/items/{item}`
pub async fn item(
    State(conversations): State<Conversations>,
    Path((id, item)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let text = text(&conversations, &name(&id)?).await?;
    let found = items_of(&text, |_| true).into_iter().find(|it| it["id"] == item.as_str());
    found.map(Json).ok_or_else(unknown_item)
}

/// `DELETE /v1/conversations/{id}/items/{item}`: its message, with all that follow it.
pub async fn delete(
    State(conversations): State<Conversations>,
    Path((id, item)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let id = name(&id)?;
    let place = Place::parse(&item).filter(|place| place.conversation == id);
    let row = place.ok_or_else(unknown_item)?.row;
    conversations.delete_message(&id, row).await?;
    let text = text(&conversations, &id).await?;
    Ok(Json(conversation(id.as_str(), text.summary.created_at / 1000)))
}

/// `created_at`: in seconds.
fn conversation(id: &str, created_at: i64) -> Value {
    json!({"id": id, "object": "conversation", "created_at": created_at, "metadata": {}})
}

async fn text(
    conversations: &Conversations,
    id: &ConversationId,
) -> Result<ConversationText, ApiError> {
    conversations.text(id).await?.ok_or_else(ApiError::no_such_conversation)
}

fn unknown_item() -> ApiError {
    ApiError::not_found("there is no item of this id in the conversation").code("item_not_found")
}

/// The messages of `items`.
fn messages(body: &Value) -> Result<Vec<Message>, ApiError> {
    let items = Fields::of_body(body)?.list("items")?.map_or(&[][..], Vec::as_slice);
    for (n, item) in items.iter().enumerate() {
        if item["type"] == "item_reference" {
            let message = "references are read in the input of a response: send the item itself";
            return Err(unsupported(format!("items[{n}].type"), message));
        }
    }
    let own =
        |error: ApiError| renamed(error, |param| Some(format!("items{}", behind(param, "input")?)));
    let Input { messages, paths, .. } = Input::parse(&Value::from(items)).map_err(own)?;
    let read = messages.iter().zip(&paths);
    read.map(|(message, path)| Message::parse(message, path)).collect::<Result<_, _>>().map_err(own)
}

/// The items of the messages that `are_meant`, the oldest first.
fn items_of(text: &ConversationText, are_meant: impl Fn(&SavedMessage) -> bool) -> Vec<Value> {
    let path = text.path();
    let tools = path.iter().rev().find_map(|saved| saved.finish.as_ref()?[RESPONSE].get("tools"));
    let tools = ClientTools::of(tools);
    let kinds = tools.kinds(path.iter().map(|saved| &saved.message));
    let Ok(conversation) = ConversationId::new(&text.summary.id) else { return Vec::new() };
    let meant = path.iter().filter(|saved| are_meant(saved));
    let items = meant.flat_map(|saved| {
        let place = Place { conversation: conversation.clone(), row: saved.id };
        object::items(&saved.message, &Ids::Stored(place), &tools, &kinds)
    });
    items.collect()
}
