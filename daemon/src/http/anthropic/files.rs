//! Files among the blocks of a request: their text stands in place of their bytes, as that of a file that
//! `POST /v1/documents` takes.
//!
//! - A child process extracts the text of a PDF once: [`PdfTexts`] has it for the next request of the conversation,
//!   unless the request is private.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::chat::identity::{Identity, Session};
use crate::conversations::Conversations;
use crate::conversations::pdf_texts::{FileHash, PdfTexts};
use crate::documents::extract;
use crate::error::ApiError;
use crate::metrics::Metrics;
use crate::wire::document::MAX_DOCUMENTS;
use crate::wire::fields::Fields;

/// The texts that were extracted for a request.
#[must_use]
pub struct Extracted {
    texts: Vec<(FileHash, String)>,
    /// Deletions before the request.
    deletions: u64,
}

impl Extracted {
    fn get(&self, file: FileHash) -> Option<String> {
        let own = self.texts.iter().find(|(extracted, _)| *extracted == file);
        own.map(|(_, text)| text.clone())
    }

    /// Keeps the texts for the next request, once this one is answered. `chat`: its body as that of a chat.
    pub fn keep(self, chat: &Value, session: &Session, conversations: &Conversations) {
        let Ok(identity) = Identity::of(chat, session) else { return };
        let transcript = &conversations.transcript;
        let is_private = chat["hob"]["private"] == true
            || chat["store"] == false
            || identity.named().is_some_and(|id| transcript.is_private(id));
        if is_private {
            return;
        }
        for (file, text) in &self.texts {
            conversations.pdf_texts.put(*file, text, self.deletions);
        }
    }
}

/// Puts texts in place of files.
///
/// # Errors
/// Names the file that has no text, or is one too many.
pub async fn read(
    body: &mut Value,
    known: &PdfTexts,
    metrics: &Metrics,
) -> Result<Extracted, ApiError> {
    let mut extracted = Extracted { texts: Vec::new(), deletions: known.deletions() };
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
        let file = FileHash::of(&bytes);
        let before = extracted.get(file).or_else(|| known.get(file).map(|text| text.to_string()));
        let text = match before {
            Some(text) => text,
            None => {
                let document = extract::document(bytes, "").await.map_err(|error| {
                    let message = format!("`{path}`: {}", error.message);
                    ApiError { message, ..error }.param(path.as_str())
                })?;
                if document.kind == extract::PDF {
                    metrics.extracted_pdf();
                    extracted.texts.push((file, document.text.clone()));
                }
                document.text
            }
        };
        block["source"] = json!({"type": "text", "media_type": "text/plain", "data": text});
    }
    Ok(extracted)
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
