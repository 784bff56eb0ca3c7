//! A conversation outside of the database, and its JSON.
//!
//! - A message comes after its parent; ids are unique within the export.
//! - An answer that is still growing is exported as an interrupted one.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{ConversationText, MAX_TITLE_CHARS, SavedMessage, Status, StoredDocument, finish};
use crate::error::ApiError;
use crate::wire::document::{DocumentId, document_name};
use crate::wire::fields::{Fields, unsupported, wrong_type};
use crate::wire::message::{Message, Role};
use crate::wire::sampling::SamplingFields;

/// The version that is written, and the latest that is read.
pub const VERSION: i64 = 1;

const FORMAT: &str = "hob conversation";
/// About 4,300 years.
const MAX_SECONDS: i64 = 1 << 37;

/// A conversation with its branches. Times are milliseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConversationExport {
    /// Its id where it was exported.
    pub id: Option<String>,
    pub title: Option<String>,
    pub created_at: Option<i64>,
    pub updated_at: Option<i64>,
    pub pinned: bool,
    /// The latest message of the branch that was used last.
    pub head: Option<i64>,
    /// What stands in front of prompts in place of its own system messages.
    pub instructions: Option<String>,
    /// Parameters of its answers: an object, checked as a request's.
    pub sampling: Option<Value>,
    pub messages: Vec<Node>,
    /// The documents that the messages name.
    pub documents: Vec<StoredDocument>,
}

/// The branches of a conversation to export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    Tree,
    /// The branch that was used last.
    Branch,
}

/// A message of the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub id: i64,
    pub parent: Option<i64>,
    pub message: Message,
    pub status: Status,
    /// Milliseconds since 1970.
    pub created_at: Option<i64>,
    /// How an answer ended, and what it cost.
    pub finish: Option<Value>,
    /// Later prompts begin with it, behind the instructions.
    pub starts_prompt: bool,
    /// What those prompts have in place of the older messages.
    pub summary: Option<String>,
    /// Older messages that stand in front of it in prompts that leave them out: their places on the branch.
    pub brings: Vec<u32>,
}

impl ConversationExport {
    pub fn of(text: &ConversationText, extent: Extent) -> Self {
        let messages: Vec<&SavedMessage> = match extent {
            Extent::Tree => text.messages.iter().collect(),
            Extent::Branch => text.path(),
        };
        let node = |stored: &SavedMessage| {
            let Value::Object(json) = stored.message.clone() else { return None };
            Some(Node {
                id: stored.id,
                parent: stored.parent,
                message: Message::from_stored_map(json)?,
                status: ended(stored.status),
                created_at: Some(stored.created_at),
                finish: stored.finish.clone(),
                starts_prompt: stored.starts_prompt,
                summary: stored.summary.clone(),
                brings: stored.brings.clone(),
            })
        };
        let summary = &text.summary;
        Self {
            id: Some(summary.id.clone()),
            title: summary.title.clone(),
            created_at: Some(summary.created_at),
            updated_at: Some(summary.updated_at),
            pinned: summary.pinned,
            head: text.head,
            instructions: text.instructions.clone(),
            sampling: text.sampling.clone(),
            messages: messages.into_iter().filter_map(node).collect(),
            documents: Vec::new(),
        }
    }

    /// The ids of the documents that the messages name.
    pub fn named_documents(&self) -> BTreeSet<DocumentId> {
        super::named_documents(self.messages.iter().map(|node| &node.message))
    }

    pub fn to_json(&self) -> Value {
        let seconds = |at: Option<i64>| at.map(|at| at / 1000);
        let message = |node: &Node| {
            let mut message = json!({
                "id": node.id,
                "parent": node.parent,
                "message": node.message.to_json(),
                "status": node.status.as_str(),
                "created_at": seconds(node.created_at),
                "finish": node.finish,
            });
            if node.starts_prompt {
                message["starts_prompt"] = true.into();
            }
            if let Some(summary) = &node.summary {
                message["summary"] = summary.as_str().into();
            }
            if !node.brings.is_empty() {
                message["brings"] = node.brings.clone().into();
            }
            message
        };
        let mut json = json!({
            "format": FORMAT,
            "version": VERSION,
            "id": self.id,
            "title": self.title,
            "created_at": seconds(self.created_at),
            "updated_at": seconds(self.updated_at),
            "pinned": self.pinned,
            "head": self.head,
            "messages": self.messages.iter().map(message).collect::<Vec<_>>(),
        });
        if let Some(instructions) = &self.instructions {
            json["instructions"] = instructions.as_str().into();
        }
        if let Some(sampling) = &self.sampling {
            json["sampling"] = sampling.clone();
        }
        if !self.documents.is_empty() {
            let document = |document: &StoredDocument| {
                let StoredDocument { name, kind, text } = document;
                json!({"id": document.id().as_str(), "name": name, "kind": kind, "text": text})
            };
            json["documents"] = self.documents.iter().map(document).collect();
        }
        json
    }

