//! `/rerank`: how well each of some texts fits a query, the best first. For rerankers.
//!
//! - In the form of Jina's and Cohere's APIs with `documents`, in that of Hugging Face's TEI with `texts`.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::super::body::JsonBody;
use crate::chat::Chat;
use crate::error::ApiError;
use crate::wire::fields::{Fields, wrong_type};
use crate::wire::ranking::Ranking;

const MAX_DOCUMENTS: usize = 2048;

/// `POST /rerank {"query", "documents" | "texts", "top_n", "return_documents" | "return_text"}`
pub async fn rerank(State(chat): State<Chat>, body: JsonBody) -> Result<Json<Value>, ApiError> {
    let fields = Fields::of_body(&body.value)?;
    let query = fields.required_string("query")?;
    let is_tei = fields.get("texts").is_some();
    let documents = documents(&fields, if is_tei { "texts" } else { "documents" })?;
    let top = fields.integer("top_n", 0..=i64::MAX)?.and_then(|top| usize::try_from(top).ok());
    let returns = fields.boolean(if is_tei { "return_text" } else { "return_documents" })?;
    let asked = body.value["model"].as_str();
    let Ranking { scores, tokens, model } = chat.rank(asked, query, &documents).await?;
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
    order.truncate(top.unwrap_or(usize::MAX));
    let name = if is_tei { "score" } else { "relevance_score" };
    let result = |index: usize| {
        let mut result = json!({"index": index, name: scores[index]});
        if returns == Some(true) {
            let text = &documents[index];
            if is_tei {
                result["text"] = text.as_str().into();
            } else {
                result["document"] = json!({"text": text});
            }
        }
        result
    };
    let results: Value = order.into_iter().map(result).collect();
    Ok(Json(if is_tei {
        results
    } else {
        json!({
            "object": "list",
            "model": model.as_deref().unwrap_or(chat.model_name()),
            "results": results,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        })
    }))
}

fn documents(fields: &Fields<'_>, name: &str) -> Result<Vec<String>, ApiError> {
    let value = fields.required(name)?;
    let list = value.as_array().ok_or_else(|| wrong_type(name, "an array of texts", value))?;
    if list.is_empty() || list.len() > MAX_DOCUMENTS {
        let message = format!("`{name}` may have 1 to {MAX_DOCUMENTS} texts, not {}", list.len());
        return Err(ApiError::field(name, message));
    }
    let text = |(n, text): (usize, &Value)| {
        let read = text.as_str().map(str::to_owned);
        read.ok_or_else(|| wrong_type(&format!("{name}[{n}]"), "a string", text))
    };
    list.iter().enumerate().map(text).collect()
}
