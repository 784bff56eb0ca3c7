//! `/health`, `/metrics`, `/v1/status` and `/v1/stats`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use hob_api::Status;
use hob_api::status::{
    Adapter, Counters, DiskQuota, DraftModel, LossyTier, Mtp, Parked, Prefix, Profile,
    ProfileReuse, RecallModel, Slot, Upstream,
};
use hob_config::ModelChoice;
use hob_runtime::adapters::AdapterFile;
use hob_runtime::{
    DraftModelCounters, EngineCounters, Health, LossyStatus, MtpCounters, MtpStatus, SavedStatus,
    SlotStatus,
};
use hob_slots::ConversationId;
use serde_json::{Value, json};

use super::Shared;
use crate::blocking::compute;
use crate::bridge::Bridge;
use crate::chat::Chat;
use crate::chat::reuse_guard::{ReuseGuard, Watched};
use crate::conversations::Conversations;
use crate::conversations::readiness::Readiness;
use crate::engine_status::engine_status;
use crate::error::ApiError;
use crate::metrics::{Gauges, Metrics};
use crate::models::{CurrentDraftModel, CurrentRecallModel, Models, devices};
use crate::parts::Parts;
use crate::profiles::status::PrefixStatus;
use crate::profiles::{ProfileStatus, Profiles};
use crate::storage::quota;
use crate::upstream::{context_of, name_of};

/// `GET /health`: needs no token, and does not wait for the engine.
pub async fn health(
    State(models): State<Models>,
    State(chat): State<Chat>,
) -> (StatusCode, Json<Value>) {
    if let Some(upstream) = chat.upstream() {
        return match upstream.refresh().await {
            Ok(_) => (StatusCode::OK, Json(json!({"status": "ok"}))),
            Err(error) => {
                let down = json!({"status": "upstream", "reason": error.to_string()});
                (StatusCode::SERVICE_UNAVAILABLE, Json(down))
            }
        };
    }
    match models.engine.health() {
        Health::Ok => (StatusCode::OK, Json(json!({"status": "ok"}))),
        Health::Loading { percent } => {
            (StatusCode::OK, Json(json!({"status": "loading", "loaded_percent": percent})))
        }
        Health::Unloaded => (StatusCode::OK, Json(json!({"status": "unloaded"}))),
        Health::Dead(death) => {
            let dead = json!({"status": "dead", "reason": death.to_string()});
            (StatusCode::SERVICE_UNAVAILABLE, Json(dead))
        }
    }
}

/// `GET /metrics`
pub async fn metrics(
    State(metrics): State<Arc<Metrics>>,
    State(models): State<Models>,
    State(profiles): State<Profiles>,
    State(conversations): State<Conversations>,
    State(chat): State<Chat>,
) -> Result<impl IntoResponse, ApiError> {
    let status = models.engine.cell_status().await?;
    let in_use = status.slots.iter().filter(|slot| slot.conversation.is_some()).count();
    let page = metrics.render(
        Gauges {
            queue: status.waiting as u64,
            slots: status.slots.len() as u64,
            slots_in_use: in_use as u64,
            warm_bytes: status.memory_bytes,
            memory: status.memory,
            wasted_restores: status.counters.wasted_restores,
            written_bytes: status.counters.written_bytes,
            read_bytes: status.counters.read_bytes,
            read_ahead_bytes: status.counters.read_ahead_bytes,
            write_errors: status.counters.write_errors,
            rejected_files: status.counters.rejected_files,
            lost_blocks: status.counters.lost_blocks,
            longest_lock_micros: status.counters.longest_lock_micros,
            tier_panics: status.counters.tier_panics,
            dropped_tokens: status.counters.dropped_tokens,
            indexed: [status.counters.indexed_ahead, status.counters.indexed_late],
            embedded: status.counters.embedded,
            profiles_fallen_back: chat.reuse_guard().fallen_back(&profiles.names()) as u64,
            shared: conversations.sharing.as_ref().map(|sharing| sharing.tier().figures()),
        },
        &profiles.warm_status(),
    );
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], page))
}

/// `GET /v1/stats`
pub async fn stats(
    State(metrics): State<Arc<Metrics>>,
    State(models): State<Models>,
) -> Result<Json<Value>, ApiError> {
    let status = models.engine.cell_status().await?;
    let tokens = metrics.prompt_tokens();
    let (prompt, reused) = (tokens.prompt(), tokens.cached());
    Ok(Json(json!({
        "object": "stats",
        "turns": status.counters.turns,
        "prompt_tokens": {
            "all": prompt,
            "shared": tokens.shared,
            "memory": tokens.memory,
            "disk": tokens.disk,
            "away": tokens.away,
            "moved": tokens.moved,
            "computed": tokens.computed,
            "repaired": tokens.repaired,
            "lossy": tokens.lossy,
        },
        "reused": (prompt > 0).then(|| reused as f64 / prompt as f64),
        "generated_tokens": metrics.generated_tokens(),
        "written_bytes": status.counters.written_bytes,
        "read_bytes": status.counters.read_bytes,
        "memory_bytes": status.memory_bytes,
    })))
}

