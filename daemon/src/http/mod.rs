//! OpenAI's API, Hob's own, Anthropic's, Ollama's and llama-server's over HTTP, one file an endpoint family, one folder a
//! protocol.
//!
//! Reading order:
//! - `guard` (hosts, origins, the token), `body` and `respond` (requests read and refused), `sse` (streams);
//! - the endpoints, with `call_form` (the calls of a chat), `translation` and the protocols `responses`,
//!   `anthropic`, `ollama` and `llama_server`;
//! - `serve` (the socket), `head_waits` (which connection closes when all are taken), `drain` and `paths` (in
//!   front of every route);
//! - `texts` and `gate` (while the model loads), `upstream` (with an engine at another address).

mod anthropic;
mod audio;
pub mod body;
mod call_form;
mod chat;
mod chat_stream;
mod chunks;
mod completion;
mod context;
mod conversations;
mod correctness;
mod detached;
mod documents;
mod drain;
mod embeddings;
mod explain;
mod export;
mod first_models;
pub mod gate;
pub mod guard;
mod head_waits;
mod learned;
mod llama_server;
mod memory;
mod messages;
mod models;
mod ollama;
mod page;
mod paths;
mod prewarm;
mod prewarm_documents;
mod profiles;
mod query;
mod realtime;
mod respond;
mod responses;
pub mod serve;
mod settings;
mod slots;
mod speech;
mod sse;
mod status;
mod templates;
pub mod texts;
mod translation;
mod turns;
mod typing;
mod upstream;
mod utterance;
mod verifying;
mod voice;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{FromRef, MatchedPath, Request, State};
use axum::handler::Handler;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{delete, get, patch, post, put};
use hob_slots::maintenance::{Collect, Prune, Remove};
use tower_http::compression::CompressionLayer;

use crate::adapters::RequestAdapters;
use crate::bridge::Bridge;
use crate::chat::Chat;
use crate::conversations::Conversations;
use crate::documents::Documents;
use crate::learned::Learned;
use crate::metrics::Metrics;
use crate::models::Models;
use crate::parts::Parts;
use crate::profiles::Profiles;
use crate::settings::SettingsEditor;
use crate::speech::Speech;
use crate::storage::Storage;
use body::BodyLimits;
use guard::Guard;

#[derive(Clone)]
pub struct Shared {
    pub parts: Parts,
    pub limits: BodyLimits,
}

/// A route takes the part that it needs as `State`.
macro_rules! from_parts {
    ($($part:ident: $type:ty),* $(,)?) => {$(
        impl FromRef<Shared> for $type {
            fn from_ref(shared: &Shared) -> Self {
                shared.parts.$part.clone()
            }
        }
    )*};
}

from_parts! {
    chat: Chat,
    adapters: RequestAdapters,
    conversations: Conversations,
    documents: Documents,
    profiles: Profiles,
    learned: Learned,
    speech: Speech,
    storage: Storage,
    models: Models,
    settings: SettingsEditor,
    metrics: Arc<Metrics>,
    bridge: Option<Bridge>,
}

impl FromRef<Shared> for BodyLimits {
    fn from_ref(shared: &Shared) -> Self {
        shared.limits
    }
}

/// All routes, guarded.
pub fn router(shared: Shared, guard: Arc<Guard>) -> Router {
    let (metrics, chat) = (shared.parts.metrics.clone(), shared.parts.chat.clone());
    routes()
        .fallback(page::file.layer(CompressionLayer::new()))
        .method_not_allowed_fallback(respond::no_such_method)
        .with_state(shared)
        .layer(middleware::from_fn_with_state(chat, upstream::refuse_local))
        .layer(middleware::from_fn_with_state(guard, guard::guard))
        .layer(middleware::from_fn_with_state(metrics, count))
}

fn routes() -> Router<Shared> {
    Router::new()
        .merge(generation_routes())
        .merge(model_routes())
        .merge(conversation_routes())
        .merge(prompt_routes())
        .merge(storage_routes())
        .merge(voice_routes())
        .merge(status_routes())
        .merge(anthropic::routes())
        .merge(llama_server::routes())
        .merge(ollama::routes())
        .merge(responses::routes())
}

fn generation_routes() -> Router<Shared> {
    Router::new()
        .route("/v1/chat/completions", post(chat::complete))
        .route("/v1/completions", post(completion::complete))
        .route("/v1/embeddings", post(embeddings::embed))
        .route("/v1/realtime/events", get(realtime::events))
        .route("/v1/prewarm", post(prewarm::prewarm))
        .route("/v1/turns", get(turns::list))
        .route("/v1/verify/correctness", post(correctness::compare))
}

fn model_routes() -> Router<Shared> {
    Router::new()
        .route("/v1/models", get(models::list))
        .route("/v1/models/local", get(models::local))
        .route("/v1/models/switch", post(models::switch))
        .route("/v1/models/suggested", get(first_models::suggested))
        .route(
            "/v1/models/fetch",
            get(first_models::progress).post(first_models::fetch).delete(first_models::cancel),
        )
        .route("/v1/models/{*id}", get(models::one)) // Names of models contain slashes.
}

