//! `GET /lora-adapters`: the adapters that requests may name, in llama-server's form.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::adapters::RequestAdapters;

/// A request without `lora` has none of them: their factors are 0.
pub async fn list(State(adapters): State<RequestAdapters>) -> Json<Value> {
    let entry = |(id, adapter): (usize, &hob_config::NamedAdapter)| {
        json!({"id": id, "name": adapter.name, "path": adapter.path.display().to_string(),
            "scale": 0.0})
    };
    Json(adapters.list().iter().enumerate().map(entry).collect())
}
