//! `/v1/responses`: OpenAI's Responses API, as chats of stored conversations.
//!
//! Reading order:
//! - The request: `request` (the body as that of a chat) with `input` and `hosted` (items of other servers),
//!   `tools`, `client_tools` (what the chat's functions are to the client) with `local_shell` and `tool_search`,
//!   `paths` (fields in errors), `without_token` (what it may not have then).
//! - The conversation: `place` (ids), `references` and `origin` (what a response continues, and where it is stored).
//! - The answer: `object` (a response) with `echo` (what it repeats of the request) and `reasoning_form`, `create`,
//!   `stream` with `items` (its events).
//! - Afterwards: `stored` (reading and deleting a response), `conversation` (a new one, and its items).

mod client_tools;
mod conversation;
mod create;
mod echo;
mod hosted;
mod input;
mod items;
mod local_shell;
mod object;
pub(super) mod origin;
mod paths;
pub(super) mod place;
mod reasoning_form;
mod references;
mod request;
pub(super) mod stored;
mod stream;
mod tool_search;
mod tools;
mod without_token;

use axum::Router;
use axum::routing::{get, post};

use super::Shared;

pub fn routes() -> Router<Shared> {
    Router::new()
        .route("/v1/responses", post(create::create))
        .route("/v1/responses/input_tokens", post(create::input_tokens))
        .route("/v1/responses/{id}", get(stored::read).delete(stored::delete))
        .route("/v1/responses/{id}/cancel", post(stored::cancel))
        .route("/v1/responses/{id}/input_items", get(stored::input_items))
        .route("/v1/conversations", post(conversation::create))
        .route("/v1/conversations/{id}/items", get(conversation::items).post(conversation::add))
        .route(
            "/v1/conversations/{id}/items/{item}",
            get(conversation::item).delete(conversation::delete),
        )
}
