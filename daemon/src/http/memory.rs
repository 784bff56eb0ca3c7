//! `/v1/memory`: what the machine's memory holds, and a map of the cells, block by block.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use hob_prewarm::ProfileName;
use hob_runtime::map::{BlockMap, Eviction, SlotMap};
use hob_slots::BLOCK_TOKENS;
use serde::Serialize;
use serde_json::{Value, json};

use super::sse;
use crate::error::ApiError;
use crate::service::{CellWatch, NamedMap, Service};

/// Of a block's name: enough to tell blocks apart.
const ID_DIGITS: usize = 12;

/// `GET /v1/memory`
pub async fn memory(State(service): State<Service>) -> Result<Json<Value>, ApiError> {
    let memory = service.memory().await?;
    let status = &memory.status;
    let used_bytes = memory.bytes_per_token.map(|bytes| bytes * status.used_tokens as u64);
    Ok(Json(json!({
        "object": "memory",
        "machine": memory.machine,
        "model": {
            "name": service.model_name(),
            "weights_bytes": memory.weights_bytes,
            "residency": status.residency.as_str(),
        },
        "cells": {
            "tokens": status.context_tokens,
            "used_tokens": status.used_tokens,
            "bytes_per_token": memory.bytes_per_token,
            "bytes": memory.cells_bytes,
            "used_bytes": used_bytes,
        },
        "warm": {"bytes": status.memory_bytes, "budget_bytes": status.memory_budget_bytes},
        "disk": memory.disk.map(|disk| json!({
            "bytes": disk.bytes,
            "quota_bytes": disk.quota_bytes,
            "free_bytes": disk.free_bytes,
        })),
    })))
}

/// `GET /v1/memory/map`
pub async fn map(State(service): State<Service>) -> Result<Response, ApiError> {
    let written = written(&service, &service.cells().await?);
    let mut response = Response::new(written.into());
    let json = axum::http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(axum::http::header::CONTENT_TYPE, json);
    Ok(response)
}

/// `GET /v1/memory/events`
pub async fn events(State(service): State<Service>) -> Response {
    let watch = service.watch_cells();
    sse::stream(Maps { service, watch })
}

struct Maps {
    service: Service,
    watch: CellWatch,
}

impl sse::Source for Maps {
    type Object = String;

    async fn next(&mut self) -> Option<String> {
        Some(written(&self.service, &self.watch.next().await?))
    }
}

/// Written without a tree of values in between: there may be thousands of blocks.
fn written(service: &Service, named: &NamedMap) -> String {
    let map = Map {
        object: "memory.map",
        fingerprint: service.engine().fingerprint().to_string(),
        context_tokens: service.engine().context_tokens(),
        used_tokens: named.map.used_tokens,
        block_tokens: BLOCK_TOKENS,
        slots: named.map.slots.iter().map(|slot| Slot::of(slot, named)).collect(),
        events: named.map.left.iter().map(|left| Event::of(left, named)).collect(),
    };
    serde_json::to_string(&map).expect("texts and numbers can be written")
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
            origin: block.origin.as_str(),
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
