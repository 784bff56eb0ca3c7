//! `/v1/documents`: the library.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hob_api::{Document, List};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::body::{self, BodyLimits};
use super::query::Query;
use super::sse::{self, Source};
use crate::chat::answer::{Answer, Piece};
use crate::chat::documents::unknown_document;
use crate::conversations::transcript::DocumentHome;
use crate::documents::{Documents, extract};
use crate::error::ApiError;
use crate::metrics::Metrics;
use crate::wire::document::DocumentId;

/// A file may have this many times the bytes of another body.
const FILE_FACTOR: usize = 8;

/// How often the end of a reading looks whether the KV has left the cells, and the time between:
/// five seconds in all.
const LOOKS: usize = 20;
const LOOK_PAUSE: Duration = Duration::from_millis(250);

#[derive(Debug, Deserialize)]
pub struct AddQuery {
    #[serde(default)]
    name: String,
    /// `library`, `chat` or `private`.
    #[serde(default)]
    keep: Keep,
    profile: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Keep {
    #[default]
    Library,
    Chat,
    Private,
}

#[derive(Debug, Deserialize)]
pub struct ViewQuery {
    profile: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct RemoveQuery {
    #[serde(default)]
    unused: bool,
}

/// `POST /v1/documents?name=&keep=`: the bytes of a file; stores its text.
pub async fn add(
    State(documents): State<Documents>,
    State(metrics): State<Arc<Metrics>>,
    State(limits): State<BodyLimits>,
    Query(query): Query<AddQuery>,
    request: Request,
) -> Result<Response, ApiError> {
    documents.check_profile(query.profile.as_deref())?;
    // A PDF is mostly pictures and fonts, which leave no text.
    let limits = BodyLimits { bytes: limits.bytes.saturating_mul(FILE_FACTOR), ..limits };
    let bytes = body::read_in_time(request, limits).await?;
    let document = extract::document(bytes, &query.name).await?;
    if document.kind == extract::PDF {
        metrics.extracted_pdf();
    }
    let home = match query.keep {
        Keep::Library => DocumentHome::Library,
        Keep::Chat => DocumentHome::Chat,
        Keep::Private => DocumentHome::PrivateChat,
    };
    let id = documents.add(document, home).await?;
    let document = described(&documents, &id, query.profile.as_deref()).await?;
    Ok((StatusCode::CREATED, Json(document)).into_response())
}

/// `GET /v1/documents`: those of the library, the latest first.
pub async fn list(
    State(documents): State<Documents>,
    Query(query): Query<ViewQuery>,
) -> Result<Json<List<Document>>, ApiError> {
    let data = documents.list(query.profile.as_deref()).await?;
    Ok(Json(List { object: "list".into(), data }))
}

/// `GET /v1/documents/{id}`
pub async fn read(
    State(documents): State<Documents>,
    Path(id): Path<String>,
    Query(query): Query<ViewQuery>,
) -> Result<Json<Document>, ApiError> {
    Ok(Json(described(&documents, &document_id(&id)?, query.profile.as_deref()).await?))
}

/// `GET /v1/documents/{id}/text`
pub async fn text(
    State(documents): State<Documents>,
    Path(id): Path<String>,
) -> Result<String, ApiError> {
    Ok(documents.stored(&document_id(&id)?, true).await?.text)
}

/// `DELETE /v1/documents/{id}`: the text and the KV; with `?unused=true` only if nothing needs them.
pub async fn remove(
    State(documents): State<Documents>,
    Path(id): Path<String>,
    Query(query): Query<RemoveQuery>,
) -> Result<Json<Value>, ApiError> {
    let id = document_id(&id)?;
    let deleted = if query.unused {
        documents.remove_unused(&id).await?
    } else {
        documents.remove(&id).await?;
        true
    };
    Ok(Json(json!({"id": id.as_str(), "object": "document.deleted", "deleted": deleted})))
}

/// `POST /v1/documents/{id}/read`: computes it and saves its KV; streams how far that is.
pub async fn compute(
    State(documents): State<Documents>,
    Path(id): Path<String>,
    Query(query): Query<ViewQuery>,
) -> Result<Response, ApiError> {
    let id = document_id(&id)?;
    let answer = documents.read(&id, query.profile.as_deref()).await?;
    let profile = query.profile;
    Ok(sse::stream(Reading { documents, id, profile, answer, has_ended: false }))
}

struct Reading {
    documents: Documents,
    id: DocumentId,
    profile: Option<String>,
    answer: Answer,
    has_ended: bool,
}

impl Source for Reading {
    type Object = Value;

    async fn next(&mut self) -> Option<Value> {
        while !self.has_ended {
            match self.answer.next().await {
                Some(Ok(Piece::Progress(report))) => {
                    return Some(self.object(
                        "document.progress",
                        json!({
                            "progress": report.to_json(),
                        }),
                    ));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    self.has_ended = true;
                    return Some(error.to_json());
                }
                None => {
                    until_ready(&self.documents, &self.id, self.profile.as_deref()).await;
                    self.has_ended = true;
                    return Some(self.object("document.ready", self.answer.hob()));
                }
            }
        }
        None
    }
}

/// The KV of a document leaves the cells behind the computation; the view that follows looks for it
/// there.
pub async fn until_ready(documents: &Documents, id: &DocumentId, profile: Option<&str>) {
    for _ in 0..LOOKS {
        match documents.get(id, profile).await {
            Ok(Some(view)) if view.ready_tokens < view.tokens => sleep(LOOK_PAUSE).await,
            _ => return,
        }
    }
}

impl Reading {
    fn object(&self, object: &str, hob: Value) -> Value {
        json!({"id": self.id.as_str(), "object": object, "hob": hob})
    }
}

pub async fn described(
    documents: &Documents,
    id: &DocumentId,
    profile: Option<&str>,
) -> Result<Document, ApiError> {
    documents.get(id, profile).await?.ok_or_else(|| unknown_document(id))
}

/// A name that is no id is that of no document.
fn document_id(id: &str) -> Result<DocumentId, ApiError> {
    id.parse().map_err(|error: crate::wire::document::DocumentIdError| {
        ApiError::not_found(error.to_string()).code("document_not_found")
    })
}
