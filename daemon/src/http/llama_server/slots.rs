//! `/slots`: the slots, and saving, restoring and erasing what one holds.
//!
//! - To llama-server's clients a slot is a place with KV of its own, under a number that they choose. To Hob that
//!   number is a hint: `id_slot` names it, and its KV is saved and found like that of any other, in whichever
//!   slot it is. A number that names no KV is that of a slot: it stands for the conversation in it, and to save
//!   it, for what a request without a name has left there.
//! - A `filename` is a hint, too. Saving computes nothing: the file's record names the blocks that the slot's
//!   record names. Restoring makes the slot's hint of the file's tokens.

use std::time::Instant;

use axum::Json;
use axum::extract::{Path, State};
use hob_runtime::backend::MtpHeads;
use hob_runtime::{SlotState, SlotStatus, TurnRequest};
use hob_slots::{CacheKey, ConversationId, SlotId, Token};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::body::OptionalBody;
use super::super::query::Query;
use crate::blocking::compute;
use crate::chat::identity::slot_hint;
use crate::error::{ApiError, ErrorKind};
use crate::models::Models;
use crate::warm::job::report;
use crate::wire::fields::Fields;

/// `GET /slots`
pub async fn list(State(models): State<Models>) -> Result<Json<Value>, ApiError> {
    let status = models.engine.cell_status().await?;
    let n_ctx = models.engine.conversation_tokens();
    let has_heads = models.engine.model().mtp() == MtpHeads::Loaded;
    let speculative = has_heads || models.catalogue.current().draft_model.is_some();
    let slot = |slot: SlotStatus| {
        json!({
            "id": slot.slot.0,
            "n_ctx": n_ctx,
            "speculative": speculative,
            "is_processing": !matches!(slot.state, SlotState::Free | SlotState::Idle),
            "n_tokens": slot.tokens,
            "hob": {"conversation": slot.conversation, "state": slot.state.as_str()},
        })
    };
    Ok(Json(status.slots.into_iter().map(slot).collect()))
}

#[derive(Debug, Deserialize)]
pub struct Action {
    action: String,
}

/// `POST /slots/{id}?action=save|restore|erase`
pub async fn act(
    State(models): State<Models>,
    Path(id): Path<String>,
    Query(Action { action }): Query<Action>,
    OptionalBody(body): OptionalBody,
) -> Result<Json<Value>, ApiError> {
    let slot = id.parse::<u32>().map_err(|_| no_such_slot())?;
    let began = Instant::now();
    let mut answer = match action.as_str() {
        "save" => save(&models, slot, &body).await?,
        "restore" => restore(&models, slot, &body).await?,
        "erase" => erase(&models, slot).await?,
        other => {
            let other = other.escape_debug();
            let message = format!("`action` must be save, restore or erase, not `{other}`");
            return Err(ApiError::field("action", message));
        }
    };
    let ms = began.elapsed().as_secs_f64() * 1e3;
    answer["id_slot"] = slot.into();
    answer["timings"] = json!({ (format!("{action}_ms")): ms });
    Ok(Json(answer))
}

/// When it returns, the KV is on disk under the name of its conversation and, where the body has a `filename`,
/// under that.
async fn save(models: &Models, slot: u32, body: &Value) -> Result<Value, ApiError> {
    let file = filename(body)?;
    let owner = owner(models, slot).await?;
    let tokens = match &owner {
        Some(owner) => {
            models.engine.save(owner.clone()).await;
            recorded(models, owner).await.ok_or_else(|| {
                let message = "a turn of this slot runs, or its KV is not the exact one of its text: \
                               save it when the turn has ended";
                ApiError::new(ErrorKind::Conflict, message).code("slot_busy")
            })?
        }
        // The file is its first name.
        None if file.is_some() => models.engine.unnamed_tokens(SlotId(slot)).await?,
        None => Vec::new(),
    };
    if tokens.is_empty() {
        return Err(unnamed());
    }
    let saved = tokens.len();
    let mut answer = json!({"n_saved": saved, "hob": {"conversation": owner}});
    if let Some(name) = file {
        let file = file_hint(&name);
        fill(models, &file, tokens).await?;
        models.engine.save(file.clone()).await;
        models.engine.park(file).await;
        answer["filename"] = name.into();
    }
    Ok(answer)
}

