//! `POST /v1/prewarm` with `documents`: texts that later prompts contain are read ahead, one after the
//! other.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hob_api::Document;
use serde_json::{Value, json};

use super::documents::{described, until_ready};
use crate::conversations::transcript::{DocumentHome, StoredDocument};
use crate::documents::{Documents, extract};
use crate::error::ApiError;
use crate::wire::document::{DocumentId, MAX_DOCUMENTS, document_of};
use crate::wire::fields::{Fields, unsupported};

/// A chat's fields that a prewarm of documents has no use for.
const OF_CHATS: [&str; 4] = ["messages", "conversation", "tools", "compute"];

enum DocumentSource {
    Stored(DocumentId),
    Text(StoredDocument),
}

/// Answers when all of `list` are saved, or with `wait` false once the texts are stored.
pub async fn prewarm(
    documents: Documents,
    fields: &Fields<'_>,
    list: &[Value],
    wait: bool,
) -> Result<Response, ApiError> {
    if let Some(other) = OF_CHATS.into_iter().find(|name| fields.get(name).is_some()) {
        return Err(unsupported(other, "documents are prewarmed without a chat: leave it out"));
    }
    let hob = fields.get("hob").map(|hob| Fields::of(hob, "hob")).transpose()?;
    let profile = hob.map(|hob| hob.string("profile")).transpose()?.flatten().map(str::to_owned);
    // Nothing is stored of a request that is refused.
    documents.check_profile(profile.as_deref())?;
    let mut named = Vec::new();
    if list.is_empty() || list.len() > MAX_DOCUMENTS {
        let message =
            format!("`documents` must have 1 to {MAX_DOCUMENTS} documents, not {}", list.len());
        return Err(ApiError::field("documents", message));
    }
    for (n, value) in list.iter().enumerate() {
        named.push(read(&documents, value, &format!("documents[{n}]")).await?);
    }
    let mut ids = Vec::new();
    for named in named {
        ids.push(match named {
            DocumentSource::Stored(id) => id,
            DocumentSource::Text(document) => {
                documents.add(document, DocumentHome::Library).await?
            }
        });
    }
    if wait {
        compute(&documents, &ids, profile.as_deref()).await?;
    }
    let mut views: Vec<Document> = Vec::new();
    for id in &ids {
        views.push(described(&documents, id, profile.as_deref()).await?);
    }
    let body = Json(json!({"object": "prewarm", "hot": wait, "documents": views}));
    if wait {
        return Ok(body.into_response());
    }
    tokio::spawn(async move {
        if let Err(error) = compute(&documents, &ids, profile.as_deref()).await {
            tracing::debug!(%error, "prewarm of documents failed");
        }
    });
    Ok((StatusCode::ACCEPTED, body).into_response())
}

/// The id of a stored document, `{"id"}`, or `{"text", "name"}`.
async fn read(
    documents: &Documents,
    value: &Value,
    path: &str,
) -> Result<DocumentSource, ApiError> {
    if value.get("text").is_none() {
        let id = document_of(value, path)?.id;
        documents.stored(&id, false).await?;
        return Ok(DocumentSource::Stored(id));
    }
    let fields = Fields::of(value, path)?;
    let text = fields.required_string("text")?.as_bytes().to_vec();
    let name = fields.string("name")?.unwrap_or_default();
    Ok(DocumentSource::Text(extract::document(text, name).await?))
}

async fn compute(
    documents: &Documents,
    ids: &[DocumentId],
    profile: Option<&str>,
) -> Result<(), ApiError> {
    for id in ids {
        documents.read(id, profile).await?.collect().await?;
        until_ready(documents, id, profile).await;
    }
    Ok(())
}
