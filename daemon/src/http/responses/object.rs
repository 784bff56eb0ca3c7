//! Responses and items, in OpenAI's shape.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::client_tools::{ClientTool, ClientTools, Kind};
use super::place::Ids;
use super::reasoning_form::ReasoningForm;
use super::{local_shell, tool_search};
use crate::chat::answer::Answer;
use crate::error::ApiError;
use crate::wire::answer::EndReason;
use crate::wire::freeform;
use crate::wire::message::{CallMade, calls_made};

/// How far a response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    InProgress,
    Completed,
    /// The answer ended within its text: at the limit of tokens, or with the context.
    Incomplete,
    /// The engine at another address withheld the rest.
    Filtered,
    /// The client left, or the daemon ended.
    Cancelled,
    Failed,
}

impl Status {
    pub fn of_reason(reason: EndReason) -> Self {
        match reason {
            EndReason::Length => Self::Incomplete,
            EndReason::ContentFilter => Self::Filtered,
            EndReason::Stop | EndReason::ToolCalls => Self::Completed,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete | Self::Filtered => "incomplete",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }

    /// The status of an item of such a response. Items know three words.
    pub fn of_item(self) -> &'static str {
        match self {
            Self::InProgress | Self::Completed => self.as_str(),
            Self::Incomplete | Self::Filtered | Self::Cancelled | Self::Failed => {
                Self::Incomplete.as_str()
            }
        }
    }
}

/// The fields of a response that do not change while it grows.
#[derive(Clone, Debug)]
pub struct Frame {
    pub ids: Ids,
    /// Seconds since 1970.
    pub created_at: u64,
    pub model: String,
    /// What it repeats of the request.
    pub echo: Map<String, Value>,
}

/// What an answer has become.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub output: Vec<Value>,
    /// That of a chat.
    pub usage: Option<Value>,
    pub error: Option<ApiError>,
    /// From the answer's begin to its end.
    pub millis: Option<f64>,
    pub hob: Option<Value>,
    /// That of an engine at another address is known once it answers.
    pub model: Option<String>,
}

impl Outcome {
    /// The object of an answer that has ended.
    pub fn of(answer: &Answer, output: Vec<Value>) -> Self {
        let hob = answer.hob();
        Self {
            output,
            usage: Some(answer.usage().to_json()),
            error: None,
            millis: hob["total_ms"].as_f64(),
            hob: Some(hob),
            model: Some(answer.head().model.clone()),
        }
    }
}

impl Frame {
    /// The object of an answer whose question is on disk. `echo`: what it repeats of its request.
    pub fn of(answer: &Answer, echo: Map<String, Value>) -> Self {
        let head = answer.head();
        Self { ids: Ids::of(answer), created_at: head.created, model: head.model.clone(), echo }
    }

    pub fn response(&self, status: Status, outcome: Outcome) -> Value {
        let Outcome { output, usage, error, millis, hob, model } = outcome;
        let is_complete = status == Status::Completed;
        let seconds = (millis.unwrap_or(0.0) / 1000.0).round() as u64;
        let incomplete = match status {
            Status::Incomplete => Some(json!({"reason": "max_output_tokens"})),
            Status::Filtered => Some(json!({"reason": "content_filter"})),
            _ => None,
        };
        let error = error.map(
            |error| json!({"code": error.code.unwrap_or("server_error"), "message": error.message}),
        );
        let mut response = json!({
            "id": self.ids.response(),
            "object": "response",
            "created_at": self.created_at,
            "completed_at": is_complete.then_some(self.created_at + seconds),
            "status": status.as_str(),
            "error": error,
            "incomplete_details": incomplete,
            "model": model.as_ref().unwrap_or(&self.model),
            "output": output,
            "usage": usage.as_ref().map(usage_of),
            "conversation": self.conversation().map(|id| json!({"id": id})),
        });
        for (name, value) in &self.echo {
            response[name] = value.clone();
        }
        if let Some(hob) = hob {
            response["hob"] = hob;
        }
        response
    }

    /// The tools of the request.
    pub fn tools(&self) -> ClientTools {
        ClientTools::of(self.echo.get("tools"))
    }

    pub fn reasoning_form(&self) -> ReasoningForm {
        ReasoningForm::of(self.echo.get("reasoning"))
    }

    /// The items of the answer. `message`: as a chat has it. `logprobs`: of its text.
    pub fn output(&self, message: &Value, status: Status, logprobs: &Value) -> Vec<Value> {
        let form = self.reasoning_form();
        let mut items = answer_items(message, &self.ids, &self.tools(), form, logprobs);
        if let Some(last) = items.last_mut() {
            last["status"] = status.of_item().into(); // The others ended before it began.
        }
        items
    }

    fn conversation(&self) -> Option<&str> {
        match &self.ids {
            Ids::Stored(place) => Some(place.conversation.as_str()),
            Ids::Passing(_) => None,
        }
    }
}

