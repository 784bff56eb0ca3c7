//! What answers while the model loads: `/health`, and the saved conversations, the list and each one,
//! in the form of `/v1/conversations`.
//!
//! - The place of their KV is not known yet: the fields that depend on it are null.
//! - Changes and searches need the whole daemon.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode, Uri};
use axum::routing::get;
use axum::{Json, Router, middleware};
use serde_json::{Value, json};

use super::conversations::{ListQuery, ReadQuery, describe, name, whole};
use super::guard::{self, Guard};
use super::query::Query;
use super::respond;
use crate::conversations::transcript::{Listing, SearchQuery, Transcript};
use crate::conversations::{KvLocation, trash};
use crate::error::ApiError;

const LIST: &str = "/v1/conversations";
const HEALTH: &str = "/health";

/// The fields of a conversation that say where its KV is.
const OF_LOCATION: [&str; 7] =
    ["place", "tier", "slot", "tokens", "memory_tokens", "disk_tokens", "ready"];

/// How much of the weights is loaded, in percent.
pub type LoadedPercent = Arc<AtomicU8>;

#[derive(Clone)]
struct Texts {
    transcript: Transcript,
    loaded: LoadedPercent,
}

/// The three routes, guarded.
pub fn router(transcript: Transcript, loaded: LoadedPercent, guard: Arc<Guard>) -> Router {
    Router::new()
        .route(HEALTH, get(health))
        .route(LIST, get(list))
        .route(&format!("{LIST}/{{id}}"), get(read))
        .fallback(respond::no_such_path)
        .method_not_allowed_fallback(respond::no_such_method)
        .with_state(Texts { transcript, loaded })
        .layer(middleware::from_fn_with_state(guard, guard::guard))
}

/// Whether these routes answer the request as the whole daemon does.
pub fn answers(method: &Method, uri: &Uri) -> bool {
    let searches = || Query::of(uri).is_ok_and(|ListQuery { q, .. }| SearchQuery::of(&q).is_some());
    let is_one = |id: &str| id.strip_prefix('/').is_some_and(|id| !id.contains('/'));
    method == Method::GET
        && match uri.path().strip_prefix(LIST) {
            Some("") => !searches(),
            None => uri.path() == HEALTH,
            Some(behind) => is_one(behind),
        }
}

async fn health(State(Texts { loaded, .. }): State<Texts>) -> (StatusCode, Json<Value>) {
    let percent = loaded.load(Ordering::Relaxed);
    let body = json!({"status": "loading", "loaded_percent": percent});
    (StatusCode::SERVICE_UNAVAILABLE, Json(body))
}

async fn list(
    State(Texts { transcript, .. }): State<Texts>,
    Query(listed): Query<ListQuery>,
) -> Result<Json<Value>, ApiError> {
    let list = transcript.list(listed.listing()).done().await?;
    let data: Vec<Value> = list
        .iter()
        .map(|summary| without_location(describe(summary, &KvLocation::default())))
        .collect();
    let mut list = json!({"object": "list", "data": data});
    if listed.listing() == Listing::Trash {
        list["retention_secs"] = trash::RETENTION.as_secs().into();
    }
    Ok(Json(list))
}

async fn read(
    State(Texts { transcript, .. }): State<Texts>,
    Path(id): Path<String>,
    Query(query): Query<ReadQuery>,
) -> Result<Json<Value>, ApiError> {
    let text =
        transcript.get(&name(&id)?).done().await?.ok_or_else(ApiError::no_such_conversation)?;
    Ok(Json(without_location(whole(&text, &KvLocation::default(), query.branches))))
}

