//! `/v1/conversations/{id}/export` and `/v1/conversations/import`: conversations as files.

use std::fs::File;
use std::io::{Cursor, Read, Seek};

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::body::{self, BodyLimits};
use super::conversations::{describe, name};
use super::query::Query;
use super::respond;
use super::slots::{TAR, receive};
use crate::blocking::compute;
use crate::conversations::Conversations;
use crate::conversations::export::{Imported, ImportedKv, markdown};
use crate::conversations::foreign::{self, Export, Packing, Skipped, Source};
use crate::conversations::transcript::{ConversationExport, Extent};
use crate::error::{ApiError, ErrorKind};
use crate::storage::{Storage, failed};

const JSON: &str = "application/json";
const MARKDOWN: &str = "text/markdown";
const LINES: [&str; 2] = ["application/jsonl", "application/x-ndjson"];
const ZIP: [&str; 2] = ["application/zip", "application/x-zip-compressed"];

/// An archive is sent in pieces of this size.
const PIECE_BYTES: usize = 256 << 10;

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Json,
    Markdown,
    Archive,
}

#[derive(Debug, Deserialize)]
pub struct ExportQuery {
    #[serde(default)]
    format: Format,
}

/// `GET /v1/conversations/{id}/export?format=json|markdown|archive`
pub async fn export(
    State(conversations): State<Conversations>,
    Path(id): Path<String>,
    Query(query): Query<ExportQuery>,
) -> Result<Response, ApiError> {
    let id = name(&id)?;
    let export = async |extent| {
        conversations.conversation(&id, extent).await?.ok_or_else(ApiError::no_such_conversation)
    };
    let (kind, ending, body) = match query.format {
        Format::Json => {
            let text = export(Extent::Tree).await?.to_json();
            let text = serde_json::to_string_pretty(&text).unwrap_or_default();
            (JSON, "json", Body::from(text))
        }
        Format::Markdown => {
            let text = markdown::write(&export(Extent::Branch).await?);
            ("text/markdown; charset=utf-8", "md", Body::from(text))
        }
        Format::Archive => {
            let file =
                conversations.archive(&id).await?.ok_or_else(ApiError::no_such_conversation)?;
            (TAR, "tar", pieces(file))
        }
    };
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let file: String = id.as_str().chars().map(plain).collect();
    let disposition = format!("attachment; filename=\"{file}.{ending}\"");
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    let disposition = HeaderValue::try_from(disposition).expect("plain letters");
    headers.insert(header::CONTENT_DISPOSITION, disposition);
    Ok(response)
}

/// Streams the file, reading at most four pieces ahead of the client.
fn pieces(mut file: File) -> Body {
    let (send, receive) = mpsc::channel::<std::io::Result<Bytes>>(4);
    tokio::task::spawn_blocking(move || {
        let begun = file.rewind();
        let mut next = || -> std::io::Result<Option<Bytes>> {
            let mut piece = vec![0; PIECE_BYTES];
            let read = file.read(&mut piece)?;
            piece.truncate(read);
            Ok((read > 0).then(|| Bytes::from(piece)))
        };
        let mut piece = begun.and_then(|()| next()).transpose();
        // An error of the channel: the client disconnected.
        while let Some(read) = piece.take()
            && send.blocking_send(read).is_ok()
        {
            piece = next().transpose();
        }
    });
    let pieces = stream::unfold(receive, |mut receive| async {
        receive.recv().await.map(|piece| (piece, receive))
    });
    Body::from_stream(pieces)
}

