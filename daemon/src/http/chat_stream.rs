//! The chunks of a chat's answer.

use hob_runtime::turn::Logprobs;
use serde_json::{Map, Value, json};

use super::call_form::{CallForm, StreamedCalls};
use super::chunks::{ChunkForm, Chunks};
use super::sse::Source;
use crate::chat::answer::{Answer, Piece};
use crate::chat::assembly::Delta;
use crate::wire::answer::chat_logprobs;
use crate::wire::chat::ChatRequest;

/// The answer to a request that asks for a stream.
pub(super) fn stream_of(request: &ChatRequest, answer: Answer) -> impl Source<Object = Value> {
    let calls = StreamedCalls::new(CallForm::of(request));
    let form = ChatForm { with_logprobs: request.logprobs.is_some(), calls };
    Chunks::new(form, answer, &request.shape, request.shape.choices)
}

struct ChatForm {
    with_logprobs: bool,
    calls: StreamedCalls,
}

impl ChatForm {
    fn entry(
        &self,
        choice: usize,
        delta: Value,
        logprobs: &[Logprobs],
        reason: Option<&str>,
    ) -> Value {
        let wanted = self.with_logprobs && !logprobs.is_empty();
        json!({
            "index": choice,
            "delta": delta,
            "logprobs": wanted.then(|| chat_logprobs(logprobs)),
            "finish_reason": reason,
        })
    }
}

impl ChunkForm for ChatForm {
    const OBJECT: &'static str = "chat.completion.chunk";

    fn choice(&mut self, piece: Piece) -> Option<Value> {
        Some(match piece {
            Piece::Progress(_) => return None,
            Piece::Begin { choice } => {
                self.entry(choice, json!({"role": "assistant", "content": null}), &[], None)
            }
            Piece::More { choice, delta, logprobs, .. } => {
                let mut fields = text_of(&delta);
                self.calls.add(choice, delta.tool_calls, &mut fields);
                self.entry(choice, fields, &logprobs, None)
            }
            Piece::End { choice, reason } => {
                let mut fields = json!({});
                self.calls.end(choice, &mut fields);
                self.entry(choice, fields, &[], Some(self.calls.form().reason(reason)))
            }
        })
    }
}

/// Without its calls.
fn text_of(delta: &Delta) -> Value {
    let mut fields = Map::new();
    if !delta.reasoning.is_empty() {
        fields.insert("reasoning_content".into(), delta.reasoning.as_str().into());
    }
    if !delta.content.is_empty() {
        fields.insert("content".into(), delta.content.as_str().into());
    }
    Value::Object(fields)
}
