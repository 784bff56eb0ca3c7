//! `/health`, `/metrics` and `/v1/status`.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::metrics::Gauges;
use crate::service::{ProfileStatus, SegmentStatus, Service};

/// `GET /health`: the one thing that everybody may know.
pub async fn health() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// `GET /metrics`
pub async fn metrics(State(service): State<Service>) -> Result<impl IntoResponse, ApiError> {
    let status = service.engine().status().await?;
    let in_use = status.slots.iter().filter(|slot| slot.conversation.is_some()).count();
    let page = service.metrics().render(Gauges {
        queue: status.waiting as u64,
        slots: status.slots.len() as u64,
        slots_in_use: in_use as u64,
        warm_bytes: status.memory_bytes,
        wasted_restores: status.counters.wasted_restores,
        written_bytes: status.counters.written_bytes,
        read_bytes: status.counters.read_bytes,
        write_errors: status.counters.write_errors,
        rejected_files: status.counters.rejected_files,
    });
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], page))
}

/// `GET /v1/status`
pub async fn status(State(service): State<Service>) -> Result<Json<Value>, ApiError> {
    let status = service.engine().status().await?;
    let slots: Vec<Value> = status
        .slots
        .iter()
        .map(|slot| {
            json!({
                "slot": slot.slot.0,
                "conversation": slot.conversation,
                "tokens": slot.tokens,
                "state": slot.state.as_str(),
            })
        })
        .collect();
    let parked: Vec<Value> = status
        .parked
        .iter()
        .map(|(conversation, tokens)| json!({"conversation": conversation, "tokens": tokens}))
        .collect();
    let profiles: Vec<Value> = service.profiles().await.iter().map(profile).collect();
    let counters = status.counters;
    Ok(Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "started_at": service.started().0 / 1000,
        "model": service.model_name(),
        "fingerprint": service.engine().fingerprint().to_string(),
        "context_tokens": status.context_tokens,
        "slots": slots,
        "parked": parked,
        "profiles": profiles,
        "queue": status.waiting,
        "memory_bytes": status.memory_bytes,
        "memory_budget_bytes": status.memory_budget_bytes,
        "prefill_tokens_per_second": status.prefill_tokens_per_second,
        "counters": {
            "turns": counters.turns,
            "cancelled": counters.cancelled,
            "failed": counters.failed,
            "generated_tokens": counters.generated_tokens,
            "computed_tokens": counters.computed_tokens,
            "parked": counters.parked,
            "preempted": counters.preempted,
            "import_failures": counters.import_failures,
            "wasted_restores": counters.wasted_restores,
            "written_bytes": counters.written_bytes,
            "read_bytes": counters.read_bytes,
            "write_errors": counters.write_errors,
            "rejected_files": counters.rejected_files,
        },
    })))
}

fn profile(profile: &ProfileStatus) -> Value {
    json!({
        "name": profile.name,
        "ttl": profile.ttl,
        "tokens": profile.tokens,
        "segments": profile.segments.iter().map(segment).collect::<Vec<_>>(),
        "error": profile.error,
    })
}

fn segment(segment: &SegmentStatus) -> Value {
    json!({"layer": segment.layer, "key": segment.key, "stable": segment.stable})
}
