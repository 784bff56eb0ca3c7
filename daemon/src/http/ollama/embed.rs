//! `/api/embed` and the older `/api/embeddings`, for embedding models.
//!
//! - A text that is longer than the context is cut, as Ollama does, unless `truncate` is false: programs that search
//!   documents rely on it.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::super::body::JsonBody;
use super::figures::Timer;
use super::load::{KeepAlive, keep_alive, load_or_free};
use super::models::listed;
use crate::chat::Chat;
use crate::error::ApiError;
use crate::wire::embedding::{EmbeddingRequest, Embeddings, shortened};
use crate::wire::fields::Fields;

/// `POST /api/embed`: without a text it loads the weights, or frees them.
pub async fn embed(State(chat): State<Chat>, body: JsonBody) -> Result<Json<Value>, ApiError> {
    let fields = Fields::of_body(&body.value)?;
    let stay = keep_alive(&fields)?;
    let timer = Timer::start(chat.engine());
    let Embeddings { vectors, tokens, model } = match fields.get("input") {
        Some(input) if !is_empty(input) => {
            let _keep_alive = KeepAlive::new(chat.clone(), stay);
            let embeddings = embeddings(&chat, &fields).await?;
            timer.note_loaded();
            embeddings
        }
        _ => {
            load_or_free(&chat, stay, &timer).await?;
            Embeddings::default()
        }
    };
    let model = listed(model.as_deref().unwrap_or(chat.model_name()));
    let mut answer = json!({"model": model, "embeddings": vectors});
    timer.write_load(&mut answer);
    answer["prompt_eval_count"] = tokens.into();
    Ok(Json(answer))
}

/// `POST /api/embeddings`: the vector of one text.
pub async fn embed_one(State(chat): State<Chat>, body: JsonBody) -> Result<Json<Value>, ApiError> {
    let fields = Fields::of_body(&body.value)?;
    let stay = keep_alive(&fields)?;
    let vector = match fields.string("prompt")?.filter(|prompt| !prompt.is_empty()) {
        Some(prompt) => {
            let _keep_alive = KeepAlive::new(chat.clone(), stay);
            let body = json!({"model": fields.get("model"), "input": prompt});
            let of_prompt = embeddings(&chat, &Fields::of_body(&body)?).await?;
            of_prompt.vectors.into_iter().next()
        }
        None => {
            load_or_free(&chat, stay, &Timer::start(chat.engine())).await?;
            None
        }
    };
    Ok(Json(json!({"embedding": vector.unwrap_or_default()})))
}

fn is_empty(input: &Value) -> bool {
    input.as_str().is_some_and(str::is_empty) || input.as_array().is_some_and(Vec::is_empty)
}

async fn embeddings(chat: &Chat, fields: &Fields<'_>) -> Result<Embeddings, ApiError> {
    let vocabulary = chat.token_bound();
    let asked = json!({
        "model": fields.get("model"),
        "input": fields.get("input"),
        "dimensions": fields.get("dimensions"),
    });
    let request = EmbeddingRequest::parse(&asked, vocabulary)?;
    let model = request.model.as_deref();
    let mut embeddings = match fields.boolean("truncate")? {
        Some(false) => chat.embed(model, &request.inputs).await?,
        _ => chat.embed_beginnings(model, &request.inputs).await?,
    };
    if let Some(dimensions) = request.dimensions {
        embeddings.vectors = shortened(embeddings.vectors, dimensions)?;
    }
    Ok(embeddings)
}
