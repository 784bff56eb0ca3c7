//! The items of a request as the messages of a chat.
//!
//! - An answer is one message of a chat and several items: its reasoning, its text and its calls. Items in a
//!   row become one message again, and so do several texts of one stored answer, which their ids name.
//! - Reasoning that neither a text nor a call follows is left out.
//! - Of items of tools that another server ran, and of unknown ones, what a model can read is read; mistyped ones are
//!   refused, see [`super::hosted`].

mod content;

use serde_json::{Value, json};

use super::client_tools::{Kind, SEARCH, function_name};
use super::hosted::{self, Ran};
use super::place::Place;
use super::tools::ADDITIONAL;
use super::{local_shell, tool_search};
use crate::error::ApiError;
use crate::wire::fields::{Fields, wrong_type};
use crate::wire::freeform;
use crate::wire::message::pictures::{is_assistants, words_for_pictures};
use crate::wire::message::tool_call;
use content::{Holder, append, content, result};

/// The messages of a chat, and the path of the item that each begins with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Input {
    pub messages: Vec<Value>,
    pub paths: Vec<String>,
    /// What the id of the last item names.
    last: Option<Place>,
}

impl Input {
    /// Reads `input`: a text, or items.
    ///
    /// # Errors
    /// Names the wrong item.
    pub fn parse(input: &Value) -> Result<Self, ApiError> {
        let mut read = Self::default();
        match input {
            Value::String(text) => read.push(json!({"role": "user", "content": text}), "input"),
            Value::Array(items) => {
                for (n, item) in words_for_pictures(items, false, is_of_model).enumerate() {
                    read.item(&item, &format!("input[{n}]"))?;
                }
            }
            other => return Err(wrong_type("input", "a string or an array of items", other)),
        }
        let is_said = |message: &Value| message["role"] != "assistant" || !is_silent(message);
        let said =
            read.messages.into_iter().zip(read.paths).filter(|(message, _)| is_said(message));
        let (messages, paths) = said.unzip();
        Ok(Self { messages, paths, last: None })
    }

    /// Leaves out the first messages.
    pub fn leave_out(&mut self, count: usize) {
        self.messages.drain(..count);
        self.paths.drain(..count);
    }

    fn push(&mut self, message: Value, path: &str) {
        self.messages.push(message);
        self.paths.push(path.to_owned());
    }

    fn item(&mut self, item: &Value, path: &str) -> Result<(), ApiError> {
        let fields = Fields::of(item, path)?;
        let place = item["id"].as_str().and_then(Place::parse);
        let goes_on = place.is_some() && place == self.last;
        self.last = place;
        match kind(&fields)? {
            "message" => self.message(&fields, path, goes_on),
            "reasoning" => self.reasoning(&fields, path, goes_on),
            "function_call" => self.call(&fields, path, Kind::Function),
            "custom_tool_call" => self.call(&fields, path, Kind::Custom),
            "local_shell_call" => self.call(&fields, path, Kind::LocalShell),
            kind @ ("function_call_output"
            | "custom_tool_call_output"
            | "local_shell_call_output") => {
                // OpenAI's clients have the call's id as that of the shell's output.
                let is_own = kind == "local_shell_call_output" && fields.get("call_id").is_none();
                let id = fields.required_string(if is_own { "id" } else { "call_id" })?;
                let content = result(fields.required("output")?, &fields.path("output"))?;
                let message = json!({"role": "tool", "tool_call_id": id, "content": content});
                self.push(message, path);
                Ok(())
            }
            // What Codex' agents write to each other.
            "agent_message" => {
                let content = fields.required("content")?;
                let content = self::content(content, &fields.path("content"), Holder::Agent)?;
                self.push(json!({"role": "user", "content": content}), path);
                Ok(())
            }
            ADDITIONAL => Ok(()),
            "tool_search_call" if tool_search::is_of_client(item) => {
                self.call(&fields, path, Kind::ToolSearch)
            }
            tool_search::OUTPUT if tool_search::is_of_client(item) => {
                let id = fields.required_string("call_id")?;
                let content =
                    tool_search::result(fields.list("tools")?.map_or(&[][..], Vec::as_slice));
                let message = json!({"role": "tool", "tool_call_id": id, "content": content});
                self.push(message, path);
                Ok(())
            }
            other => self.of_another_server(other, item, path),
        }
    }

    fn of_another_server(&mut self, kind: &str, item: &Value, path: &str) -> Result<(), ApiError> {
        if hosted::is_mistyped(kind, item) {
            return Err(unknown(kind, path));
        }
        if let Some(Ran { id, name, arguments, result }) = hosted::ran(kind, item) {
            self.add_call(tool_call(&id, &name, &arguments), path);
            self.push(json!({"role": "tool", "tool_call_id": id, "content": result}), path);
        } else if let Some(text) = hosted::text(item) {
            self.push(json!({"role": "user", "content": text}), path);
        }
        Ok(())
    }

