//! The contents of messages: lists of blocks, or a text for a list of one block.
//!
//! - A message of the user with results of tools becomes one chat message a result, and one of its text
//!   behind them.
//! - A call of a tool that Anthropic's servers ran is one of the chat, with its result behind it, where the result
//!   can be read; else it is left out.
//! - Texts of one message are joined by line breaks, those of an answer without: it was one text, with
//!   calls in between.

use serde_json::{Map, Value, json};

use super::cache::Marks;
use super::ran;
use crate::error::ApiError;
use crate::wire::fields::{Fields, unsupported, wrong_type};
use crate::wire::message::{PICTURE, tool_call};

/// A message, in the chat's form.
pub enum Message {
    System(String),
    Others(Vec<Value>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    System,
    User,
    Assistant,
}

enum Block {
    Text(String),
    Reasoning(String),
    /// As an answer has it.
    Call(Value),
    /// The result of a tool that the server ran.
    Ran(Value),
    Result {
        id: String,
        text: String,
    },
    /// Nothing of it can be read.
    Sealed,
}

/// The chat messages of the message at `path`.
pub fn messages_of(value: &Value, path: &str, marks: &mut Marks) -> Result<Message, ApiError> {
    let fields = Fields::of(value, path)?;
    let role = match fields.required_string("role")? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        other => {
            let (path, other) = (fields.path("role"), other.escape_debug());
            let message = format!("`{path}` must be user, assistant or system, not `{other}`");
            return Err(ApiError::field(path, message));
        }
    };
    let blocks = blocks(&fields, "content", role, marks)?;
    let mut messages = match role {
        Role::System => return Ok(Message::System(joined(blocks))),
        Role::User => of_user(blocks),
        Role::Assistant => of_assistant(blocks),
    };
    if let (Some(hob), Some(last)) = (fields.get("hob"), messages.last_mut()) {
        last["hob"] = hob.clone();
    }
    Ok(Message::Others(messages))
}

/// The text of a field that is a text or a list of blocks of text.
pub fn text_of(fields: &Fields<'_>, name: &str, marks: &mut Marks) -> Result<String, ApiError> {
    blocks(fields, name, Role::System, marks).map(joined)
}

fn blocks(
    fields: &Fields<'_>,
    name: &str,
    role: Role,
    marks: &mut Marks,
) -> Result<Vec<Block>, ApiError> {
    let path = fields.path(name);
    match fields.required(name)? {
        Value::String(text) => Ok(vec![Block::Text(text.clone())]),
        Value::Array(blocks) => {
            let block = |(n, value)| block(value, &format!("{path}[{n}]"), role, marks);
            blocks.iter().enumerate().map(block).collect()
        }
        other => Err(wrong_type(&path, "a string or an array of blocks", other)),
    }
}

fn block(value: &Value, path: &str, role: Role, marks: &mut Marks) -> Result<Block, ApiError> {
    let fields = Fields::of(value, path)?;
    marks.read(&fields)?;
    Ok(match (fields.required_string("type")?, role) {
        ("text", _) => Block::Text(fields.required_string("text")?.to_owned()),
        ("document", Role::User) => Block::Text(document(&fields)?),
        ("search_result", Role::User) => Block::Text(search_result(&fields)?),
        ("tool_result", Role::User) => result(&fields, marks)?,
        ("tool_use", Role::Assistant) => Block::Call(call(&fields)?),
        ("server_tool_use" | "mcp_tool_use", Role::Assistant) => Block::Ran(call(&fields)?),
        (kind, Role::Assistant) if kind.ends_with("_tool_result") => {
            let id = fields.required_string("tool_use_id")?.to_owned();
            let text = fields.get("content").and_then(ran::text);
            text.map_or(Block::Sealed, |text| Block::Result { id, text })
        }
        ("thinking", Role::Assistant) => {
            Block::Reasoning(fields.required_string("thinking")?.to_owned())
        }
        ("redacted_thinking", Role::Assistant) => Block::Sealed,
        (kind, _) => return Err(unknown(&fields, kind)),
    })
}

fn unknown(fields: &Fields<'_>, kind: &str) -> ApiError {
    let (path, kind) = (fields.path("type"), kind.escape_debug());
    let message = match kind.to_string().as_str() {
        "image" => format!(
            "`{path}`: image input is not supported, Hob reads text: leave the block out, or say in a `text` what the \
             picture shows"
        ),
        kind => format!("`{path}`: blocks of type `{kind}` are not supported here"),
    };
    unsupported(path, message)
}

fn call(fields: &Fields<'_>) -> Result<Value, ApiError> {
    let (id, name) = (fields.required_string("id")?, fields.required_string("name")?);
    fields.required("input")?;
    let input = fields.map("input")?.expect("it is not null");
    let arguments = Value::Object(input.clone()).to_string();
    Ok(tool_call(id, name, &arguments))
}

