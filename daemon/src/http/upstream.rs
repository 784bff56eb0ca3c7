//! What a daemon answers itself whose engine is at another address: its models, and which routes it refuses.

use axum::Json;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::chat::{Chat, NEEDS_ENGINE};
use crate::error::{ApiError, ErrorKind};
use crate::upstream::{Upstream, name_of};

/// Routes that read or change KV, tokens or files of a model in this process.
const LOCAL: [&str; 44] = [
    "/apply-template",
    "/detokenize",
    "/infill",
    "/lora-adapters",
    "/props",
    "/slots",
    "/slots/{id}",
    "/tokenize",
    "/v1/chat/completions/input_tokens",
    "/v1/conversations/{id}/audio",
    "/v1/conversations/{id}/context",
    "/v1/conversations/{id}/explain",
    "/v1/conversations/{id}/shorten",
    "/v1/conversations/{id}/speech-end",
    "/v1/conversations/{id}/speech-start",
    "/v1/conversations/{id}/transcript",
    "/v1/conversations/{id}/typing",
    "/v1/documents/{id}/read",
    "/v1/learned",
    "/v1/learned/{name}",
    "/v1/memory",
    "/v1/memory/events",
    "/v1/memory/map",
    "/v1/messages/count_tokens",
    "/v1/models/fetch",
    "/v1/models/local",
    "/v1/models/suggested",
    "/v1/models/switch",
    "/v1/prewarm",
    "/v1/realtime/events",
    "/v1/responses/input_tokens",
    "/v1/slots",
    "/v1/slots/class",
    "/v1/slots/gc",
    "/v1/slots/import",
    "/v1/slots/prune",
    "/v1/slots/quarantine",
    "/v1/slots/quarantine/empty",
    "/v1/slots/quota",
    "/v1/slots/remove",
    "/v1/slots/verify",
    "/v1/stats",
    "/v1/verify/correctness",
    "/v1/voice/filler",
];

/// The middleware that refuses what needs an engine in this process.
pub async fn refuse_local(
    State(chat): State<Chat>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let Some(upstream) = chat.upstream() else { return Ok(next.run(request).await) };
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    match route.filter(|route| LOCAL.contains(route)) {
        Some(route) => Err(refused(route, upstream)),
        None => Ok(next.run(request).await),
    }
}

fn refused(route: &str, upstream: &Upstream) -> ApiError {
    let message = format!(
        "`{route}` needs an engine in hobd, and this one forwards to {}: start it without `upstream`, or ask there",
        upstream.url()
    );
    ApiError::new(ErrorKind::NotImplemented, message).code(NEEDS_ENGINE)
}

/// `GET /v1/models`: as the engine lists them.
pub async fn models(upstream: &Upstream) -> Result<Response, ApiError> {
    let models = upstream.refresh().await?.models;
    let ends = [models.first(), models.last()].map(|model| model.map(name_of).map(str::to_owned));
    let [first_id, last_id] = ends;
    let list = json!({"object": "list", "data": models, "has_more": false, "first_id": first_id,
        "last_id": last_id});
    Ok(Json(list).into_response())
}

/// `GET /v1/models/{id}`
pub async fn model(upstream: &Upstream, id: &str) -> Result<Response, ApiError> {
    let models = upstream.refresh().await?.models;
    let found = models.into_iter().find(|model| name_of(model) == id);
    found.map(|model| Json(model).into_response()).ok_or_else(|| unknown(upstream))
}

pub fn unknown(upstream: &Upstream) -> ApiError {
    let message = format!("{} lists no such model; GET /v1/models has those", upstream.url());
    ApiError::not_found(message).param("model").code("model_not_found")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::declared_routes;
    use super::*;

    /// The engine elsewhere answers, or nothing of an engine is needed.
    const SERVED: [&str; 56] = [
        "/api/blobs/{digest}",
        "/api/chat",
        "/api/copy",
        "/api/create",
        "/api/delete",
        "/api/embed",
        "/api/embeddings",
        "/api/generate",
        "/api/ps",
        "/api/pull",
        "/api/push",
        "/api/show",
        "/api/tags",
        "/api/version",
        "/completion",
        "/completions",
        "/embedding",
        "/embeddings",
        "/health",
        "/metrics",
        "/rerank",
        "/reranking",
        "/v1/audio/speech",
        "/v1/audio/transcriptions",
        "/v1/audio/translations",
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/conversations",
        "/v1/conversations/{id}",
        "/v1/conversations/{id}/answer",
        "/v1/conversations/{id}/export",
        "/v1/conversations/{id}/fork",
        "/v1/conversations/{id}/items",
        "/v1/conversations/{id}/items/{item}",
        "/v1/conversations/{id}/messages/{message}",
        "/v1/conversations/{id}/messages/{message}/restore",
        "/v1/documents",
        "/v1/documents/{id}",
        "/v1/documents/{id}/text",
        "/v1/embeddings",
        "/v1/messages",
        "/v1/models",
        "/v1/models/{*id}",
        "/v1/profiles",
        "/v1/profiles/{name}",
        "/v1/rerank",
        "/v1/reranking",
        "/v1/responses",
        "/v1/responses/{id}",
        "/v1/responses/{id}/cancel",
        "/v1/responses/{id}/input_items",
        "/v1/settings",
        "/v1/status",
        "/v1/templates",
        "/v1/turns",
        "/v1/voice/transcriptions",
    ];

    #[test]
    fn each_route_is_either_refused_or_served() {
        let declared: BTreeSet<String> =
            declared_routes::all().into_iter().map(|it| it.path).collect();
        let sorted = LOCAL.into_iter().chain(SERVED).map(str::to_owned).collect();
        let unsorted: Vec<_> = declared.symmetric_difference(&sorted).collect();
        assert!(unsorted.is_empty(), "{unsorted:?}");
        assert_eq!(sorted.len(), LOCAL.len() + SERVED.len(), "in one list alone");
    }
}