/// When it returns, the KV of the file is in cells, under the hint of the slot.
async fn restore(models: &Models, slot: u32, body: &Value) -> Result<Value, ApiError> {
    let name = filename(body)?.ok_or_else(|| {
        ApiError::field("filename", "`filename` is required: the name that the KV was saved under")
    })?;
    let tokens = recorded(models, &file_hint(&name)).await.ok_or_else(|| {
        let message = "no KV of the current model is saved under this name";
        ApiError::field("filename", message).code("file_not_found")
    })?;
    let restored = tokens.len();
    fill(models, &slot_hint(slot.into()).id(), tokens).await?;
    Ok(json!({"n_restored": restored, "filename": name}))
}

async fn erase(models: &Models, slot: u32) -> Result<Value, ApiError> {
    let owner = owner(models, slot).await?.ok_or_else(unnamed)?;
    if !owner.is_hint() {
        let message = "this slot holds a conversation, whose KV others may wait for: \
                       DELETE /v1/conversations/{id} deletes it";
        return Err(ApiError::new(ErrorKind::Conflict, message).code("slot_owned"));
    }
    let erased = recorded(models, &owner).await.map_or(0, |tokens| tokens.len());
    models.engine.forget(owner).await?;
    Ok(json!({"n_erased": erased}))
}

/// Whose KV a number stands for; `None`: that of a slot which no conversation and no hint has.
async fn owner(models: &Models, slot: u32) -> Result<Option<ConversationId>, ApiError> {
    let hint = slot_hint(slot.into()).id();
    let slots = models.engine.cell_status().await?.slots;
    let is_hot = slots.iter().any(|held| held.conversation.as_ref() == Some(&hint));
    if is_hot || recorded(models, &hint).await.is_some() {
        return Ok(Some(hint));
    }
    let held = slots.into_iter().find(|held| held.slot.0 == slot).ok_or_else(no_such_slot)?;
    Ok(held.conversation)
}

fn unnamed() -> ApiError {
    let message = "the KV in this slot has no name, or there is none: send `id_slot`, a \
                   `conversation` or a `prompt_cache_key` with the prompt, or save it with a \
                   `filename` when its turn has ended";
    ApiError::new(ErrorKind::Conflict, message).code("slot_unnamed")
}

/// The tokens of its newest record.
async fn recorded(models: &Models, owner: &ConversationId) -> Option<Vec<Token>> {
    let (engine, owner) = (models.engine.clone(), owner.clone());
    compute(move || engine.recorded_tokens(&owner)).await.filter(|tokens| !tokens.is_empty())
}

/// Takes the KV of these tokens from wherever it is, and records it as the owner's.
async fn fill(models: &Models, owner: &ConversationId, tokens: Vec<Token>) -> Result<(), ApiError> {
    let request = TurnRequest::answer(Some(owner.clone()), tokens, 0);
    report(models.engine.submit(request)?).await?;
    Ok(())
}

fn file_hint(name: &str) -> ConversationId {
    CacheKey::V5(format!("slot-file:{name}")).id()
}

/// A name of at most 255 bytes, without a path, as llama-server takes it.
fn filename(body: &Value) -> Result<Option<String>, ApiError> {
    if body.is_null() {
        return Ok(None);
    }
    let Some(name) = Fields::of_body(body)?.string("filename")? else { return Ok(None) };
    let is_path = name.contains(['/', '\\']) || name == "." || name == "..";
    if name.is_empty() || name.len() > 255 || is_path || name.contains(char::is_control) {
        let message =
            "`filename` must be the name of a file, without a path and of at most 255 bytes";
        return Err(ApiError::field("filename", message));
    }
    Ok(Some(name.to_owned()))
}

fn no_such_slot() -> ApiError {
    ApiError::field("id", "there is no such slot: GET /slots lists them")
}
