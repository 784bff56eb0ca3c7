//! Ollama's API, for the programs that speak it and no other.
//!
//! - A request becomes the body of a chat or a completion, which the parsers of OpenAI's API check; errors name
//!   Ollama's fields. An answer becomes lines of JSON.
//! - `model` chooses nothing: a daemon runs one model, and `/api/tags` lists it. With an upstream, it chooses of the
//!   engine's models.
//! - Every error below `/api/` is `{"error": "message"}`, also those of the layers in front of the routes.
//!
//! Reading order: `messages` and `request` (to OpenAI's form), `chat`, `generate`, `load` (empty requests,
//! `keep_alive`), `answer` with `object`, `calls`, `figures` and `ndjson` (from pieces to lines), `embed`, `models`,
//! `refused`, `errors`.

mod answer;
mod calls;
mod chat;
mod embed;
pub(super) mod errors;
mod figures;
mod generate;
mod load;
mod messages;
mod models;
mod ndjson;
mod object;
mod refused;
mod request;

use axum::Router;
use axum::routing::{any, get, post};

use super::Shared;

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/api/version", get(models::version))
        .route("/api/tags", get(models::tags))
        .route("/api/ps", get(models::running))
        .route("/api/show", post(models::show))
        .route("/api/chat", post(chat::chat))
        .route("/api/generate", post(generate::generate))
        .route("/api/embed", post(embed::embed))
        .route("/api/embeddings", post(embed::embed_one))
        .route("/api/pull", any(refused::pull))
        .route("/api/create", any(refused::create))
        .route("/api/delete", any(refused::delete))
        .route("/api/copy", any(refused::copy))
        .route("/api/push", any(refused::push))
        .route("/api/blobs/{digest}", any(refused::blob))
}
