//! The model that this daemon runs, as Ollama describes models, and the version of its API.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use hob_models::Summary;
use hob_runtime::Residency;
use hob_slots::Timestamp;
use serde_json::{Map, Value, json};

use super::super::body::JsonBody;
use super::super::upstream::unknown;
use crate::chat::Chat;
use crate::clock::rfc3339;
use crate::error::ApiError;
use crate::models::{Entry, Models, devices};
use crate::profiles::Profiles;
use crate::upstream::{Upstream, context_of, name_of};
use crate::wire::fields::Fields;

/// The release of Ollama whose API these routes follow: clients refuse to talk to older ones. From 0.14 on Ollama answers
/// `/v1/messages` without a token, which hobd does not.
const API_VERSION: &str = "0.13.5";

/// The tag of a name that has none.
const LATEST: &str = ":latest";

/// How Ollama shows that a model stays for ever.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// `GET /api/version`
pub async fn version() -> Json<Value> {
    Json(json!({"version": API_VERSION, "hob": env!("CARGO_PKG_VERSION")}))
}

/// `GET /api/tags`: the running model, as `/v1/models` does. Another one would be answered by it, too.
pub async fn tags(
    State(models): State<Models>,
    State(chat): State<Chat>,
) -> Result<Json<Value>, ApiError> {
    if let Some(upstream) = chat.upstream() {
        return there(upstream, &models).await;
    }
    let about = About::of(&models).await;
    let mut model = about.head(&models);
    model["modified_at"] = rfc3339(about.modified).into();
    Ok(Json(json!({"models": [model]})))
}

/// The models of an engine at another address.
async fn there(upstream: &Upstream, models: &Models) -> Result<Json<Value>, ApiError> {
    let modified_at = rfc3339(models.started);
    let served = upstream.refresh().await?.models;
    let listed: Value = served.iter().map(|model| for_ollama(model, &modified_at)).collect();
    Ok(Json(json!({"models": listed})))
}

/// `GET /api/ps`: the running model, unless its weights are unloaded.
pub async fn running(
    State(models): State<Models>,
    State(profiles): State<Profiles>,
    State(chat): State<Chat>,
) -> Result<Json<Value>, ApiError> {
    if let Some(upstream) = chat.upstream() {
        return there(upstream, &models).await;
    }
    if *models.engine.residency().borrow() == Residency::Unloaded {
        return Ok(Json(json!({"models": []})));
    }
    let about = About::of(&models).await;
    let now = (models.clock)();
    let unload_at = profiles.warm_status().unload_at;
    let mut model = about.head(&models);
    model["expires_at"] = rfc3339(unload_at.unwrap_or(now.after(FOREVER)).max(now)).into();
    model["size_vram"] = on_devices(&models).into();
    model["context_length"] = models.engine.conversation_tokens().into();
    Ok(Json(json!({"models": [model]})))
}

/// `POST /api/show`
pub async fn show(
    State(models): State<Models>,
    State(chat): State<Chat>,
    body: JsonBody,
) -> Result<Json<Value>, ApiError> {
    let fields = Fields::of_body(&body.value)?;
    let name = match fields.string("model")? {
        Some(name) => name,
        None => fields.required_string("name").map_err(|_| missing())?,
    };
    if let Some(upstream) = chat.upstream() {
        return show_there(upstream, name, &models).await;
    }
    if listed(name) != listed(models.name()) {
        let message = format!(
            "model '{}' not found: GET /api/tags lists the one that runs",
            name.escape_debug()
        );
        return Err(ApiError::not_found(message).param("model").code("model_not_found"));
    }
    let about = About::of(&models).await;
    let facts = models.engine.model().facts();
    Ok(Json(json!({
        "modelfile": format!("FROM {}", listed(models.name())),
        "parameters": parameters(&models),
        "template": facts.chat_template.clone().unwrap_or_default(),
        "details": about.details(),
        "model_info": about.info(&models),
        "capabilities": capabilities(&models, &chat),
        "modified_at": rfc3339(about.modified),
    })))
}

async fn show_there(
    upstream: &Upstream,
    name: &str,
    models: &Models,
) -> Result<Json<Value>, ApiError> {
    let served = upstream.refresh().await?.models;
    let found = served.iter().find(|model| listed(name_of(model)) == listed(name));
    let found = found.ok_or_else(|| unknown(upstream))?;
    let mut info = json!({"general.architecture": "upstream"});
    if let Some(tokens) = context_of(found) {
        info["upstream.context_length"] = tokens.into();
    }
    let mut model = for_ollama(found, &rfc3339(models.started));
    Ok(Json(json!({
        "modelfile": format!("FROM {}", listed(name)),
        "parameters": "",
        "template": "",
        "details": model["details"].take(),
        "model_info": info,
        "capabilities": ["completion", "tools"],
        "modified_at": model["modified_at"].take(),
    })))
}