/// The usage of a chat under the names of responses.
fn usage_of(usage: &Value) -> Value {
    json!({
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {
            "cached_tokens": usage["prompt_tokens_details"]["cached_tokens"],
            "cache_write_tokens": 0,
        },
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": {
            "reasoning_tokens": usage["completion_tokens_details"]["reasoning_tokens"],
        },
        "total_tokens": usage["total_tokens"],
    })
}

/// The items of a complete answer. `message`: as a chat has it. `logprobs`: of its text.
fn answer_items(
    message: &Value,
    ids: &Ids,
    tools: &ClientTools,
    form: ReasoningForm,
    logprobs: &Value,
) -> Vec<Value> {
    let text = |name: &str| message[name].as_str().filter(|text| !text.is_empty());
    let mut items = Vec::new();
    if let Some(text) = text("reasoning_content") {
        items.push(reasoning(&ids.reasoning(), text, form, Status::Completed));
    }
    if let Some(text) = text("content") {
        items.push(said(&ids.message(), text, logprobs, Status::Completed));
    }
    for (n, made) in calls_made(message.get("tool_calls")).enumerate() {
        let CallMade { id, name, arguments } = made;
        let tool = tools.get(name);
        let text = match tool.kind {
            Kind::Function | Kind::LocalShell | Kind::ToolSearch => arguments.to_owned(),
            Kind::Custom => freeform::input_of(arguments),
        };
        items.push(call(&ids.call(n), id, &tool, &text, Status::Completed));
    }
    items
}

pub fn said(id: &str, text: &str, logprobs: &Value, status: Status) -> Value {
    json!({
        "id": id, "type": "message", "role": "assistant", "status": status.of_item(),
        "content": [output_text(text, logprobs)],
    })
}

pub fn output_text(text: &str, logprobs: &Value) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs})
}

pub fn reasoning(id: &str, text: &str, form: ReasoningForm, status: Status) -> Value {
    let part = [form.part(text)];
    let (summary, content) = match form {
        ReasoningForm::Content => (&[][..], &part[..]),
        ReasoningForm::Summary => (&part[..], &[][..]),
    };
    json!({
        "id": id, "type": "reasoning", "summary": summary, "content": content,
        "encrypted_content": null, "status": status.of_item(),
    })
}

/// `id`: the item's. `call_id`: that of the chat's call. `text`: the input of a custom tool, the arguments of
/// another.
pub fn call(id: &str, call_id: &str, tool: &ClientTool, text: &str, status: Status) -> Value {
    let status = status.of_item();
    let (kind, field) = match tool.kind {
        Kind::Function => ("function_call", "arguments"),
        Kind::Custom => ("custom_tool_call", "input"),
        Kind::LocalShell => {
            return json!({
                "id": id, "type": "local_shell_call", "status": status, "call_id": call_id,
                "action": local_shell::action(text),
            });
        }
        Kind::ToolSearch => {
            return json!({
                "id": id, "type": "tool_search_call", "status": status, "call_id": call_id,
                "execution": tool_search::CLIENT, "arguments": tool_search::arguments(text),
            });
        }
    };
    let mut item = json!({
        "id": id, "type": kind, "status": status, "call_id": call_id, "name": tool.name, field: text,
    });
    if let Some(namespace) = &tool.namespace {
        item["namespace"] = namespace.as_str().into();
    }
    item
}

/// The items of any message. `message`: as a chat has it. `kinds`: of the calls before it, by their ids.
pub fn items(
    message: &Value,
    ids: &Ids,
    tools: &ClientTools,
    kinds: &BTreeMap<&str, Kind>,
) -> Vec<Value> {
    let text = message["content"].as_str().unwrap_or_default();
    match message["role"].as_str().unwrap_or_default() {
        "assistant" => answer_items(message, ids, tools, ReasoningForm::Content, &json!([])),
        "tool" => {
            let call = message["tool_call_id"].as_str().unwrap_or_default();
            let kind = match kinds.get(call).copied().unwrap_or_default() {
                Kind::Function => "function_call_output",
                Kind::Custom => "custom_tool_call_output",
                Kind::LocalShell => "local_shell_call_output",
                // The tools that the search found are in the response.
                Kind::ToolSearch => {
                    return vec![json!({
                        "id": ids.result(), "type": tool_search::OUTPUT, "status": "completed",
                        "call_id": call, "execution": tool_search::CLIENT, "tools": [],
                    })];
                }
            };
            vec![json!({
                "id": ids.result(), "type": kind, "status": "completed", "call_id": call,
                "output": text,
            })]
        }
        role => vec![json!({
            "id": ids.message(), "type": "message", "role": role, "status": "completed",
            "content": [{"type": "input_text", "text": text}],
        })],
    }
}