    /// Reads what [`ConversationExport::to_json`] or another program wrote.
    ///
    /// # Errors
    /// Name the field that is wrong.
    pub fn from_json(value: &Value) -> Result<Self, ApiError> {
        let fields = Fields::of_body(value)?;
        if fields.required_string("format")? != FORMAT {
            return Err(ApiError::field("format", format!("`format` must be `{FORMAT}`")));
        }
        check_version(fields.integer("version", 1..=i64::MAX)?.unwrap_or(VERSION))?;
        let list = fields.required("messages")?;
        let list =
            list.as_array().ok_or_else(|| wrong_type("messages", "an array of messages", list))?;
        if list.is_empty() {
            return Err(ApiError::field("messages", "there is no message in it"));
        }
        let mut known = BTreeSet::new();
        let mut messages = Vec::with_capacity(list.len());
        for (n, value) in list.iter().enumerate() {
            let node = node(value, &format!("messages[{n}]"), &known)?;
            known.insert(node.id);
            messages.push(node);
        }
        let head = fields.integer("head", 1..=i64::MAX)?;
        if head.is_some_and(|head| !known.contains(&head)) {
            return Err(ApiError::field("head", "`head` must be the `id` of one of the messages"));
        }
        Ok(Self {
            id: fields.string("id")?.map(str::to_owned),
            title: fields.string("title")?.and_then(one_line),
            created_at: time(&fields, "created_at")?,
            updated_at: time(&fields, "updated_at")?,
            pinned: fields.boolean("pinned")?.unwrap_or(false),
            head,
            instructions: fields.string("instructions")?.map(str::to_owned),
            sampling: SamplingFields::object(&fields)?,
            messages,
            documents: documents(&fields)?,
        })
    }
}

/// The documents of an export. Their ids follow from their texts.
fn documents(fields: &Fields<'_>) -> Result<Vec<StoredDocument>, ApiError> {
    let mut documents = Vec::new();
    for (n, value) in fields.list("documents")?.into_iter().flatten().enumerate() {
        let path = format!("documents[{n}]");
        let fields = Fields::of(value, &path)?;
        let name = document_name(fields.required_string("name")?).unwrap_or_default();
        let kind = fields.string("kind")?.unwrap_or("text").to_owned();
        let text = fields.required_string("text")?.to_owned();
        documents.push(StoredDocument { name, kind, text });
    }
    Ok(documents)
}

/// A title without control characters, on one line; `None` if that is empty.
pub fn one_line(title: &str) -> Option<String> {
    let words = title.split(|c: char| c.is_whitespace() || c.is_control());
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let line: String = line.chars().take(MAX_TITLE_CHARS).collect();
    (!line.is_empty()).then_some(line)
}

/// # Errors
/// When a later version of Hob wrote the export.
pub fn check_version(version: i64) -> Result<(), ApiError> {
    if version == VERSION {
        return Ok(());
    }
    let message = format!(
        "it has version {version}, which a later version of Hob made; this one reads version {VERSION}"
    );
    Err(ApiError::field("version", message))
}

fn node(value: &Value, path: &str, known: &BTreeSet<i64>) -> Result<Node, ApiError> {
    let fields = Fields::of(value, path)?;
    fields.required("id")?;
    let id = fields.integer("id", 1..=i64::MAX)?.expect("it is there");
    if known.contains(&id) {
        return Err(ApiError::field(fields.path("id"), "two messages have this `id`"));
    }
    let parent = fields.integer("parent", 1..=i64::MAX)?;
    if parent.is_some_and(|parent| !known.contains(&parent)) {
        let message = "`parent` must be the `id` of an earlier message";
        return Err(ApiError::field(fields.path("parent"), message));
    }
    let message = Message::parse(fields.required("message")?, &fields.path("message"))?;
    finish::check(&fields)?;
    let finish = fields.map("finish")?.cloned().map(Value::Object);
    if finish.is_some() && message.role != Role::Assistant {
        return Err(ApiError::field(fields.path("finish"), "only answers have a `finish`"));
    }
    let status = match fields.string("status")? {
        None => Status::Complete,
        Some(word) => status(word, &fields.path("status"))?,
    };
    let created_at = time(&fields, "created_at")?;
    let starts_prompt = fields.boolean("starts_prompt")?.unwrap_or(false);
    let summary = fields.string("summary")?.filter(|_| starts_prompt).map(str::to_owned);
    let brings = brings(&fields)?;
    Ok(Node { id, parent, message, status, created_at, finish, starts_prompt, summary, brings })
}

