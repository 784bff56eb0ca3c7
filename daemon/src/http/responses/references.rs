//! Items of a request that name stored ones.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::client_tools::ClientTools;
use super::object;
use super::place::{Ids, Place};
use crate::chat::identity::{Identity, Session};
use crate::conversations::Conversations;
use crate::conversations::transcript::ConversationText;
use crate::error::ApiError;
use crate::wire::fields::Fields;

/// What the stored items of an input may have together: the longest prompt that a template may write.
const MAX_BYTES: usize = 16 << 20;

/// `input`, with the stored items in place of references to them. An answer is stored as one text: in place of a
/// reference to a further one stands an item that is left out, so that all others keep the places that errors name.
/// A request in a conversation may have no `input`.
///
/// # Errors
/// When a reference names no stored item, or the items have more than [`MAX_BYTES`].
pub async fn resolved(
    body: &Value,
    session: &Session,
    conversations: &Conversations,
) -> Result<Value, ApiError> {
    let fields = Fields::of_body(body)?;
    if fields.get("input").is_none() && Identity::of(body, session)?.named().is_some() {
        return Ok(json!([])); // The question is an item of the conversation.
    }
    let mut input = fields.required("input")?.clone();
    let mut known: Option<ConversationText> = None;
    let mut stored_bytes = 0;
    for (n, item) in input.as_array_mut().into_iter().flatten().enumerate() {
        if !is_reference(item) {
            continue;
        }
        let path = format!("input[{n}]");
        let id = Fields::of(item, &path)?.required_string("id")?.to_owned();
        let found = match Place::parse(&id) {
            Some(place) => {
                let is_known =
                    known.as_ref().is_some_and(|it| it.summary.id == place.conversation.as_str());
                if !is_known {
                    known = conversations.transcript.get(&place.conversation).done().await?;
                }
                if Place::is_further_text(&id) && known.as_ref().is_some_and(|it| has(it, &place)) {
                    *item = json!({"type": "other"});
                    continue;
                }
                known.as_ref().and_then(|text| stored_item(text, &place, &id))
            }
            None => None,
        };
        let found = found.ok_or_else(|| {
            let message = format!(
                "Item with id '{}' not found. Items are not persisted when `store` is set to false.",
                id.escape_debug()
            );
            ApiError::field(format!("{path}.id"), message).code("item_not_found")
        })?;
        stored_bytes += found.to_string().len();
        if stored_bytes > MAX_BYTES {
            let message = format!(
                "the stored items of `input` have more than {} MiB together: name fewer, and each once",
                MAX_BYTES >> 20
            );
            return Err(ApiError::field(path, message));
        }
        *item = found;
    }
    Ok(input)
}

/// Clients leave out the type, too.
pub fn is_reference(item: &Value) -> bool {
    match item.get("type").filter(|kind| !kind.is_null()) {
        Some(kind) => kind == "item_reference",
        None => item.get("id").is_some() && item.get("role").is_none(),
    }
}

fn has(text: &ConversationText, place: &Place) -> bool {
    text.messages.iter().any(|saved| saved.id == place.row)
}

fn stored_item(text: &ConversationText, place: &Place, id: &str) -> Option<Value> {
    let saved = text.messages.iter().find(|saved| saved.id == place.row)?;
    // Read as input, a call is that of a function again, whatever it is to the client.
    let (tools, kinds) = (ClientTools::default(), BTreeMap::new());
    let items = object::items(&saved.message, &Ids::Stored(place.clone()), &tools, &kinds);
    let mut item = items.into_iter().find(|item| item["id"] == id)?;
    // The documents and the label of what was sent.
    if item["type"] == "message"
        && saved.message["role"] != "assistant"
        && let Some(hob) = saved.message.get("hob")
    {
        item["hob"] = hob.clone();
    }
    Some(item)
}

/// The stored conversation of the last item that has an id of one.
///
/// # Errors
/// When the database cannot be read.
pub async fn conversation(
    body: &Value,
    conversations: &Conversations,
) -> Result<Option<ConversationText>, ApiError> {
    let items = body["input"].as_array().map_or(&[][..], Vec::as_slice);
    let ids = items.iter().rev().filter_map(|item| item["id"].as_str());
    match ids.filter_map(Place::parse).next() {
        Some(place) => Ok(conversations.transcript.get(&place.conversation).done().await?),
        None => Ok(None),
    }
}
