//! `/v1/slots/verify` and `/v1/slots/quarantine`: what is damaged, and what became of it.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use hob_slots::maintenance::Collect;
use hob_slots::verify::Fault;
use hob_slots::{ConversationId, ModelHash, Quarantined};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::JsonBody;
use super::query::Query;
use super::slots::{Of, parsed};
use super::sse;
use crate::error::ApiError;
use crate::service::{Service, Told, Verification, Verified};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Verify {
    fingerprint: Option<ModelHash>,
    conversation: Option<ConversationId>,
}

/// `POST /v1/slots/verify`
pub async fn verify(State(service): State<Service>, body: JsonBody) -> Result<Response, ApiError> {
    let Verify { fingerprint, conversation } = parsed(body)?;
    Ok(sse::stream(Words(service.verify(fingerprint, conversation).await?)))
}

struct Words(Verification);

impl sse::Source for Words {
    type Object = Value;

    async fn next(&mut self) -> Option<Value> {
        Some(match self.0.next().await? {
            Ok(Told::Progress(progress)) => json!({
                "done_bytes": progress.done_bytes, "total_bytes": progress.total_bytes,
            }),
            Ok(Told::Done(verified)) => whole(&verified),
            Err(error) => error.to_json(),
        })
    }
}

fn whole(verified: &Verified) -> Value {
    let fault = |fault: &Fault| {
        json!({
            "path": fault.file.path.to_string_lossy(),
            "fingerprint": fault.file.model,
            "bytes": fault.file.bytes,
            "reason": fault.reason,
            "damaged": fault.condemned,
        })
    };
    json!({
        "done_bytes": verified.bytes,
        "total_bytes": verified.bytes,
        "result": {
            "files": verified.files,
            "bytes": verified.bytes,
            "whole": verified.faults.is_empty() && verified.costs.is_empty(),
            "faults": verified.faults.iter().map(fault).collect::<Vec<_>>(),
            "costs": verified.costs,
            "quarantined": verified.quarantined,
        },
    })
}

/// `GET /v1/slots/quarantine`
pub async fn quarantine(
    State(service): State<Service>,
    Query(of): Query<Of>,
) -> Result<Json<Value>, ApiError> {
    let files = service.quarantine(of.fingerprint).await?;
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let data: Vec<Value> = files.iter().map(described).collect();
    Ok(Json(json!({"object": "list", "data": data, "bytes": bytes})))
}

fn described(file: &Quarantined) -> Value {
    let secs =
        |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let name = file.path.file_name().unwrap_or(file.path.as_os_str());
    json!({
        "file": name.to_string_lossy(),
        "fingerprint": file.model,
        "reason": file.reason,
        "bytes": file.bytes,
        "since": file.since.map(secs),
        "written_at": secs(file.written),
    })
}

/// `POST /v1/slots/quarantine/empty`
pub async fn empty(
    State(service): State<Service>,
    body: JsonBody,
) -> Result<Json<Value>, ApiError> {
    let Collect { fingerprint, dry_run } = parsed(body)?;
    let (files, freed_bytes) = service.empty_quarantine(fingerprint, dry_run).await?;
    Ok(Json(json!({"dry_run": dry_run, "files": files, "freed_bytes": freed_bytes})))
}