/// `GET /v1/status`
pub async fn status(State(shared): State<Shared>) -> Result<Json<Status>, ApiError> {
    let Parts { models, chat, profiles, speech, storage, conversations, bridge, metrics, .. } =
        shared.parts;
    let current = models.catalogue.current();
    let status = engine_status(&models.engine).await?;
    let speed = conversations.prefill_speed(&status).await?;
    let readiness = conversations.slot_readiness(&status, speed).await?;
    let prefixes = profiles.prefixes(&status).await;
    let list = profiles.list().await;
    let devices = compute(devices::here).await;
    let there = match chat.upstream() {
        Some(upstream) => Some(EngineThere::ask(upstream).await),
        None => None,
    };
    // No turn uses the cells of the placeholder model.
    let (context_tokens, conversation_tokens, slots) = match &there {
        Some(there) => (there.conversation_tokens, there.conversation_tokens, Vec::new()),
        None => (status.context_tokens, models.engine.conversation_tokens(), status.slots),
    };
    let upstream = there.map(|there| there.upstream);
    let mut counters = counters(status.counters);
    if upstream.is_some() {
        // The engine there has none of this daemon's.
        counters.turns = metrics.forwarded_answers();
        counters.generated_tokens = metrics.generated_tokens();
    }
    Ok(Json(Status {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        started_at: models.started.0 / 1000,
        model: match upstream.as_ref().and_then(|upstream| upstream.models.first()) {
            Some(served) => served.clone(),
            None => models.name().to_owned(),
        },
        demo: upstream.is_none() && current.choice == ModelChoice::Bundled,
        upstream,
        device_bridge: bridge.as_ref().map(Bridge::to_api),
        sampling: current.sampling.to_json(),
        fingerprint: Some(models.engine.fingerprint()),
        recognizer: speech.can_transcribe(),
        recognizer_stream: speech.stream_recognizer().is_some(),
        voice: speech.can_speak(),
        switch_error: models.catalogue.failure(),
        crashes: models.crashes.count,
        crash: models.crashes.last.as_ref().map(|crash| crash.reason.clone().into()),
        crash_at: models.crashes.last.as_ref().and_then(|crash| crash.at),
        residency: status.residency.as_str().into(),
        loaded_percent: status.residency.loaded_percent(),
        context_tokens,
        conversation_tokens,
        context_limit: current.context.limit.as_str().into(),
        trained_tokens: Some(models.engine.model().facts().trained_context).filter(|it| *it > 0),
        build: devices::built(),
        devices,
        offload: devices::offload_of(models.engine.model().as_ref()),
        draft_model: current.draft_model.as_ref().map(|it| {
            draft_model(it, status.draft_failure, status.draft_model.unwrap_or_default())
        }),
        mtp: status.mtp.map(mtp),
        recall_model: current.recall_model.as_ref().map(recall_model),
        slots_lossy: status.lossy.map(lossy_tier),
        slots: slots.into_iter().map(|it| slot(it, &readiness)).collect(),
        parked: status.parked.into_iter().map(|saved| parked(saved, speed)).collect(),
        profiles: list.into_iter().map(|it| profile(it, chat.reuse_guard())).collect(),
        prefixes: prefixes.into_iter().map(prefix).collect(),
        answering: chat.detached().conversations(),
        changes: conversations.transcript.changes(),
        queue: status.waiting,
        memory_bytes: status.memory_bytes,
        memory_budget_bytes: status.memory_budget_bytes,
        unsaved_bytes: status.unsaved_bytes,
        unsaved_budget_bytes: status.unsaved_budget_bytes,
        disk_quota: disk_quota(storage.quota()),
        shared: conversations.sharing.as_ref().map(|sharing| sharing.tier().to_api()),
        prefill_tokens_per_second: status.prefill_tokens_per_second,
        counters,
    }))
}

/// The engine at another address, as it is now.
struct EngineThere {
    upstream: Upstream,
    /// What a conversation holds there at most; 0: it does not say, or cannot be asked.
    conversation_tokens: usize,
}

impl EngineThere {
    async fn ask(upstream: &crate::upstream::Upstream) -> Self {
        let url = upstream.url().to_owned();
        match upstream.refresh().await {
            Ok(served) => {
                let models = served.models.iter().map(|model| name_of(model).to_owned()).collect();
                let engine = served.kind.as_str().into();
                Self {
                    upstream: Upstream { url, engine, models, error: None },
                    conversation_tokens: served.models.first().and_then(context_of).unwrap_or(0),
                }
            }
            Err(error) => {
                let error = Some(error.to_string().into());
                let upstream = Upstream { url, error, ..Upstream::default() };
                Self { upstream, conversation_tokens: 0 }
            }
        }
    }
}