/// A model as Ollama lists it. Its size and its file are unknown here.
fn for_ollama(model: &Value, modified_at: &str) -> Value {
    let name = listed(name_of(model));
    json!({
        "name": name,
        "model": name,
        "modified_at": modified_at,
        "size": 0,
        "digest": "",
        "details": {
            "parent_model": "", "format": "", "family": "", "families": [], "parameter_size": "",
            "quantization_level": "",
        },
    })
}

fn missing() -> ApiError {
    ApiError::field("model", "`model` is required").code("missing")
}

/// A name as Ollama writes it: with a tag.
pub fn listed(name: &str) -> String {
    if name.contains(':') { name.to_owned() } else { format!("{name}{LATEST}") }
}

/// What is known of the running model.
struct About {
    architecture: String,
    parameters: u64,
    size_bytes: u64,
    modified: Timestamp,
    /// Summary of its file; `None` for a fake.
    summary: Option<Summary>,
}

impl About {
    async fn of(models: &Models) -> Self {
        let local = models.local().await;
        let entry = local.entries.iter().find(|entry| entry.is_current);
        let file = entry.and_then(|entry| entry.file.as_ref()).map(|file| &file.model);
        let facts = models.engine.model().facts();
        Self {
            architecture: facts.architecture.clone(),
            parameters: facts.parameters,
            size_bytes: file.map_or(facts.size_bytes, |file| file.size_bytes),
            modified: entry.and_then(modified).unwrap_or(models.started),
            summary: file.map(|file| file.summary.clone()),
        }
    }

    fn head(&self, models: &Models) -> Value {
        let name = listed(models.name());
        json!({
            "name": name,
            "model": name,
            "size": self.size_bytes,
            "digest": models.engine.fingerprint().to_string(),
            "details": self.details(),
        })
    }

    fn details(&self) -> Value {
        json!({
            "parent_model": "",
            "format": "gguf",
            "family": self.architecture,
            "families": [self.architecture],
            "parameter_size": counted(self.parameters),
            "quantization_level":
                self.summary.as_ref().map_or("unknown", |summary| &summary.quantisation),
        })
    }

    /// The context is what a conversation holds, as clients cut their prompts to it.
    fn info(&self, models: &Models) -> Value {
        let mut info = Map::new();
        info.insert("general.architecture".into(), self.architecture.as_str().into());
        info.insert("general.parameter_count".into(), self.parameters.into());
        let mut own = |name: &str, value: Value| {
            info.insert(format!("{}.{name}", self.architecture), value);
        };
        own("context_length", models.engine.conversation_tokens().into());
        own("vocab_size", models.engine.model().vocabulary().len().into());
        if let Some(summary) = &self.summary {
            own("block_count", summary.n_layer.into());
            own("embedding_length", summary.n_embd.into());
            own("attention.head_count", summary.n_head.into());
        }
        info.into()
    }
}

fn modified(entry: &Entry) -> Option<Timestamp> {
    let file = entry.file.as_ref()?;
    let modified = std::fs::metadata(&file.model.path).ok()?.modified().ok()?;
    Some(Timestamp::from(modified))
}

/// Bytes of the weights that are on devices.
fn on_devices(models: &Models) -> u64 {
    let size = models.engine.model().facts().size_bytes;
    let share = |layers: u64, all: u64| size / all.max(1) * layers;
    devices::offload_of(models.engine.model().as_ref())
        .map_or(0, |offload| share(offload.layers as u64, offload.all_layers as u64))
}

/// The sampling parameters that the model's file recommends, as a Modelfile has them.
fn parameters(models: &Models) -> String {
    let sampling = models.catalogue.current().sampling.to_json();
    let sampling = sampling.as_object().into_iter().flatten();
    sampling.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join("\n")
}

/// By the marks that chat templates of reasoning models have.
const THINK_MARKS: [&str; 4] = ["<think>", "enable_thinking", "reasoning_effort", "<|channel|>"];

fn capabilities(models: &Models, chat: &Chat) -> Vec<&'static str> {
    let facts = models.engine.model().facts();
    if facts.pooling.is_some() {
        return vec!["embedding"];
    }
    let template = facts.chat_template.as_deref().unwrap_or_default();
    let thinks = THINK_MARKS.iter().any(|mark| template.contains(mark));
    let has = [
        (true, "completion"),
        (chat.supports_tools(), "tools"),
        (thinks, "thinking"),
        (chat.supports_suffix(), "insert"),
    ];
    has.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect()
}

/// A number of parameters, such as `1.7B`.
fn counted(parameters: u64) -> String {
    let count = parameters as f64;
    match parameters {
        0..1_000 => parameters.to_string(),
        1_000..1_000_000 => format!("{:.2}K", count / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2}M", count / 1e6),
        _ => format!("{:.1}B", count / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_tag_and_parameters_a_unit() {
        assert_eq!(
            (listed("qwen3"), listed("qwen3:0.6b")),
            ("qwen3:latest".into(), "qwen3:0.6b".into())
        );
        let counts = [7, 494_032_768, 8_030_261_248].map(counted);
        assert_eq!(counts, ["7", "494.03M", "8.0B"]);
    }
}