fn result(fields: &Fields<'_>, marks: &mut Marks) -> Result<Block, ApiError> {
    let id = fields.required_string("tool_use_id")?.to_owned();
    let text = match fields.get("content") {
        Some(Value::Array(parts)) => {
            let path = fields.path("content");
            let part = |(n, part)| result_part(part, &format!("{path}[{n}]"), marks);
            let texts = parts.iter().enumerate().map(part).collect::<Result<Vec<_>, _>>()?;
            texts.join("\n")
        }
        _ => fields.string("content")?.unwrap_or_default().to_owned(),
    };
    // Chat templates know no other way to say that a tool failed.
    let failed = fields.boolean("is_error")?.unwrap_or(false);
    let text = if failed { format!("Error: {text}") } else { text };
    Ok(Block::Result { id, text })
}

fn result_part(value: &Value, path: &str, marks: &mut Marks) -> Result<String, ApiError> {
    let fields = Fields::of(value, path)?;
    marks.read(&fields)?;
    match fields.required_string("type")? {
        "text" => fields.required_string("text").map(str::to_owned),
        "document" => document(&fields),
        "search_result" => search_result(&fields),
        "image" => Ok(PICTURE.to_owned()),
        kind => Err(unknown(&fields, kind)),
    }
}

/// The text of a document, behind its title.
fn document(fields: &Fields<'_>) -> Result<String, ApiError> {
    let path = fields.path("source");
    let source = Fields::of(fields.required("source")?, &path)?;
    let text = match source.required_string("type")? {
        "text" => source.required_string("data")?.to_owned(),
        "content" => texts(&source, "content")?,
        kind => {
            let (path, kind) = (source.path("type"), kind.escape_debug());
            let message = format!(
                "`{path}`: documents of type `{kind}` are not supported, only `text`, `content` and `base64`"
            );
            return Err(unsupported(path, message));
        }
    };
    let title = fields.string("title")?.map(|title| format!("{title}\n"));
    Ok(title.unwrap_or_default() + &text)
}

/// The text of a result of a search, behind its title and its source.
fn search_result(fields: &Fields<'_>) -> Result<String, ApiError> {
    let (title, source) = (fields.required_string("title")?, fields.required_string("source")?);
    Ok(format!("{title}\n{source}\n{}", texts(fields, "content")?))
}

/// A text, or the texts of blocks.
fn texts(fields: &Fields<'_>, name: &str) -> Result<String, ApiError> {
    text_of(fields, name, &mut Marks::default())
}

fn joined(blocks: Vec<Block>) -> String {
    let texts = blocks.into_iter().filter_map(|block| match block {
        Block::Text(text) => Some(text),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// The results stand in front: they answer the calls before them.
fn of_user(blocks: Vec<Block>) -> Vec<Value> {
    let (mut messages, mut texts) = (Vec::new(), Vec::new());
    for block in blocks {
        match block {
            Block::Result { id, text } => {
                messages.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
            }
            block => texts.push(block),
        }
    }
    if messages.is_empty() || !texts.is_empty() {
        messages.push(json!({"role": "user", "content": joined(texts)}));
    }
    messages
}

/// One message, or more where a tool of the server ran within it.
fn of_assistant(blocks: Vec<Block>) -> Vec<Value> {
    let (mut messages, mut assistant, mut ran) =
        (Vec::new(), AssistantMessage::default(), Vec::new());
    for block in blocks {
        match block {
            Block::Text(more) => assistant.text.push_str(&more),
            Block::Reasoning(more) => assistant.reasoning.push_str(&more),
            Block::Call(call) => assistant.calls.push(call),
            Block::Ran(call) => ran.push(call),
            Block::Result { id, text } => {
                if let Some(at) = ran.iter().position(|call: &Value| call["id"] == id.as_str()) {
                    assistant.calls.push(ran.remove(at));
                    messages.push(std::mem::take(&mut assistant).into_json());
                    messages.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
                }
            }
            Block::Sealed => {}
        }
    }
    if messages.is_empty() || !assistant.is_empty() {
        messages.push(assistant.into_json());
    }
    messages
}

#[derive(Default)]
struct AssistantMessage {
    text: String,
    reasoning: String,
    calls: Vec<Value>,
}

impl AssistantMessage {
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.reasoning.is_empty() && self.calls.is_empty()
    }

    fn into_json(self) -> Value {
        let mut message = Map::new();
        message.insert("role".into(), "assistant".into());
        message.insert("content".into(), self.text.into());
        if !self.reasoning.is_empty() {
            message.insert("reasoning_content".into(), self.reasoning.into());
        }
        if !self.calls.is_empty() {
            message.insert("tool_calls".into(), self.calls.into());
        }
        Value::Object(message)
    }
}
