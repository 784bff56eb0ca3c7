//! `/v1/slots`: the KV on disk. Times are seconds since 1970, bytes are bytes.
//!
//! Changes skip conversations in use and list them; `dry_run` is true unless it is set to false.

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header;
use futures_util::StreamExt;
use hob_slots::archive::{ImportOptions, Imported};
use hob_slots::maintenance::{self, Reclassed, Report};
use hob_slots::{Lifetimes, ModelHash, TtlClass};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::body::{self, BodyLimits, JsonBody};
use super::query::Query;
use crate::error::{ApiError, ErrorKind};
use crate::storage::Storage;
use crate::storage::archive::Upload;
use crate::storage::usage::DiskUse;

pub(super) const TAR: &str = "application/x-tar";

#[derive(Debug, Deserialize)]
pub struct ModelQuery {
    pub(super) fingerprint: Option<ModelHash>,
}

/// `GET /v1/slots`: the saved conversations, and where each one's KV is.
pub async fn list(
    State(storage): State<Storage>,
    Query(of): Query<ModelQuery>,
) -> Result<Json<Value>, ApiError> {
    let kept = storage.slots(of.fingerprint).await?;
    let rejected = kept
        .rejected
        .iter()
        .map(|file| json!({"path": file.path.to_string_lossy(), "reason": file.miss.to_string()}));
    Ok(Json(json!({
        "object": "list",
        "slots_dir": kept.dir.to_string_lossy(),
        "data": kept.slots,
        "rejected": rejected.collect::<Vec<_>>(),
        "disk_bytes": kept.bytes,
        "quota_bytes": kept.quota_bytes,
        "free_bytes": kept.free_bytes,
        "lifetimes": lifetimes(&kept.lifetimes),
    })))
}

/// In seconds, by class; null where only the quota ends it.
pub(super) fn lifetimes(lifetimes: &Lifetimes) -> Value {
    let seconds = |class| Value::from(lifetimes.of(class).map(|lifetime| lifetime.as_secs()));
    TtlClass::ALL.into_iter().map(|class| (class.as_str().to_owned(), seconds(class))).collect()
}

/// `POST /v1/slots/{prune,gc,remove}`: the body is the request of the same name.
pub async fn maintain<R>(
    State(storage): State<Storage>,
    body: JsonBody,
) -> Result<Json<Report>, ApiError>
where
    R: DeserializeOwned + Into<maintenance::Request>,
{
    Ok(Json(storage.maintain(parsed::<R>(body)?.into()).await?))
}

/// `POST /v1/slots/class`
pub async fn set_class(
    State(storage): State<Storage>,
    body: JsonBody,
) -> Result<Json<Reclassed>, ApiError> {
    let report = storage.set_class(parsed(body)?).await?;
    if report.is_missing() {
        return Err(ApiError::not_found("no conversation of this name has saved KV")
            .code("conversation_not_found"));
    }
    Ok(Json(report))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewQuota {
    /// `null` or 0: the default.
    bytes: Option<u64>,
}

/// `PUT /v1/slots/quota`: in force at once, and written into the configuration file.
pub async fn set_quota(
    State(storage): State<Storage>,
    body: JsonBody,
) -> Result<Json<DiskUse>, ApiError> {
    let NewQuota { bytes } = parsed(body)?;
    Ok(Json(storage.set_quota(bytes.unwrap_or_default()).await?))
}

/// `POST /v1/slots/import?force=&keep_foreign=&class=`: an archive of `hob slots export`.
pub async fn import(
    State(storage): State<Storage>,
    State(limits): State<BodyLimits>,
    Query(options): Query<ImportOptions>,
    request: Request,
) -> Result<Json<Imported>, ApiError> {
    if body::kind(request.headers()).as_deref() != Some(TAR) {
        return Err(body::must_be(TAR));
    }
    let upload = storage.receive().await?;
    receive(request, &upload, limits.time).await?;
    Ok(Json(storage.import(upload, options).await?))
}

/// Reads an archive. `pause`: the longest wait for the next piece.
pub(super) async fn receive(
    request: Request,
    upload: &Upload,
    pause: Duration,
) -> Result<(), ApiError> {
    let max_bytes = upload.max_bytes;
    let too_large = || {
        let message =
            format!("the disk has room for an archive of {max_bytes} bytes: free space there");
        ApiError::new(ErrorKind::TooLarge, message).code("body_too_large")
    };
    let announced = request.headers().get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > max_bytes) {
        return Err(too_large());
    }
    let mut received = 0;
    let mut stream = request.into_body().into_data_stream();
    loop {
        let piece = tokio::time::timeout(pause, stream.next()).await.map_err(|_| {
            let secs = pause.as_secs();
            let message = format!(
                "no piece of the archive arrived for {secs} s: send it again, or start hobd with a larger \
                 request_timeout_secs"
            );
            ApiError::new(ErrorKind::Timeout, message).code("timeout")
        })?;
        let Some(piece) = piece else { return Ok(()) };
        let piece = piece.map_err(|_| {
            ApiError::new(ErrorKind::Invalid, "the archive broke off").code("incomplete_body")
        })?;
        received += piece.len() as u64;
        if received > max_bytes {
            return Err(too_large());
        }
        upload.push(piece).await;
    }
}

pub(super) fn parsed<T: DeserializeOwned>(body: JsonBody) -> Result<T, ApiError> {
    serde_json::from_value(body.value)
        .map_err(|error| ApiError::new(ErrorKind::Invalid, error.to_string()).code("invalid_value"))
}
