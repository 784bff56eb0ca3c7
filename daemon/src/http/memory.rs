//! `/v1/memory`: what memory and disk hold, and the map of the KV cells, block by block.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use hob_api::{Device, Offload};
use hob_models::MachineMemory;
use hob_prewarm::ProfileName;
use hob_runtime::map::{BlockMap, Eviction, SlotMap};
use hob_runtime::{CacheMap, Engine};
use hob_slots::{BLOCK_TOKENS, ConversationId};
use serde::Serialize;

use super::sse;
use crate::blocking::compute;
use crate::conversations::Conversations;
use crate::error::ApiError;
use crate::models::{Models, devices};
use crate::storage::Storage;
use crate::storage::usage::{self, CellWatch, DiskUse};

/// The shown part of a block's hash.
const ID_DIGITS: usize = 12;

/// `GET /v1/memory`
pub async fn memory(
    State(storage): State<Storage>,
    State(models): State<Models>,
) -> Result<Json<Memory>, ApiError> {
    let usage::Memory { machine, weights_bytes, status, cells_bytes, bytes_per_token, disk } =
        storage.memory().await?;
    Ok(Json(Memory {
        object: "memory",
        machine,
        devices: compute(devices::here).await,
        offload: devices::offload_of(models.engine.model().as_ref()),
        model: Model {
            name: models.name().to_owned(),
            weights_bytes,
            residency: status.residency.as_str(),
        },
        cells: Cells {
            tokens: status.context_tokens,
            used_tokens: status.used_tokens,
            bytes_per_token,
            bytes: cells_bytes,
            used_bytes: bytes_per_token.map(|bytes| bytes * status.used_tokens as u64),
        },
        warm: Warm { bytes: status.memory_bytes, budget_bytes: status.memory_budget_bytes },
        disk,
    }))
}

/// Memory and disk use.
#[derive(Serialize)]
pub struct Memory {
    object: &'static str,
    machine: Option<MachineMemory>,
    devices: Vec<Device>,
    offload: Option<Offload>,
    model: Model,
    cells: Cells,
    warm: Warm,
    /// `None`: no KV on disk.
    disk: Option<DiskUse>,
}

#[derive(Serialize)]
struct Model {
    name: String,
    weights_bytes: u64,
    residency: &'static str,
}

#[derive(Serialize)]
struct Cells {
    tokens: usize,
    used_tokens: usize,
    /// `None` where cells differ in size.
    bytes_per_token: Option<u64>,
    bytes: Option<u64>,
    used_bytes: Option<u64>,
}

/// KV in host memory.
#[derive(Serialize)]
struct Warm {
    bytes: u64,
    budget_bytes: u64,
}

/// `GET /v1/memory/map`
pub async fn map(
    State(storage): State<Storage>,
    State(conversations): State<Conversations>,
) -> Result<Response, ApiError> {
    let map = NamedMap::of(storage.cells().await?, &conversations).await?;
    let mut response = Response::new(map.to_json(&conversations.engine).into());
    let json = axum::http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(axum::http::header::CONTENT_TYPE, json);
    Ok(response)
}

/// `GET /v1/memory/events`
pub async fn events(
    State(storage): State<Storage>,
    State(conversations): State<Conversations>,
) -> Response {
    sse::stream(Maps { watch: storage.watch_cells(), conversations })
}

struct Maps {
    watch: CellWatch,
    conversations: Conversations,
}

impl sse::Source for Maps {
    type Object = String;

    async fn next(&mut self) -> Option<String> {
        let map = NamedMap::of(self.watch.next().await?, &self.conversations).await.ok()?;
        Some(map.to_json(&self.conversations.engine))
    }
}

/// The map of the cells, with the titles of its conversations.
struct NamedMap {
    map: CacheMap,
    titles: BTreeMap<ConversationId, String>,
}

impl NamedMap {
    async fn of(map: CacheMap, conversations: &Conversations) -> Result<Self, ApiError> {
        let slots = map.slots.iter().filter_map(|slot| slot.conversation.clone());
        let evicted = map.left.iter().filter_map(|eviction| eviction.conversation.clone());
        let mut read = conversations.transcript.titles(slots.chain(evicted).collect());
        let titles = read.done().await?.into_iter().collect();
        Ok(Self { map, titles })
    }

    /// Serialized without a tree of values: there may be thousands of blocks.
    fn to_json(&self, engine: &Engine) -> String {
        let map = Map {
            object: "memory.map",
            fingerprint: engine.fingerprint().to_string(),
            context_tokens: engine.context_tokens(),
            used_tokens: self.map.used_tokens,
            block_tokens: BLOCK_TOKENS,
            slots: self.map.slots.iter().map(|slot| Slot::of(slot, self)).collect(),
            events: self.map.left.iter().map(|eviction| Event::of(eviction, self)).collect(),
        };
        serde_json::to_string(&map).expect("texts and numbers serialize")
    }
}

#[derive(Serialize)]
struct Map<'a> {
    object: &'static str,
    fingerprint: String,
    context_tokens: usize,
    used_tokens: usize,
    block_tokens: usize,
    slots: Vec<Slot<'a>>,
    events: Vec<Event<'a>>,
}

#[derive(Serialize)]
struct Slot<'a> {
    slot: u32,
    kind: &'static str,
    conversation: Option<&'a str>,
    title: Option<&'a str>,
    profile: Option<String>,
    state: &'static str,
    tokens: usize,
    prompt_tokens: Option<usize>,
    blocks: Vec<Block<'a>>,
}

#[derive(Serialize)]
struct Block<'a> {
    start: usize,
    end: usize,
    layer: Option<&'static str>,
    key: Option<&'a str>,
    origin: &'static str,
    id: String,
    sharers: usize,
}

#[derive(Serialize)]
struct Event<'a> {
    at: u64,
    conversation: Option<&'a str>,
    title: Option<&'a str>,
    tokens: usize,
    to: &'static str,
    why: &'static str,
}

impl<'a> Slot<'a> {
    fn of(slot: &'a SlotMap, named: &'a NamedMap) -> Self {
        let conversation = slot.conversation.as_ref();
        let profile = conversation.and_then(ProfileName::of_prefix);
        Self {
            slot: slot.slot.0,
            kind: if slot.prefix { "prefix" } else { "conversation" },
            conversation: conversation.map(|id| id.as_str()),
            title: conversation.and_then(|id| named.titles.get(id)).map(String::as_str),
            profile: profile.map(|profile| profile.as_str().to_owned()),
            state: slot.state.as_str(),
            tokens: slot.tokens,
            prompt_tokens: slot.prompt_tokens,
            blocks: slot.blocks.iter().map(Block::of).collect(),
        }
    }
}

impl<'a> Block<'a> {
    fn of(block: &'a BlockMap) -> Self {
        let mut id = block.id.to_string();
        id.truncate(ID_DIGITS);
        Self {
            start: block.range.start,
            end: block.range.end,
            layer: block.layer.map(|layer| layer.as_str()),
            key: block.key.as_deref(),
            origin: if block.is_away { "away" } else { block.origin.as_str() },
            id,
            sharers: block.sharers,
        }
    }
}

impl<'a> Event<'a> {
    fn of(left: &'a Eviction, named: &'a NamedMap) -> Self {
        let conversation = left.conversation.as_ref();
        Self {
            at: left.at.0 / 1000,
            conversation: conversation.map(|id| id.as_str()),
            title: conversation.and_then(|id| named.titles.get(id)).map(String::as_str),
            tokens: left.tokens,
            to: left.to.as_str(),
            why: left.why.as_str(),
        }
    }
}