/// `POST /v1/conversations/import`: all three formats of an export, and the exports of other apps.
pub async fn import(
    State(conversations): State<Conversations>,
    State(storage): State<Storage>,
    State(limits): State<BodyLimits>,
    Path(path): Path<String>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    // A conversation may have the id `import`; only POST means the endpoint.
    if path != "import" {
        return Err(respond::no_such_method(request.method().clone(), request.uri().clone()).await);
    }
    let imported = match body::kind(request.headers()).unwrap_or_default().as_str() {
        JSON => return import_json(&conversations, &storage, limits, request).await,
        kind if LINES.contains(&kind) => {
            let file = received(&storage, limits, request).await?;
            return import_foreign(&conversations, Packing::Lines, file).await;
        }
        kind if ZIP.contains(&kind) => {
            let file = received(&storage, limits, request).await?;
            return import_foreign(&conversations, Packing::Zip, file).await;
        }
        MARKDOWN => {
            let text =
                String::from_utf8(body::read_in_time(request, limits).await?).map_err(|_| {
                    ApiError::new(ErrorKind::Invalid, "the body is not valid UTF-8")
                        .code("invalid_document")
                })?;
            conversations.import_conversation(markdown::read(&text)?).await?
        }
        TAR => {
            let upload = storage.receive().await?;
            receive(request, &upload, limits.time).await?;
            conversations.import_archive(upload).await?
        }
        _ => {
            let kinds = format!("{JSON}, {}, {MARKDOWN}, {TAR} or {}", LINES[0], ZIP[0]);
            return Err(body::must_be(&kinds));
        }
    };
    describe_import(&conversations, imported).await.map(Json)
}

/// Hob's own export, or what another app has written as JSON.
async fn import_json(
    conversations: &Conversations,
    storage: &Storage,
    limits: BodyLimits,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let file = received(storage, limits, request).await?;
    if let ReceivedBody::Memory(bytes) = &file {
        let value = body::parsed(foreign::without_mark(bytes.get_ref()))?;
        if value.get("format").is_some() {
            let imported =
                conversations.import_conversation(ConversationExport::from_json(&value)?).await?;
            return describe_import(conversations, imported).await.map(Json);
        }
    }
    import_foreign(conversations, Packing::Json, file).await
}

enum ReceivedBody {
    Memory(Cursor<Vec<u8>>),
    /// One that is larger than a request may be: exports of other apps have years of chats.
    Disk(File),
}

async fn received(
    storage: &Storage,
    limits: BodyLimits,
    request: Request,
) -> Result<ReceivedBody, ApiError> {
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length <= limits.bytes) {
        let bytes = body::read_in_time(request, limits).await?;
        return Ok(ReceivedBody::Memory(Cursor::new(bytes)));
    }
    let upload = storage.receive().await?;
    receive(request, &upload, limits.time).await?;
    let mut file = upload.finish().await?;
    file.rewind().map_err(|error| failed(&error))?;
    Ok(ReceivedBody::Disk(file))
}

async fn import_foreign(
    conversations: &Conversations,
    packing: Packing,
    file: ReceivedBody,
) -> Result<Json<Value>, ApiError> {
    let is_on_disk = matches!(file, ReceivedBody::Disk(_));
    let export = compute(move || match file {
        ReceivedBody::Memory(bytes) => foreign::read(packing, bytes),
        ReceivedBody::Disk(file) => foreign::read(packing, file),
    });
    let Export { conversations: mut found, skipped, .. } = export.await?;
    // An export of Hob is answered alone, whatever its size.
    if is_on_disk && skipped.is_empty() && matches!(&found[..], [(Source::Hob, _)]) {
        let (_, export) = found.remove(0);
        let imported = conversations.import_conversation(export).await?;
        return describe_import(conversations, imported).await.map(Json);
    }
    let mut data = Vec::with_capacity(found.len());
    for (source, export) in found {
        let imported = conversations.import_conversation(export).await?;
        let mut described = describe_import(conversations, imported).await?;
        described["source"] = source.name().into();
        data.push(described);
    }
    let skipped: Vec<Value> = skipped
        .into_iter()
        .map(|Skipped { title, reason }| json!({"title": title, "reason": reason}))
        .collect();
    Ok(Json(json!({"object": "list", "data": data, "skipped": skipped})))
}

async fn describe_import(
    conversations: &Conversations,
    imported: Imported,
) -> Result<Value, ApiError> {
    let Imported { id, renamed_from, was_here, kv } = imported;
    let (text, location) =
        conversations.get(&id).await?.ok_or_else(ApiError::no_such_conversation)?;
    let kv = kv.map(|kv| match kv {
        ImportedKv::Saved { tokens } => json!({"imported": true, "tokens": tokens}),
        ImportedKv::LeftOut { reason } => json!({"imported": false, "reason": reason}),
    });
    Ok(json!({
        "object": "conversation.imported",
        "id": id,
        "renamed_from": renamed_from,
        "was_here": was_here,
        "kv": kv,
        "conversation": describe(&text.summary, &location),
    }))
}
