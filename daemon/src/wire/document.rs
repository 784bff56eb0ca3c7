//! The documents of a message: `hob.documents` of a user's message, checked.
//!
//! - A document is named by the SHA-256 of its text. Its text is in the transcript, not in the message.
//! - The name is stored beside the id, so that a message still names a document that was removed.

use std::fmt;
use std::str::FromStr;

use hob_slots::{CacheKey, ConversationId, KeyFields, KeySegment};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::fields::{Fields, wrong_type};
use crate::error::ApiError;

/// More in one message are refused.
pub const MAX_DOCUMENTS: usize = 32;
/// Characters of a name; longer ones are cut.
const MAX_NAME_CHARS: usize = 200;

/// SHA-256 of a document's text, as 64 hex digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentId(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a document's id has 64 hex digits")]
pub struct DocumentIdError;

impl DocumentId {
    pub fn of_text(text: &str) -> Self {
        let digest = Sha256::digest(text.as_bytes());
        Self(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DocumentId {
    type Err = DocumentIdError;

    fn from_str(text: &str) -> Result<Self, DocumentIdError> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() == 64 && text.bytes().all(is_digit) {
            return Ok(Self(text.to_owned()));
        }
        Err(DocumentIdError)
    }
}

impl fmt::Display for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The key under which a document's KV is saved: the hash that [`CacheKey`] gives one stable segment.
pub fn document_key(text: &str) -> ConversationId {
    let segments = vec![KeySegment { text: text.to_owned(), stable: true }];
    let fields = KeyFields { segments: Some(segments), ..KeyFields::default() };
    CacheKey::from_fields(&fields).expect("one stable segment is a key").id()
}

/// A document as a message names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentRef {
    pub id: DocumentId,
    /// Empty where the client names none.
    pub name: String,
}

impl DocumentRef {
    fn to_json(&self) -> Value {
        json!({"id": self.id.as_str(), "name": self.name})
    }
}

/// A name on one line, without control characters; `None` if that is empty.
pub fn document_name(name: &str) -> Option<String> {
    let words = name.split(|c: char| c.is_whitespace() || c.is_control());
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let line: String = line.chars().take(MAX_NAME_CHARS).collect();
    (!line.is_empty()).then_some(line)
}

/// Reads `hob.documents` of a message's `hob`. `is_users`: only a message of the user may have any.
pub(super) fn parse(hob: &Fields<'_>, is_users: bool) -> Result<Vec<DocumentRef>, ApiError> {
    let Some(list) = hob.list("documents")? else { return Ok(Vec::new()) };
    let path = hob.path("documents");
    if !is_users && !list.is_empty() {
        return Err(ApiError::field(path, "only messages of the user have documents"));
    }
    if list.len() > MAX_DOCUMENTS {
        let message = format!("a message has {MAX_DOCUMENTS} documents at most");
        return Err(ApiError::field(path, message));
    }
    let mut documents: Vec<DocumentRef> = Vec::new();
    for (n, value) in list.iter().enumerate() {
        let document = document_of(value, &format!("{path}[{n}]"))?;
        if !documents.iter().any(|known| known.id == document.id) {
            documents.push(document);
        }
    }
    Ok(documents)
}

/// `"id"`, or `{"id", "name"}`.
pub fn document_of(value: &Value, path: &str) -> Result<DocumentRef, ApiError> {
    let (id, id_path, name) = match value {
        Value::String(id) => (id.as_str(), path.to_owned(), None),
        Value::Object(_) => {
            let fields = Fields::of(value, path)?;
            (fields.required_string("id")?, fields.path("id"), fields.string("name")?)
        }
        other => return Err(wrong_type(path, "the id of a document", other)),
    };
    let id =
        id.parse().map_err(|error: DocumentIdError| ApiError::field(id_path, error.to_string()))?;
    Ok(DocumentRef { id, name: name.and_then(document_name).unwrap_or_default() })
}

/// The documents of a stored message.
pub(super) fn stored(message: &Map<String, Value>) -> Vec<DocumentRef> {
    let list = message.get("hob").and_then(|hob| hob.get("documents")).and_then(Value::as_array);
    let read = |value: &Value| {
        let id = value.get("id")?.as_str()?.parse().ok()?;
        let name = value.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(DocumentRef { id, name })
    };
    list.into_iter().flatten().filter_map(read).collect()
}

/// The field of a message's `hob`; `None` without documents.
pub(super) fn to_field(documents: &[DocumentRef]) -> Option<Value> {
    let list: Vec<Value> = documents.iter().map(DocumentRef::to_json).collect();
    (!list.is_empty()).then(|| list.into())
}