fn slot(slot: SlotStatus, readiness: &BTreeMap<ConversationId, Readiness>) -> Slot {
    let SlotStatus { slot, conversation, adapters, tokens, away_tokens, state } = slot;
    let adapter = |it: &AdapterFile| Adapter { id: it.name.clone(), scale: it.lora.scale };
    let lora = adapters.files().iter().map(adapter).collect();
    let next = conversation.as_ref().and_then(|id| readiness.get(id));
    let (ready, read_ms) = (next.map(|next| next.ready), next.and_then(|next| next.read_ms));
    let (slot, state) = (slot.0, state.as_str().into());
    Slot { slot, conversation, lora, tokens, away_tokens, state, ready, read_ms }
}

fn parked(saved: SavedStatus, speed: Option<f64>) -> Parked {
    let tier = saved.tier().name().into();
    let SavedStatus { conversation, tokens, memory_tokens, disk_tokens } = saved;
    let Readiness { ready, read_ms } =
        Readiness::of(Some(tokens), memory_tokens + disk_tokens, speed);
    let ready = Some(ready);
    Parked { conversation, tokens, tier, memory_tokens, disk_tokens, ready, read_ms }
}

/// `failure`: why it has no context.
fn draft_model(
    current: &CurrentDraftModel,
    failure: Option<String>,
    counters: DraftModelCounters,
) -> DraftModel {
    let DraftModelCounters { drafted_tokens, accepted_tokens, computed_tokens, restored_tokens } =
        counters;
    DraftModel {
        name: current.name.clone(),
        fingerprint: current.fingerprint,
        refused: current.refused.clone().or(failure).map(Into::into),
        drafted_tokens,
        accepted_tokens,
        computed_tokens,
        restored_tokens,
    }
}

fn mtp(heads: MtpStatus) -> Mtp {
    let MtpStatus { refused, counters } = heads;
    let MtpCounters { drafted_tokens, accepted_tokens, computed_tokens } = counters;
    Mtp { refused: refused.map(Into::into), drafted_tokens, accepted_tokens, computed_tokens }
}

fn recall_model(current: &CurrentRecallModel) -> RecallModel {
    RecallModel { name: current.name.clone(), refused: current.refused.clone().map(Into::into) }
}

fn lossy_tier(lossy: LossyStatus) -> LossyTier {
    let LossyStatus { tier, refused } = lossy;
    LossyTier { tier: tier.as_str().into(), refused: refused.map(Into::into) }
}

fn disk_quota(quota: &quota::DiskQuota) -> DiskQuota {
    let set = quota.as_set();
    DiskQuota {
        set_bytes: set.quota.set_bytes(),
        origin: set.origin.into(),
        no_room: quota.no_room().map(|no_room| no_room.to_string().into()),
    }
}

fn profile(profile: ProfileStatus, guard: &ReuseGuard) -> Profile {
    let ProfileStatus { name, ttl, tokens, sampling, prefix, tail, error } = profile;
    let watched = name.parse().ok().and_then(|name| guard.watched(&name));
    let reuse = watched.map(|Watched { answers, samples, likeness, fell_back }| ProfileReuse {
        answers,
        samples,
        agreement: likeness.agreement(),
        divergence: likeness.mean_divergence(),
        fell_back,
    });
    Profile { name, ttl, tokens, sampling, prefix, tail, error, reuse }
}

fn prefix(prefix: PrefixStatus) -> Prefix {
    let warmed = prefix.warmed;
    Prefix {
        profile: prefix.profile.as_str().to_owned(),
        state: prefix.state.as_str().into(),
        place: prefix.place.into(),
        tokens: warmed.map(|warmed| warmed.from.tokens()),
        how: warmed.map(|warmed| warmed.from.main().as_str().into()),
        computed_tokens: warmed.map(|warmed| warmed.from.computed),
        warmed_at: warmed.map(|warmed| warmed.at.0 / 1000),
        touched_at: warmed.map(|warmed| warmed.touched.0 / 1000),
        error: prefix.error,
    }
}

fn counters(counters: EngineCounters) -> Counters {
    Counters {
        turns: counters.turns,
        cancelled: counters.cancelled,
        failed: counters.failed,
        generated_tokens: counters.generated_tokens,
        drafted_tokens: counters.drafted_tokens,
        accepted_tokens: counters.accepted_tokens,
        computed_tokens: counters.computed_tokens,
        moved_tokens: counters.moved_tokens,
        repaired_tokens: counters.repaired_tokens,
        lossy_tokens: counters.lossy_tokens,
        blocks_out: counters.blocks_out,
        blocks_back: counters.blocks_back,
        prewarmed: counters.prewarmed,
        superseded: counters.superseded,
        parked: counters.parked,
        preempted: counters.preempted,
        import_failures: counters.import_failures,
        wasted_restores: counters.wasted_restores,
        written_bytes: counters.written_bytes,
        read_bytes: counters.read_bytes,
        write_errors: counters.write_errors,
        rejected_files: counters.rejected_files,
        lost_blocks: counters.lost_blocks,
        tier_panics: counters.tier_panics,
        dropped_tokens: counters.dropped_tokens,
    }
}
