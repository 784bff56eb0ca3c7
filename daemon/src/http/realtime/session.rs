//! What a client's events do.
//!
//! - The answer begins when speech has stopped and its transcript is complete, in either order;
//!   with `response.create`, at once and with the transcript so far.
//! - Speech that starts during an answer interrupts it.

use hob_slots::ConversationId;
use serde_json::{Value, json};

use super::Events;
use super::response::{Response, event};
use crate::chat::names;
use crate::error::{ApiError, ErrorKind};
use crate::speech::Speech;
use crate::speech::vad::{SpeechDetector, SpeechEvent};
use crate::speech::voice::filler_event;
use crate::wire::fields::Fields;

pub(super) struct Session {
    speech: Speech,
    id: String,
    conversation: Option<ConversationId>,
    /// The fields of this session's requests beside the words.
    options: Value,
    vad: SpeechDetector,
    transcript: String,
    has_stopped: bool,
    is_complete: bool,
    response: Option<Response>,
}

impl Session {
    pub fn new(speech: Speech) -> Self {
        Self {
            speech,
            id: names::answer("sess"),
            conversation: None,
            options: json!({}),
            vad: SpeechDetector::default(),
            transcript: String::new(),
            has_stopped: false,
            is_complete: false,
            response: None,
        }
    }

    pub fn created(&self) -> Value {
        event("session.created", json!({"session": self.body()}))
    }

    /// The next events of the answer; pending without an answer.
    pub async fn next(&mut self) -> Events {
        let Some(response) = &mut self.response else { return std::future::pending().await };
        let events = response.next().await;
        if response.is_over() {
            self.response = None;
        }
        events
    }

    /// Handles an event of the client.
    pub fn receive(&mut self, text: &str) -> Events {
        let read = serde_json::from_str::<Value>(text).map_err(|error| {
            ApiError::new(ErrorKind::Invalid, format!("the event is not JSON: {error}"))
                .code("invalid_json")
        });
        let name = read.as_ref().ok().map(|event| event["event_id"].clone());
        read.and_then(|event| self.handle(&event)).unwrap_or_else(|error| {
            let mut body = error.to_json();
            body["error"]["event_id"] = name.unwrap_or_default();
            vec![event("error", body)]
        })
    }

    /// Sound: 16 kHz, mono, 16 bits a sample, little endian.
    pub fn hear(&mut self, sound: &[u8]) -> Events {
        let mut events = Vec::new();
        for heard in self.vad.process(sound) {
            let events_of = match heard {
                SpeechEvent::SpeechStarted { at_ms } => self.started().map(|more| {
                    let fields = json!({"audio_start_ms": at_ms});
                    let mut events = vec![event("input_audio_buffer.speech_started", fields)];
                    events.extend(more);
                    events
                }),
                SpeechEvent::SpeechStopped { at_ms } => self.stopped().map(|more| {
                    let fields = json!({"audio_end_ms": at_ms});
                    let mut events = vec![event("input_audio_buffer.speech_stopped", fields)];
                    events.extend(more);
                    events
                }),
            };
            events.extend(events_of.unwrap_or_else(|error| vec![event("error", error.to_json())]));
        }
        events
    }

    fn handle(&mut self, sent: &Value) -> Result<Events, ApiError> {
        let fields = Fields::of_body(sent)?;
        match fields.required_string("type")? {
            "session.update" => self.update(&fields),
            "input_audio_buffer.speech_started" => self.started(),
            "input_audio_buffer.speech_stopped" => self.stopped(),
            "conversation.item.input_audio_transcription.delta" => self.partial(&fields),
            "conversation.item.input_audio_transcription.completed" => self.complete(&fields),
            "response.create" => {
                let options = fields.map("response")?.cloned().unwrap_or_default();
                self.respond(Value::Object(options)).map(|()| Vec::new())
            }
            "response.cancel" => Ok(self.interrupt()),
            other => {
                let message = format!("events of type `{}` are not known", other.escape_debug());
                Err(ApiError::field("type", message).code("unknown_event"))
            }
        }
    }

