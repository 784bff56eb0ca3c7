//! `/v1/slots/verify` and `/v1/slots/quarantine`: damaged files.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use hob_slots::maintenance::Collect;
use hob_slots::verify::{Cost, Fault};
use hob_slots::{ConversationId, ModelHash, Quarantined};
use serde::{Deserialize, Serialize};

use super::body::JsonBody;
use super::query::Query;
use super::slots::{ModelQuery, parsed};
use super::sse;
use crate::error::ApiError;
use crate::storage::Storage;
use crate::storage::verify::{Progress, Verification, Verified, VerifyEvent};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Verify {
    fingerprint: Option<ModelHash>,
    conversation: Option<ConversationId>,
}

/// `POST /v1/slots/verify`
pub async fn verify(State(storage): State<Storage>, body: JsonBody) -> Result<Response, ApiError> {
    let Verify { fingerprint, conversation } = parsed(body)?;
    Ok(sse::stream(VerifyEvents(storage.verify(fingerprint, conversation).await?)))
}

struct VerifyEvents(Verification);

impl sse::Source for VerifyEvents {
    type Object = String;

    async fn next(&mut self) -> Option<String> {
        let event = match self.0.next().await? {
            Ok(VerifyEvent::Progress(progress)) => Event::of(progress),
            Ok(VerifyEvent::Done(verified)) => Event::done(verified),
            Err(error) => return Some(error.to_json().to_string()),
        };
        Some(serde_json::to_string(&event).expect("texts and numbers are JSON"))
    }
}

#[derive(Serialize)]
struct Event {
    done_bytes: u64,
    total_bytes: u64,
    /// In the last event.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Outcome>,
}

#[derive(Serialize)]
struct Outcome {
    files: usize,
    bytes: u64,
    whole: bool,
    faults: Vec<FaultView>,
    costs: Vec<Cost>,
    quarantined: usize,
}

#[derive(Serialize)]
struct FaultView {
    path: String,
    fingerprint: ModelHash,
    bytes: u64,
    reason: String,
    /// Whether no reader will ever be able to use it; else it could not be read this time.
    damaged: bool,
}

impl Event {
    fn of(progress: Progress) -> Self {
        let Progress { done_bytes, total_bytes } = progress;
        Self { done_bytes, total_bytes, result: None }
    }

    fn done(verified: Verified) -> Self {
        let Verified { files, bytes, faults, costs, quarantined } = verified;
        let whole = faults.is_empty() && costs.is_empty();
        let faults = faults.into_iter().map(FaultView::of).collect();
        let result = Some(Outcome { files, bytes, whole, faults, costs, quarantined });
        Self { done_bytes: bytes, total_bytes: bytes, result }
    }
}

impl FaultView {
    fn of(fault: Fault) -> Self {
        let Fault { file, reason, condemned } = fault;
        Self {
            path: file.path.to_string_lossy().into_owned(),
            fingerprint: file.model,
            bytes: file.bytes,
            reason,
            damaged: condemned,
        }
    }
}

/// `GET /v1/slots/quarantine`
pub async fn quarantine(
    State(storage): State<Storage>,
    Query(of): Query<ModelQuery>,
) -> Result<Json<Quarantine>, ApiError> {
    let files = storage.quarantine(of.fingerprint).await?;
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let data = files.into_iter().map(QuarantinedFile::of).collect();
    Ok(Json(Quarantine { object: "list", data, bytes }))
}

/// The files in quarantine. Times are seconds since 1970.
#[derive(Serialize)]
pub struct Quarantine {
    object: &'static str,
    data: Vec<QuarantinedFile>,
    bytes: u64,
}

#[derive(Serialize)]
struct QuarantinedFile {
    file: String,
    fingerprint: ModelHash,
    reason: String,
    bytes: u64,
    /// When it was rejected; `None` when that was not recorded.
    since: Option<u64>,
    written_at: u64,
}

impl QuarantinedFile {
    fn of(file: Quarantined) -> Self {
        let secs =
            |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let name = file.path.file_name().unwrap_or(file.path.as_os_str());
        Self {
            file: name.to_string_lossy().into_owned(),
            fingerprint: file.model,
            reason: file.reason,
            bytes: file.bytes,
            since: file.since.map(secs),
            written_at: secs(file.written),
        }
    }
}

/// Files that were removed, or in a dry run would be.
#[derive(Serialize)]
pub struct Emptied {
    dry_run: bool,
    files: usize,
    freed_bytes: u64,
}

/// `POST /v1/slots/quarantine/empty`
pub async fn empty(
    State(storage): State<Storage>,
    body: JsonBody,
) -> Result<Json<Emptied>, ApiError> {
    let Collect { fingerprint, dry_run } = parsed(body)?;
    let (files, freed_bytes) = storage.empty_quarantine(fingerprint, dry_run).await?;
    Ok(Json(Emptied { dry_run, files, freed_bytes }))
}
