//! llama-server's own routes, for the programs that speak them and no other protocol.
//!
//! - A request becomes the body of a completion, which the parser of OpenAI's API checks; errors name the fields
//!   of llama-server. An answer becomes its objects.
//! - `/completions` and `/embeddings` without `/v1` are also how OpenAI's clients spell their routes where the base
//!   address lacks it: the body tells which is meant.
//! - Hob chooses slots and finds KV by itself: `id_slot` is a name of KV, which `/slots/{id}` saves, restores and erases.
//!
//! Reading order: `prompt` (its forms), `request` (to OpenAI's form), `infill`, `completion` (the routes), `answer` with
//! `settings` and `probabilities` (its objects), `embedding`, `rerank`, `tokens`, `props`, `slots`, `lora`.

mod answer;
mod completion;
mod embedding;
mod infill;
mod lora;
mod probabilities;
mod prompt;
mod props;
mod request;
mod rerank;
mod settings;
mod slots;
mod tokens;

use axum::Router;
use axum::routing::{get, post};

use super::Shared;
pub(super) use prompt::normalised;

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/completion", post(completion::complete))
        .route("/completions", post(completion::either))
        .route("/infill", post(infill::infill))
        .route("/embedding", post(embedding::embed))
        .route("/embeddings", post(embedding::either))
        .route("/rerank", post(rerank::rerank))
        .route("/reranking", post(rerank::rerank))
        .route("/v1/rerank", post(rerank::rerank))
        .route("/v1/reranking", post(rerank::rerank))
        .route("/apply-template", post(tokens::apply_template))
        .route("/tokenize", post(tokens::tokenize))
        .route("/detokenize", post(tokens::detokenize))
        .route("/v1/chat/completions/input_tokens", post(tokens::count))
        .route("/props", get(props::props))
        .route("/slots", get(slots::list))
        .route("/slots/{id}", post(slots::act))
        .route("/lora-adapters", get(lora::list))
}