    /// `conversation` names the conversation; the other fields are those of its requests.
    fn update(&mut self, fields: &Fields<'_>) -> Result<Events, ApiError> {
        let mut options = fields.map("session")?.cloned().unwrap_or_default();
        if let Some(name) = options.remove("conversation") {
            let name = name.as_str().unwrap_or_default();
            let id = ConversationId::new(name).map_err(|error| {
                let message = format!("this cannot name a conversation: {error}");
                ApiError::field("session.conversation", message)
            })?;
            self.leave();
            self.conversation = Some(id);
        }
        for (name, value) in options {
            self.options[name] = value;
        }
        Ok(vec![event("session.updated", json!({"session": self.body()}))])
    }

    fn started(&mut self) -> Result<Events, ApiError> {
        let conversation = self.conversation()?;
        let interrupted = self.interrupt();
        self.transcript.clear();
        (self.has_stopped, self.is_complete) = (false, false);
        self.speech.start(&conversation, &self.options)?;
        Ok(interrupted)
    }

    /// Returns a phrase to play, if the session asks for phrases.
    fn stopped(&mut self) -> Result<Events, ApiError> {
        let conversation = self.conversation()?;
        self.speech.speech_stopped(&conversation);
        self.has_stopped = true;
        self.respond_when_due()?;
        let filled = match &self.options["filler"] {
            Value::Bool(true) => self.speech.filler(None, Some(&conversation))?,
            Value::String(voice) => self.speech.filler(Some(voice), Some(&conversation))?,
            _ => None,
        };
        Ok(filled.iter().map(filler_event).collect())
    }

    /// `delta` extends the transcript, `transcript` replaces it.
    fn partial(&mut self, fields: &Fields<'_>) -> Result<Events, ApiError> {
        let conversation = self.conversation()?;
        match fields.string("transcript")? {
            Some(whole) => self.transcript = whole.to_owned(),
            None => self.transcript.push_str(fields.required_string("delta")?),
        }
        self.speech.transcript(&conversation, self.transcript.clone(), false)?;
        Ok(Vec::new())
    }

    fn complete(&mut self, fields: &Fields<'_>) -> Result<Events, ApiError> {
        let conversation = self.conversation()?;
        let text = fields.required_string("transcript")?.to_owned();
        self.is_complete = !text.trim().is_empty(); // A cough has no words.
        self.speech.transcript(&conversation, text, true)?;
        self.respond_when_due().map(|()| Vec::new())
    }

    fn respond_when_due(&mut self) -> Result<(), ApiError> {
        if self.has_stopped && self.is_complete { self.respond(json!({})) } else { Ok(()) }
    }

    fn respond(&mut self, options: Value) -> Result<(), ApiError> {
        if self.response.is_some() {
            let message = "an answer is under way: cancel it with `response.cancel`";
            return Err(ApiError::new(ErrorKind::Invalid, message).code("response_active"));
        }
        (self.has_stopped, self.is_complete) = (false, false);
        let (speech, conversation) = (self.speech.clone(), self.conversation()?);
        let beginning = async move { speech.end(&conversation, &options).await };
        self.response = Some(Response::new(Box::pin(beginning)));
        Ok(())
    }

    fn interrupt(&mut self) -> Events {
        self.response.take().map(Response::cancelled).unwrap_or_default()
    }

    fn conversation(&self) -> Result<ConversationId, ApiError> {
        self.conversation.clone().ok_or_else(|| {
            let message = "name the conversation first: `session.update` with \
                           `{\"session\": {\"conversation\": …}}`";
            ApiError::field("session.conversation", message).code("missing")
        })
    }

    fn body(&self) -> Value {
        let mut body = self.options.clone();
        body["id"] = self.id.as_str().into();
        body["object"] = "realtime.session".into();
        body["model"] = self.speech.chat().model_name().into();
        body["conversation"] = json!(self.conversation);
        body
    }

    /// Ends speech in the current conversation.
    fn leave(&mut self) {
        self.response = None;
        if let Some(conversation) = self.conversation.take() {
            self.speech.cancel(&conversation);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.leave();
    }
}