fn conversation_routes() -> Router<Shared> {
    Router::new()
        .route("/v1/conversations", get(conversations::list))
        .route(
            "/v1/conversations/{id}",
            get(conversations::read)
                .patch(conversations::change)
                .delete(conversations::delete)
                .post(export::import),
        )
        .route("/v1/conversations/{id}/export", get(export::export))
        .route("/v1/conversations/{id}/answer", get(detached::read).delete(detached::stop))
        .route("/v1/conversations/{id}/context", get(context::context))
        .route("/v1/conversations/{id}/shorten", post(context::shorten))
        .route("/v1/conversations/{id}/explain", get(explain::explain))
        .route("/v1/conversations/{id}/speech-start", post(speech::start))
        .route("/v1/conversations/{id}/transcript", post(speech::transcript))
        .route("/v1/conversations/{id}/speech-end", post(speech::end))
        .route("/v1/conversations/{id}/audio", post(utterance::receive).delete(utterance::discard))
        .route("/v1/conversations/{id}/typing", post(typing::typed).delete(typing::left))
        .route(
            "/v1/conversations/{id}/messages/{message}",
            patch(messages::edit).delete(messages::delete),
        )
        .route("/v1/conversations/{id}/messages/{message}/restore", post(messages::restore))
        .route("/v1/conversations/{id}/fork", post(messages::fork))
}

/// What prompts begin with or contain besides messages.
fn prompt_routes() -> Router<Shared> {
    Router::new()
        .route(
            "/v1/templates",
            get(templates::list).put(templates::replace).delete(templates::delete),
        )
        .route("/v1/documents", get(documents::list).post(documents::add))
        .route("/v1/documents/{id}", get(documents::read).delete(documents::remove))
        .route("/v1/documents/{id}/read", post(documents::compute))
        .route("/v1/documents/{id}/text", get(documents::text))
        .route("/v1/profiles", get(profiles::list))
        .route(
            "/v1/profiles/{name}",
            get(profiles::read).put(profiles::save).delete(profiles::delete).post(profiles::check),
        )
        .route("/v1/learned", get(learned::list).delete(learned::forget_all))
        .route("/v1/learned/{name}", delete(learned::forget))
}

fn storage_routes() -> Router<Shared> {
    Router::new()
        .route("/v1/slots", get(slots::list))
        .route("/v1/slots/prune", post(slots::maintain::<Prune>))
        .route("/v1/slots/gc", post(slots::maintain::<Collect>))
        .route("/v1/slots/remove", post(slots::maintain::<Remove>))
        .route("/v1/slots/class", post(slots::set_class))
        .route("/v1/slots/import", post(slots::import))
        .route("/v1/slots/verify", post(verifying::verify))
        .route("/v1/slots/quota", put(slots::set_quota))
        .route("/v1/slots/quarantine", get(verifying::quarantine))
        .route("/v1/slots/quarantine/empty", post(verifying::empty))
        .route("/v1/memory", get(memory::memory))
        .route("/v1/memory/map", get(memory::map))
        .route("/v1/memory/events", get(memory::events))
}

fn voice_routes() -> Router<Shared> {
    Router::new()
        .route("/v1/audio/speech", post(audio::speak))
        .route("/v1/audio/transcriptions", post(audio::transcribe))
        .route("/v1/audio/translations", post(audio::translate))
        .route("/v1/voice/filler", get(voice::filler))
        .route("/v1/voice/transcriptions", post(voice::transcribe))
}

fn status_routes() -> Router<Shared> {
    Router::new()
        .route("/health", get(status::health))
        .route("/metrics", get(status::metrics))
        .route("/v1/stats", get(status::stats))
        .route("/v1/settings", get(settings::list).patch(settings::change))
        .route("/v1/status", get(status::status))
}

/// Counts and logs a request by its route, never by its path.
async fn count(State(metrics): State<Arc<Metrics>>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let route = route.unwrap_or_else(|| "none".to_owned());
    let (method, begun) = (request.method().clone(), Instant::now());
    let response = next.run(request).await;
    let status = response.status().as_u16();
    metrics.request(&route, status);
    tracing::debug!(%method, route, status, millis = begun.elapsed().as_millis(), "request");
    response
}

/// What the random requests and the checks of tokens go through.
#[cfg(test)]
#[path = "../../tests/suite/random_requests/routes.rs"]
mod declared_routes;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{declared_routes, routes};

    /// axum's router shows its paths, behind the numbers of its routes, in its debug output alone.
    fn registered() -> BTreeSet<String> {
        let shown = format!("{:?}", routes());
        let behind = shown.split("paths: {").nth(1).expect("the router shows its paths");
        let list = behind.split("} }").next().expect("the list of paths ends");
        let paths = list.split("): \"").skip(1).filter_map(|path| path.split('"').next());
        paths.map(str::to_owned).collect()
    }

    #[test]
    fn tests_that_go_through_all_routes_forget_none_of_the_router() {
        let registered = registered();
        assert!(registered.contains("/health") && registered.len() > 80, "{registered:?}");
        let declared = declared_routes::all();
        assert!(declared.iter().all(|route| !route.methods.is_empty()));
        let declared: BTreeSet<String> = declared.into_iter().map(|route| route.path).collect();
        let difference: Vec<_> = declared.symmetric_difference(&registered).collect();
        assert!(difference.is_empty(), "{difference:?}");
    }
}