    /// `goes_on`: it is an item of the same stored answer as the one before.
    fn message(&mut self, fields: &Fields<'_>, path: &str, goes_on: bool) -> Result<(), ApiError> {
        let role = fields.required_string("role")?;
        let content = fields.required("content")?;
        let content = self::content(content, &fields.path("content"), Holder::Message)?;
        if role == "assistant" {
            let is_further = goes_on && fields.string("id")?.is_some_and(Place::is_further_text);
            let answer = self.answer(path, |answer| is_further || is_silent(answer));
            let before = &mut answer["content"];
            if before.is_null() {
                *before = content;
            } else {
                append(before, &content);
            }
            return Ok(());
        }
        let mut message = json!({"role": role, "content": content});
        if let Some(hob) = fields.get("hob") {
            message["hob"] = hob.clone(); // Documents and labels.
        }
        self.push(message, path);
        Ok(())
    }

    /// `goes_on`: as for [`Self::message`].
    fn reasoning(
        &mut self,
        fields: &Fields<'_>,
        path: &str,
        goes_on: bool,
    ) -> Result<(), ApiError> {
        let mut texts = Vec::new();
        for name in ["content", "summary"] {
            let path = fields.path(name);
            for (n, part) in fields.list(name)?.into_iter().flatten().enumerate() {
                let path = format!("{path}[{n}]");
                texts.push(Fields::of(part, &path)?.required_string("text")?.to_owned());
            }
            if !texts.is_empty() {
                break; // A summary says the same in other words.
            }
        }
        if texts.is_empty() {
            return Ok(()); // Encrypted by another server.
        }
        let text = texts.join("\n");
        let answer = self.answer(path, |answer| goes_on || is_silent(answer));
        match &mut answer["reasoning_content"] {
            Value::String(before) => {
                if !goes_on {
                    before.push('\n');
                }
                before.push_str(&text);
            }
            none => *none = text.into(),
        }
        Ok(())
    }

    fn call(&mut self, fields: &Fields<'_>, path: &str, kind: Kind) -> Result<(), ApiError> {
        let id = fields.required_string("call_id")?;
        let name = match kind {
            Kind::LocalShell => local_shell::NAME.to_owned(),
            Kind::ToolSearch => SEARCH.to_owned(),
            Kind::Function | Kind::Custom => {
                function_name(fields.string("namespace")?, fields.required_string("name")?)
            }
        };
        let arguments = match kind {
            Kind::Function => fields.required_string("arguments")?.to_owned(),
            Kind::Custom => freeform::arguments_of(fields.required_string("input")?),
            Kind::LocalShell => {
                let path = fields.path("action");
                local_shell::arguments(&Fields::of(fields.required("action")?, &path)?)?
            }
            Kind::ToolSearch => {
                fields.required("arguments")?;
                Value::Object(fields.map("arguments")?.cloned().unwrap_or_default()).to_string()
            }
        };
        self.add_call(tool_call(id, &name, &arguments), path);
        Ok(())
    }

    fn add_call(&mut self, call: Value, path: &str) {
        let calls = &mut self.answer(path, |_| true)["tool_calls"];
        match calls.as_array_mut() {
            Some(calls) => calls.push(call),
            None => *calls = json!([call]),
        }
    }

    /// The last message, if it is an answer that `fits`, or a new answer.
    fn answer(&mut self, path: &str, fits: impl Fn(&Value) -> bool) -> &mut Value {
        let last = self.messages.last();
        if !last.is_some_and(|last| last["role"] == "assistant" && fits(last)) {
            self.push(json!({"role": "assistant", "content": null}), path);
        }
        self.messages.last_mut().expect("one was added where there was none")
    }
}

/// Whether an item is a part of an answer.
fn is_of_model(item: &Value) -> bool {
    is_assistants(item) || item["type"].as_str().is_some_and(|kind| kind.ends_with("_call"))
}

/// Whether an answer has neither text nor calls.
fn is_silent(answer: &Value) -> bool {
    answer["content"].is_null() && answer["tool_calls"].is_null()
}

/// The type of an item: clients leave it out of messages.
fn kind<'f>(fields: &Fields<'f>) -> Result<&'f str, ApiError> {
    match fields.string("type")? {
        Some(kind) => Ok(kind),
        None if fields.get("role").is_some() => Ok("message"),
        None => fields.required_string("type"),
    }
}

/// Types of items that clients write.
const READ: [&str; 13] = [
    ADDITIONAL,
    "agent_message",
    "custom_tool_call",
    "custom_tool_call_output",
    "function_call",
    "function_call_output",
    "item_reference",
    "local_shell_call",
    "local_shell_call_output",
    "message",
    "reasoning",
    "tool_search_call",
    tool_search::OUTPUT,
];

fn unknown(kind: &str, path: &str) -> ApiError {
    let path = format!("{path}.type");
    let (kind, known) = (kind.escape_debug(), READ.join(", "));
    let message = format!("`{path}` is `{kind}`, which is no type of an item: {known}");
    ApiError::field(path, message)
}

#[cfg(test)]
mod tests;
