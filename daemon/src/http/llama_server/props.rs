//! `GET /props`: the model, and how its answers are sampled by default.

use axum::Json;
use axum::extract::State;
use hob_runtime::Residency;
use hob_runtime::sample::Sampling;
use hob_slots::Token;
use serde_json::{Value, json};

use super::settings::of_sampling;
use crate::chat::Chat;
use crate::error::ApiError;
use crate::models::Models;

pub async fn props(
    State(models): State<Models>,
    State(chat): State<Chat>,
) -> Result<Json<Value>, ApiError> {
    let current = models.catalogue.current();
    let model = models.engine.model();
    let (facts, vocabulary) = (model.facts(), model.vocabulary());
    let written = |token: Option<Token>| {
        let bytes = token.map(|token| vocabulary.piece(token)).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    };
    let status = models.engine.cell_status().await?;
    let mut params = of_sampling(&Sampling::default());
    if let (Value::Object(params), Value::Object(own)) = (&mut params, current.sampling.to_json()) {
        params.extend(own); // What the model's file recommends.
    }
    let path = current.path.as_ref().map(|path| path.display().to_string());
    let mut props = json!({
        "default_generation_settings": {
            "id": 0,
            "n_ctx": models.engine.conversation_tokens(),
            "is_processing": false,
            "params": params,
        },
        "total_slots": status.slots.len(),
        "model_alias": models.name(),
        "model_path": path.unwrap_or_else(|| models.name().to_owned()),
        "modalities": {"vision": false, "audio": false},
        "chat_template": facts.chat_template,
        "chat_template_caps": {"supports_tools": chat.supports_tools()},
        "bos_token": written(vocabulary.bos()),
        "eos_token": written(vocabulary.eos()),
        "build_info": concat!("hobd ", env!("CARGO_PKG_VERSION")),
        "is_sleeping": status.residency == Residency::Unloaded,
    });
    if let Some(template) = &facts.tool_template {
        props["chat_template_tool_use"] = template.as_str().into();
    }
    Ok(Json(props))
}
