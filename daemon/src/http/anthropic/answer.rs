//! An answer as a message of Anthropic's API.

use serde_json::{Value, json};

use crate::chat::answer::{Answer, Choice};
use crate::http::responses::place::Ids;
use crate::wire::answer::EndReason;

/// Hob signs no reasoning. Clients send back only blocks that have a signature.
pub const SIGNATURE: &str = "hob";

/// What of an answer depends on its request.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The request marks what is to be cached.
    pub is_marked: bool,
    /// Without the text of the reasoning.
    pub omits_thinking: bool,
}

/// The fields of a message that has not begun. The id of one that is stored names its place.
pub fn begin(answer: &Answer, form: Form) -> Value {
    let head = answer.head();
    json!({
        "id": Ids::of(answer).message(),
        "type": "message",
        "role": "assistant",
        "model": head.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": usage(answer, form),
    })
}

pub fn whole(answer: &Answer, choice: &Choice, form: Form) -> Value {
    let mut message = begin(answer, form);
    message["content"] = content(choice, form).into();
    let (reason, sequence) = stop(answer, choice.reason);
    message["stop_reason"] = reason.into();
    message["stop_sequence"] = sequence.into();
    message["hob"] = answer.hob();
    message
}

fn content(choice: &Choice, form: Form) -> Vec<Value> {
    let message = &choice.message;
    let mut blocks = Vec::new();
    if !message.reasoning().is_empty() {
        let reasoning = if form.omits_thinking { "" } else { message.reasoning() };
        blocks.push(json!({"type": "thinking", "thinking": reasoning, "signature": SIGNATURE}));
    }
    if !message.text().is_empty() {
        blocks.push(json!({"type": "text", "text": message.text()}));
    }
    blocks.extend(message.calls_made().map(|call| {
        // A call that was cut has the beginning of its arguments.
        let input = serde_json::from_str::<Value>(call.arguments).ok();
        let input = input.filter(Value::is_object).unwrap_or_else(|| json!({}));
        json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
    }));
    blocks
}

/// `stop_reason` and `stop_sequence`.
pub fn stop(answer: &Answer, reason: EndReason) -> (&'static str, Option<&str>) {
    match (reason, answer.stop_text()) {
        (EndReason::ToolCalls, _) => ("tool_use", None),
        (EndReason::Stop, Some(text)) => ("stop_sequence", Some(text)),
        (EndReason::Length, _) if answer.is_context_full() => {
            ("model_context_window_exceeded", None)
        }
        (EndReason::Length, _) => ("max_tokens", None),
        (EndReason::ContentFilter, _) => ("refusal", None),
        (EndReason::Stop, None) => ("end_turn", None),
    }
}

/// The tokens so far. The first three add up to the prompt.
///
/// Of a request with marks, what is computed of the prompt is cached for later ones, but for the last
/// token: it is computed each time, because its logits give the first token of the answer.
pub fn usage(answer: &Answer, form: Form) -> Value {
    let usage = answer.usage();
    let computed = usage.prompt - usage.cached;
    let is_cached = form.is_marked && answer.is_named();
    let created = if is_cached { computed.saturating_sub(1) } else { 0 };
    json!({
        "input_tokens": computed - created,
        "cache_creation_input_tokens": created,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.completion,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    })
}