fn without_location(mut conversation: Value) -> Value {
    for field in OF_LOCATION {
        conversation[field] = Value::Null;
    }
    conversation
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::{Method, Request};
    use hob_slots::{ConversationId, Timestamp};
    use hyper::service::Service;
    use hyper_util::service::TowerToHyperService;

    use super::*;
    use crate::auth::AccessToken;
    use crate::wire::message::{Message, Role};

    const TOKEN: &str = "0123456789abcdef";

    fn world() -> Router {
        let transcript = Transcript::in_memory(Timestamp(0)).unwrap();
        let said = vec![Message::plain(Role::User, "Where is the kettle?")];
        let id = ConversationId::new("kettle").unwrap();
        drop(transcript.sync(&id, said, Timestamp(5_000))); // Dropped: interrupted.
        let address = "127.0.0.1:8642".parse().unwrap();
        router(
            transcript,
            LoadedPercent::new(40.into()),
            Arc::new(Guard::new(address, &[], &[], AccessToken::new(TOKEN))),
        )
    }

    async fn answer(
        router: Router,
        method: Method,
        path: &str,
        token: &str,
    ) -> (StatusCode, Value) {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("authorization", format!("Bearer {token}"));
        let service = TowerToHyperService::new(router);
        let response = service.call(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = response.status();
        let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    #[tokio::test]
    async fn conversations_can_be_read_before_the_location_of_their_kv_is_known() {
        let router = world();
        let (status, list) = answer(router.clone(), Method::GET, "/v1/conversations", TOKEN).await;
        assert_eq!((status, &list["data"][0]["id"]), (StatusCode::OK, &json!("kettle")));
        let (_, chat) = answer(router, Method::GET, "/v1/conversations/kettle", TOKEN).await;
        assert_eq!(chat["messages"][0]["content"], "Where is the kettle?");
        for told in [&list["data"][0], &chat] {
            let places = (&told["place"], &told["slot"], &told["tokens"]);
            assert_eq!(places, (&Value::Null, &Value::Null, &Value::Null));
            let known: Vec<_> = OF_LOCATION.iter().filter(|name| !told[**name].is_null()).collect();
            assert!(known.is_empty(), "{known:?}");
        }
    }

    #[tokio::test]
    async fn the_list_of_the_trash_says_how_long_it_holds_a_conversation() {
        let list = async |path: &'static str| answer(world(), Method::GET, path, TOKEN).await.1;
        assert_eq!(list("/v1/conversations?trashed=true").await["retention_secs"], 3_600);
        assert_eq!(list("/v1/conversations").await["retention_secs"], Value::Null);
    }

    #[tokio::test]
    async fn health_tells_how_much_is_loaded_without_a_token() {
        assert!(answers(&Method::GET, &"/health".parse().unwrap()));
        let (status, health) = answer(world(), Method::GET, "/health", "").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(health, json!({"status": "loading", "loaded_percent": 40}));
    }

    #[tokio::test]
    async fn answers_agrees_with_the_routes() {
        let get = |path: &str| answers(&Method::GET, &path.parse().unwrap());
        for path in [
            "/v1/conversations",
            "/v1/conversations?trashed=true&q=%20",
            "/v1/conversations?trashed=perhaps",
            "/v1/conversations/kettle?branches=true",
            "/v1/conversations/kettle?branches=perhaps",
            "/v1/conversations/unknown?q=a",
        ] {
            let (status, said) = answer(world(), Method::GET, path, TOKEN).await;
            assert!(get(path), "{path}");
            assert!(said["object"].is_string() || said["error"]["code"].is_string(), "{status}");
            assert!(!answers(&Method::PATCH, &path.parse().unwrap()), "{path}");
        }
        for path in ["/v1/conversations/kettle/explain", "/v1/conversationsa", "/v1/status"] {
            let (_, said) = answer(world(), Method::GET, path, TOKEN).await;
            assert!(!get(path), "{path}");
            let message = said["error"]["message"].as_str().unwrap();
            assert!(message.starts_with("hobd has no route `GET /v1/"), "{message}");
        }
        for search in ["/v1/conversations?q=a", "/v1/conversations?%71=a"] {
            assert!(!get(search), "{search}");
        }
    }

    #[tokio::test]
    async fn changes_are_refused_and_reading_needs_the_token() {
        let router = world();
        let path = "/v1/conversations/kettle";
        let (status, _) = answer(router.clone(), Method::DELETE, path, TOKEN).await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
        let (status, _) = answer(router.clone(), Method::GET, "/v1/status", TOKEN).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        let (status, _) = answer(router, Method::GET, path, "fedcba9876543210").await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
    }
}
