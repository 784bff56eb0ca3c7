//! `/health`, `/metrics` and `/v1/status`.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::metrics::Gauges;
use crate::service::{PrefixStatus, ProfileStatus, Service};

/// `GET /health`: the one thing that everybody may know.
pub async fn health() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// `GET /metrics`
pub async fn metrics(State(service): State<Service>) -> Result<impl IntoResponse, ApiError> {
    let status = service.engine().status().await?;
    let in_use = status.slots.iter().filter(|slot| slot.conversation.is_some()).count();
    let page = service.metrics().render(
        Gauges {
            queue: status.waiting as u64,
            slots: status.slots.len() as u64,
            slots_in_use: in_use as u64,
            warm_bytes: status.memory_bytes,
            wasted_restores: status.counters.wasted_restores,
            written_bytes: status.counters.written_bytes,
            read_bytes: status.counters.read_bytes,
            write_errors: status.counters.write_errors,
            rejected_files: status.counters.rejected_files,
        },
        &service.warm_status(),
    );
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
    let prefixes: Vec<Value> = service.prefixes(&status).await.iter().map(prefix).collect();
    let profiles: Vec<Value> = service.profiles().await.iter().map(profile).collect();
    let counters = status.counters;
    Ok(Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "started_at": service.started().0 / 1000,
        "model": service.model_name(),
        "fingerprint": service.engine().fingerprint().to_string(),
        "recognizer": service.recognizes_speech(),
        "switch_error": service.catalogue().options().failure,
        "residency": status.residency.as_str(),
        "loaded_percent": status.residency.loaded_percent(),
        "context_tokens": status.context_tokens,
        "slots": slots,
        "parked": parked,
        "profiles": profiles,
        "prefixes": prefixes,
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
            "prewarmed": counters.prewarmed,
            "superseded": counters.superseded,
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

/// Flat, so that a table can show it.
fn prefix(prefix: &PrefixStatus) -> Value {
    let warmed = prefix.warmed;
    json!({
        "profile": prefix.profile.as_str(),
        "state": prefix.state.as_str(),
        "place": prefix.place,
        "tokens": warmed.map(|warmed| warmed.from.tokens()),
        "how": warmed.map(|warmed| warmed.from.how().as_str()),
        "computed_tokens": warmed.map(|warmed| warmed.from.computed),
        "warmed_at": warmed.map(|warmed| warmed.at.0 / 1000),
        "touched_at": warmed.map(|warmed| warmed.touched.0 / 1000),
        "error": prefix.error,
    })
}

fn profile(profile: &ProfileStatus) -> Value {
    json!({
        "name": profile.name,
        "ttl": profile.ttl,
        "tokens": profile.tokens,
        "prefix": profile.prefix,
        "tail": profile.tail,
        "error": profile.error,
    })
}
