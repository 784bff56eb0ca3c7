//! `/v1/models`: the model that this daemon runs, and those that it could run instead.

use std::path::PathBuf;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hob_api::{Device, ModelMemory, Offload, Text};
use hob_models::MachineMemory;
use hob_models::published::{FETCH_COMMAND, Published};
use hob_slots::{ModelHash, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::body::JsonBody;
use super::upstream;
use crate::blocking::compute;
use crate::chat::Chat;
use crate::clock::rfc3339;
use crate::error::ApiError;
use crate::models::{Entry, Models, SavedKv, Switch, devices};
use crate::settings::SettingsEditor;

/// `GET /v1/models`
pub async fn list(
    State(models): State<Models>,
    State(chat): State<Chat>,
) -> Result<Response, ApiError> {
    if let Some(upstream) = chat.upstream() {
        return upstream::models(upstream).await;
    }
    let model = Model::of(&models);
    let (first_id, last_id) = (model.id.clone(), model.id.clone());
    let list = ModelList { object: "list", data: vec![model], has_more: false, first_id, last_id };
    Ok(Json(list).into_response())
}

/// `GET /v1/models/{id}`
pub async fn one(
    State(models): State<Models>,
    State(chat): State<Chat>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    if let Some(upstream) = chat.upstream() {
        return upstream::model(upstream, &id).await;
    }
    if id == models.name() {
        return Ok(Json(Model::of(&models)).into_response());
    }
    Err(ApiError::not_found("this daemon runs another model; GET /v1/models names it")
        .param("model")
        .code("model_not_found"))
}

/// `GET /v1/models/local`: the models of this machine.
pub async fn local(State(models): State<Models>) -> Json<LocalModels> {
    let local = models.local().await;
    let options = models.catalogue.options();
    let current = local.entries.iter().find(|entry| entry.is_current);
    let devices = compute(devices::here).await;
    let is_used = |it: &&Device| options.devices.uses(&it.name, it.shares_memory);
    let used_devices = devices.iter().filter(is_used).map(|device| device.name.clone()).collect();
    Json(LocalModels {
        object: "list",
        current: current.map(|entry| entry.id.clone()),
        data: local.entries.iter().map(Entry::to_json).collect(),
        problems: local.problems.clone(),
        fetchable: Fetchable::beside(&local.entries, models.fetcher.published()),
        fixed: options.fixed.clone(),
        fixed_context: options.fixed_context.clone(),
        directory: options.models_dir.clone(),
        slots: options.context.slots,
        memory: local.memory,
        next: ModelMemory {
            free_bytes: local.free_bytes,
            current_weights_bytes: local.own_weights_bytes,
            device_free_bytes: local.device_free_bytes,
        },
        devices,
        used_devices,
        gpu_layers: options.context.gpu_layers,
        offload: devices::offload_of(models.engine.model().as_ref()),
    })
}

/// A model that a command fetches, and hobd when a client asks for it.
#[derive(Serialize)]
pub struct Fetchable {
    title: &'static str,
    licence: &'static str,
    bytes: u64,
    command: &'static str,
}

impl Fetchable {
    /// `None` where it is among the models of this machine.
    fn beside(entries: &[Entry], published: &'static Published) -> Option<Self> {
        let is_here = entries.iter().any(|entry| entry.is_named(published.file_name));
        (!is_here).then_some(Self {
            title: published.title,
            licence: published.licence,
            bytes: published.wheel_bytes,
            command: FETCH_COMMAND,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchRequest {
    model: String,
    /// As the setting has it.
    ctx: Option<Value>,
    #[serde(default)]
    force: bool,
}

/// `POST /v1/models/switch`: 202, and the daemon starts over.
pub async fn switch(
    State(models): State<Models>,
    State(settings): State<SettingsEditor>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let SwitchRequest { model, ctx, force } = serde_json::from_value(body.value)
        .map_err(|error| ApiError::field("model", error.to_string()))?;
    let ctx = ctx.map(|ctx| settings.context(ctx)).transpose()?;
    let switch = models.switch(model, ctx, force).await?;
    let status = if switch.restarts { StatusCode::ACCEPTED } else { StatusCode::OK };
    let kv =
        if switch.restarts { "kept on disk, comes back with the model" } else { "it runs already" };
    let from = Origin {
        model: models.catalogue.current().choice.to_string(),
        name: models.name().to_owned(),
        kept: switch.saved_kv,
    };
    let Switch { model, name, restarts, .. } = switch;
    let for_this_run = models.catalogue.options().fixed.is_some();
    let body = Switched { object: "model.switch", model, name, restarts, for_this_run, from, kv };
    Ok((status, Json(body)).into_response())
}

/// A list of OpenAI's, and a page of Anthropic's.
#[derive(Serialize)]
pub struct ModelList {
    object: &'static str,
    data: Vec<Model>,
    has_more: bool,
    first_id: String,
    last_id: String,
}

/// The running model, in OpenAI's shape and in Anthropic's.
#[derive(Serialize)]
pub struct Model {
    id: String,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    #[serde(flatten)]
    of_anthropic: AnthropicModel,
    /// What a conversation holds at most, under vLLM's name.
    max_model_len: usize,
    /// The same number under OpenRouter's and LM Studio's name.
    context_length: usize,
    meta: Meta,
}

/// The fields that only Anthropic's API has.
#[derive(Serialize)]
struct AnthropicModel {
    r#type: &'static str,
    display_name: String,
    /// RFC 3339.
    created_at: String,
    lifecycle: &'static str,
    max_input_tokens: usize,
    /// Maximum tokens of an answer.
    max_tokens: usize,
}

#[derive(Serialize)]
struct Meta {
    architecture: String,
    context: usize,
    trained_context: usize,
    parameters: u64,
    size_bytes: u64,
    memory: String,
    pooling: Option<String>,
    vocabulary: usize,
    fingerprint: ModelHash,
}

impl Model {
    fn of(models: &Models) -> Self {
        let facts = models.engine.model().facts();
        let conversation_tokens = models.engine.conversation_tokens();
        let meta = Meta {
            architecture: facts.architecture.clone(),
            context: models.engine.context_tokens(),
            trained_context: facts.trained_context,
            parameters: facts.parameters,
            size_bytes: facts.size_bytes,
            memory: facts.memory.to_string(),
            pooling: facts.pooling.clone(),
            vocabulary: models.engine.model().vocabulary().len(),
            fingerprint: models.engine.fingerprint(),
        };
        let created = models.started.0 / 1000;
        let of_anthropic = AnthropicModel {
            r#type: "model",
            display_name: models.name().to_owned(),
            created_at: rfc3339(Timestamp(created * 1000)),
            lifecycle: "active",
            max_input_tokens: conversation_tokens,
            max_tokens: conversation_tokens,
        };
        Self {
            id: models.name().to_owned(),
            object: "model",
            created,
            owned_by: "hob",
            of_anthropic,
            max_model_len: conversation_tokens,
            context_length: conversation_tokens,
            meta,
        }
    }
}

/// The models of this machine.
#[derive(Serialize)]
pub struct LocalModels {
    object: &'static str,
    data: Vec<Value>,
    /// Files that look like models and cannot be loaded.
    problems: Vec<String>,
    /// Null where it is here.
    fetchable: Option<Fetchable>,
    current: Option<String>,
    /// What chooses the model at each start instead of the configuration file.
    fixed: Option<String>,
    /// What sets the context instead of the configuration file.
    fixed_context: Option<String>,
    directory: PathBuf,
    slots: u64,
    memory: Option<MachineMemory>,
    #[serde(flatten)]
    next: ModelMemory,
    devices: Vec<Device>,
    /// By name: those whose memory counts.
    used_devices: Vec<Text>,
    /// Null: as many layers as fit.
    gpu_layers: Option<u64>,
    offload: Option<Offload>,
}

/// A switch of models that was accepted.
#[derive(Serialize)]
struct Switched {
    object: &'static str,
    model: String,
    name: String,
    restarts: bool,
    /// A flag or a variable chooses the model at each start.
    for_this_run: bool,
    from: Origin,
    kv: &'static str,
}

/// The model that the switch replaces.
#[derive(Serialize)]
struct Origin {
    model: String,
    name: String,
    kept: Option<SavedKv>,
}
