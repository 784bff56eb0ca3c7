//! An answer as events, and its sound.

use std::pin::Pin;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::Events;
use crate::chat::answer::{Answer, Piece};
use crate::chat::names;
use crate::error::{ApiError, ErrorKind};
use crate::speech::synthesis::{Speaking, Spoken};
use crate::wire::answer::EndReason;
use crate::wire::chat::ChatRequest;

type Beginning =
    Pin<Box<dyn Future<Output = Result<(ChatRequest, Answer), ApiError>> + Send + 'static>>;

/// The rate of the sound, as the Realtime API defines it.
const OUTPUT_RATE: u32 = 24_000;

/// One second of sound: an event stays far below the bound of a client's message.
const MAX_SOUND_BYTES: usize = 2 * OUTPUT_RATE as usize;

pub(super) struct Response {
    id: String,
    item: String,
    state: State,
    /// The text is the transcript of a sound, also where its voice ends early; else the answer is text only.
    is_spoken: bool,
    /// Until the voice ends.
    speaking: Option<Speaking>,
    text: String,
    reason: EndReason,
}

enum State {
    /// The turn is not queued yet.
    Begins(Beginning),
    Runs(Box<Answer>),
    /// The text is complete, and the voice still speaks. The answer is dropped by then: the next
    /// request of the conversation waits for it.
    Speaks(Summary),
    Over,
}

/// What the last event says of a complete answer.
struct Summary {
    output: Value,
    usage: Value,
    hob: Value,
}

/// One event, with an id of its own.
pub(super) fn event(kind: &str, mut fields: Value) -> Value {
    fields["type"] = kind.into();
    fields["event_id"] = names::answer("event").into();
    fields
}

impl Response {
    /// `speaking`: `None` for an answer that is text only.
    pub fn new(beginning: Beginning, speaking: Option<Speaking>) -> Self {
        Self {
            id: names::answer("resp"),
            item: names::answer("item"),
            state: State::Begins(beginning),
            is_spoken: speaking.is_some(),
            speaking,
            text: String::new(),
            reason: EndReason::default(),
        }
    }

    /// Whether its last event was returned.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// The next events. The wait may be cancelled and repeated.
    pub async fn next(&mut self) -> Events {
        match &mut self.state {
            State::Begins(beginning) => match beginning.await {
                Ok((_, answer)) => {
                    self.state = State::Runs(Box::new(answer));
                    vec![event("response.created", json!({"response": self.body("in_progress")}))]
                }
                Err(error) => self.failed(&error),
            },
            State::Runs(answer) => tokio::select! {
                piece = answer.next() => match piece {
                    Some(Ok(piece)) => self.events_of(piece),
                    Some(Err(error)) => self.failed(&error),
                    None => self.answered(),
                },
                spoken = next_spoken(&mut self.speaking) => self.sound_of(spoken),
            },
            State::Speaks(_) => match next_spoken(&mut self.speaking).await {
                Some(spoken) => self.sound_of(Some(spoken)),
                None => self.done(),
            },
            State::Over => std::future::pending().await,
        }
    }

    /// Ends the answer before it is complete.
    pub fn cancelled(mut self) -> Events {
        let mut body = self.body("cancelled");
        body["output"] = self.output();
        self.state = State::Over;
        vec![event("response.done", json!({"response": body}))]
    }

    fn events_of(&mut self, piece: Piece) -> Events {
        match piece {
            Piece::Progress(_) | Piece::Begin { .. } => Vec::new(),
            // The Realtime API has one choice.
            Piece::More { choice, .. } | Piece::End { choice, .. } if choice > 0 => Vec::new(),
            Piece::More { delta, .. } if delta.content.is_empty() => Vec::new(),
            Piece::More { delta, .. } => {
                self.text.push_str(&delta.content);
                if let Some(speaking) = &mut self.speaking {
                    speaking.push(&delta.content);
                }
                vec![self.part(self.text_event("delta"), json!({"delta": delta.content}))]
            }
            Piece::End { reason, .. } => {
                self.reason = reason;
                Vec::new()
            }
        }
    }

