//! `/slots`: the slots, and saving the KV of one.
//!
//! - Hob saves KV by itself, under the name of its conversation, and finds it again by the tokens of the prompt,
//!   from any conversation and after a restart. Restoring it into a slot and erasing it are no requests here.

use axum::Json;
use axum::extract::{Path, State};
use hob_runtime::{SlotState, SlotStatus};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::query::Query;
use crate::error::{ApiError, ErrorKind};
use crate::models::Models;

/// `GET /slots`
pub async fn list(State(models): State<Models>) -> Result<Json<Value>, ApiError> {
    let status = models.engine.cell_status().await?;
    let n_ctx = models.engine.conversation_tokens();
    let speculative = models.catalogue.current().draft_model.is_some();
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

/// `POST /slots/{id}?action=save`: the KV of the conversation in the slot is on disk when it answers.
pub async fn act(
    State(models): State<Models>,
    Path(id): Path<String>,
    Query(Action { action }): Query<Action>,
) -> Result<Json<Value>, ApiError> {
    let status = models.engine.cell_status().await?;
    let slot = status.slots.into_iter().find(|slot| slot.slot.0.to_string() == id);
    let slot =
        slot.ok_or_else(|| ApiError::field("id", "there is no such slot: GET /slots lists them"))?;
    match action.as_str() {
        "save" => save(&models, slot).await.map(Json),
        "restore" => Err(refused(
            "hobd restores saved KV by itself, into any slot: send the prompt, or the name of its \
             `conversation`",
        )),
        "erase" => Err(refused(
            "hobd reuses KV for equal tokens alone, so a slot needs no erasing: `cache_prompt: false` \
             reuses none, DELETE /v1/conversations/{id} deletes a conversation and its KV",
        )),
        other => {
            let other = other.escape_debug();
            let message = format!("`action` must be save, restore or erase, not `{other}`");
            Err(ApiError::field("action", message))
        }
    }
}

async fn save(models: &Models, slot: SlotStatus) -> Result<Value, ApiError> {
    let Some(conversation) = slot.conversation else {
        let message = "the KV in this slot has no name to be saved under: send a `conversation` or a \
                       `prompt_cache_key` with the prompt";
        return Err(ApiError::new(ErrorKind::Conflict, message).code("slot_unnamed"));
    };
    models.engine.save(conversation.clone()).await;
    Ok(json!({
        "id_slot": slot.slot.0,
        "n_saved": slot.tokens,
        "hob": {"conversation": conversation},
    }))
}

fn refused(message: &str) -> ApiError {
    ApiError::new(ErrorKind::NotImplemented, message).code("unsupported")
}
