//! Files among the blocks of a request: their text stands in place of their bytes, as that of a file that
//! `POST /v1/documents` takes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::documents::extract;
use crate::error::ApiError;
use crate::wire::document::MAX_DOCUMENTS;
use crate::wire::fields::Fields;

/// # Errors
/// Names the file that has no text, or is one too many.
pub async fn read(body: &mut Value) -> Result<(), ApiError> {
    for (n, (path, block)) in files(body).into_iter().enumerate() {
        let path = format!("{path}.source");
        if n >= MAX_DOCUMENTS {
            let message = format!("`{path}`: a request may have {MAX_DOCUMENTS} files");
            return Err(ApiError::field(path, message));
        }
        let source = Fields::of(&block["source"], &path)?;
        let bytes = BASE64.decode(source.required_string("data")?).map_err(|error| {
            let path = source.path("data");
            let message = format!("`{path}` is not base64: {error}");
            ApiError::field(path, message)
        })?;
        let document = extract::document(bytes, "").await.map_err(|error| {
            let message = format!("`{path}`: {}", error.message);
            ApiError { message, ..error }.param(path.as_str())
        })?;
        block["source"] =
            json!({"type": "text", "media_type": "text/plain", "data": document.text});
    }
    Ok(())
}

/// The blocks with a file, also within results of tools, and their paths.
fn files(body: &mut Value) -> Vec<(String, &mut Value)> {
    let mut found = Vec::new();
    for (n, message) in list(body, "messages").enumerate() {
        for (m, block) in list(message, "content").enumerate() {
            let path = format!("messages[{n}].content[{m}]");
            if is_file(block) {
                found.push((path, block));
            } else if block["type"] == "tool_result" {
                let parts = list(block, "content").enumerate();
                let parts = parts.filter(|(_, part)| is_file(part));
                found.extend(parts.map(|(k, part)| (format!("{path}.content[{k}]"), part)));
            }
        }
    }
    found
}

fn list<'v>(holder: &'v mut Value, name: &str) -> impl Iterator<Item = &'v mut Value> {
    holder.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

fn is_file(block: &Value) -> bool {
    block["type"] == "document" && block["source"]["type"] == "base64"
}