    /// The text of a spoken answer is the transcript of its sound.
    fn text_event(&self, part: &str) -> &'static str {
        match (self.is_spoken, part) {
            (true, "delta") => "response.output_audio_transcript.delta",
            (true, _) => "response.output_audio_transcript.done",
            (false, "delta") => "response.output_text.delta",
            (false, _) => "response.output_text.done",
        }
    }

    /// A sentence as 24 kHz PCM. `None`: the voice has ended.
    fn sound_of(&mut self, spoken: Option<Spoken>) -> Events {
        let Some(Spoken { text, sound }) = spoken else {
            self.speaking = None;
            return Vec::new();
        };
        match sound {
            Ok(sound) => {
                let pcm = sound.at_rate(OUTPUT_RATE).to_pcm();
                let piece = |pcm: &[u8]| {
                    let fields = json!({"delta": BASE64.encode(pcm), "text": text});
                    self.part("response.output_audio.delta", fields)
                };
                pcm.chunks(MAX_SOUND_BYTES).map(piece).collect()
            }
            Err(error) => {
                tracing::warn!(%error, "a sentence was not spoken");
                let message = format!(
                    "a sentence was not spoken: {error}; correct voice_command, or the program that it runs"
                );
                let error = ApiError::new(ErrorKind::Busy, message).code("voice");
                vec![event("error", error.to_json())]
            }
        }
    }

    /// The text is complete.
    fn answered(&mut self) -> Events {
        let State::Runs(answer) = &self.state else { return Vec::new() };
        let usage = answer.usage();
        let usage = json!({
            "input_tokens": usage.prompt,
            "output_tokens": usage.completion,
            "total_tokens": usage.prompt + usage.completion,
            "input_token_details": {"cached_tokens": usage.cached},
        });
        let summary = Summary { output: self.output(), usage, hob: answer.hob() };
        self.state = State::Speaks(summary);
        match &mut self.speaking {
            Some(speaking) => {
                speaking.finish();
                Vec::new()
            }
            None => self.done(),
        }
    }

    fn done(&mut self) -> Events {
        let State::Speaks(summary) = std::mem::replace(&mut self.state, State::Over) else {
            return Vec::new();
        };
        let is_cut = self.reason == EndReason::Length;
        let mut body = self.body(if is_cut { "incomplete" } else { "completed" });
        body["output"] = summary.output;
        body["usage"] = summary.usage;
        let mut events = Vec::new();
        if self.is_spoken {
            events.push(self.part("response.output_audio.done", json!({})));
            let transcript = json!({"transcript": self.text});
            events.push(self.part(self.text_event("done"), transcript));
        } else {
            events.push(self.part(self.text_event("done"), json!({"text": self.text})));
        }
        events.push(event("response.done", json!({"response": body, "hob": summary.hob})));
        events
    }

    fn failed(&mut self, error: &ApiError) -> Events {
        self.state = State::Over;
        let mut body = self.body("failed");
        body["status_details"] = error.to_json();
        vec![event("error", error.to_json()), event("response.done", json!({"response": body}))]
    }

    fn part(&self, kind: &str, mut fields: Value) -> Value {
        fields["response_id"] = self.id.as_str().into();
        fields["item_id"] = self.item.as_str().into();
        fields["output_index"] = 0.into();
        fields["content_index"] = 0.into();
        event(kind, fields)
    }

    fn body(&self, status: &str) -> Value {
        json!({"id": self.id, "object": "realtime.response", "status": status, "output": []})
    }

    /// The message, then the calls of tools.
    fn output(&self) -> Value {
        let message = json!({
            "id": self.item, "object": "realtime.item", "type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": self.text}],
        });
        let answer = match &self.state {
            State::Runs(answer) => answer,
            State::Speaks(summary) => return summary.output.clone(),
            State::Begins(_) | State::Over => return json!([message]),
        };
        let calls = answer.message(0).to_json()["tool_calls"].take();
        let call = |call: &Value| {
            json!({
                "object": "realtime.item", "type": "function_call", "call_id": call["id"],
                "name": call["function"]["name"], "arguments": call["function"]["arguments"],
            })
        };
        let calls = calls.as_array().into_iter().flatten().map(call);
        std::iter::once(message).chain(calls).collect()
    }
}

/// Pending without a voice.
async fn next_spoken(speaking: &mut Option<Speaking>) -> Option<Spoken> {
    match speaking {
        Some(speaking) => speaking.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_voice_that_ends_before_the_text_leaves_its_events_their_names() {
        let response = Response::new(Box::pin(std::future::pending()), None);
        assert_eq!(response.text_event("delta"), "response.output_text.delta");
        let mut spoken = Response { is_spoken: true, ..response };
        assert!(spoken.sound_of(None).is_empty());
        assert_eq!(spoken.text_event("delta"), "response.output_audio_transcript.delta");
        assert_eq!(spoken.text_event("done"), "response.output_audio_transcript.done");
    }
}