fn brings(fields: &Fields<'_>) -> Result<Vec<u32>, ApiError> {
    let places = fields.list("brings")?.map_or(&[][..], Vec::as_slice);
    let place = |value: &Value| {
        let place = value.as_u64().and_then(|place| u32::try_from(place).ok());
        let message = "`brings` has the places of older messages, from 0";
        place.ok_or_else(|| ApiError::field(fields.path("brings"), message))
    };
    places.iter().map(place).collect()
}

/// The status of a message that does not grow any more.
pub fn status(word: &str, path: &str) -> Result<Status, ApiError> {
    match word {
        "complete" => Ok(Status::Complete),
        "interrupted" | "streaming" => Ok(Status::Interrupted),
        other => {
            let message = format!("there is no status `{}`", other.escape_debug());
            Err(unsupported(path, message))
        }
    }
}

fn ended(status: Status) -> Status {
    if status == Status::Streaming { Status::Interrupted } else { status }
}

fn time(fields: &Fields<'_>, name: &str) -> Result<Option<i64>, ApiError> {
    Ok(fields.integer(name, 0..=MAX_SECONDS)?.map(|seconds| seconds * 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export() -> Value {
        let message = |role: &str, text: &str| json!({"role": role, "content": text});
        json!({"format": FORMAT, "version": 1, "id": "a", "title": "Hi", "created_at": 5,
        "updated_at": 6, "pinned": true, "head": 3, "instructions": "Be brief.",
        "sampling": {"temperature": 0.5}, "messages": [
            {"id": 1, "parent": null, "message": message("user", "Hello"), "status": "complete",
             "created_at": 5, "finish": null},
            {"id": 2, "parent": 1, "message": message("assistant", "One"), "status": "interrupted",
             "created_at": 5, "finish": null},
            {"id": 3, "parent": 1, "message": message("assistant", "Two"), "status": "complete",
             "created_at": 6, "finish": {"finish_reason": "stop"}},
        ]})
    }

    #[test]
    fn a_written_export_is_read_back() {
        assert_eq!(ConversationExport::from_json(&export()).unwrap().to_json(), export());
    }

    #[test]
    fn a_wrong_field_is_named() {
        let with = |pointer: &str, value: Value| {
            let mut json = export();
            *json.pointer_mut(pointer).unwrap() = value;
            ConversationExport::from_json(&json).unwrap_err().param.unwrap()
        };
        for (pointer, value, param) in [
            ("/format", json!("something"), "format"),
            ("/version", json!(2), "version"),
            ("/head", json!(9), "head"),
            ("/sampling/temperature", json!(3), "sampling.temperature"),
            ("/messages", json!([]), "messages"),
            ("/messages", json!({}), "messages"),
            ("/messages/1/id", json!(1), "messages[1].id"),
            ("/messages/1/id", json!(0), "messages[1].id"),
            ("/messages/1/id", Value::Null, "messages[1].id"),
            ("/messages/1/parent", json!(3), "messages[1].parent"),
            ("/messages/1/parent", json!(2), "messages[1].parent"),
            ("/messages/0/finish", json!({}), "messages[0].finish"),
            ("/messages/0/status", json!("lost"), "messages[0].status"),
            ("/messages/0/created_at", json!(-1), "messages[0].created_at"),
            ("/messages/0/message/role", json!("robot"), "messages[0].message.role"),
        ] {
            assert_eq!(with(pointer, value), param, "{pointer}");
        }
    }

    #[test]
    fn a_title_is_one_line() {
        let mut json = export();
        json["title"] = json!(format!("a\n\u{7}b {}", "c".repeat(300)));
        let title = ConversationExport::from_json(&json).unwrap().title.unwrap();
        assert!(title.starts_with("a b ccc") && title.chars().count() == MAX_TITLE_CHARS);
        json["title"] = json!(" \n");
        assert_eq!(ConversationExport::from_json(&json).unwrap().title, None);
    }
}
