//! A realtime session: what each event of the client changes, and the events that answer it.
//!
//! - The answer begins when speech has stopped and its transcript is complete, in either order;
//!   with `response.create`, at once and with the transcript so far, or with the final one that is
//!   due.
//! - Speech that starts during an answer interrupts it, and the voice that speaks it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hob_slots::ConversationId;
use serde_json::{Map, Value, json};

use super::listening::Listening;
use super::response::{Response, event};
use super::sound::{Hearing, Output, SoundSettings, take_sound};
use super::utterance::Utterance;
use super::{Events, MAX_MESSAGE_BYTES};
use crate::chat::identity::conversation_id;
use crate::chat::names;
use crate::error::{ApiError, ErrorKind};
use crate::speech::Speech;
use crate::speech::dictation::{RecognizerEvent, STREAM_REMEDY};
use crate::speech::vad::SpeechEvent;
use crate::speech::voice::{filler_event, no_voice};
use crate::wire::fields::Fields;

pub(super) struct Session {
    speech: Speech,
    id: String,
    conversation: Option<ConversationId>,
    /// The fields of this session's requests beside the words.
    options: Value,
    /// The session's fields about sound.
    sound: Value,
    hearing: Hearing,
    listening: Listening,
    /// The sound so far may be the start of speech.
    suspects: bool,
    output: Output,
    utterance: Utterance,
    response: Option<Response>,
}

impl Session {
    pub fn new(speech: Speech) -> Self {
        let hearing = Hearing::default();
        let listening = Listening::new(None, hearing.rate, hearing.detects);
        Self {
            speech,
            id: names::answer("sess"),
            conversation: None,
            options: json!({}),
            sound: json!({}),
            hearing,
            listening,
            suspects: false,
            output: Output::default(),
            utterance: Utterance::default(),
            response: None,
        }
    }

    pub fn created(&self) -> Value {
        event("session.created", json!({"session": self.body()}))
    }

    /// The next events of the answer and of the recogniser; pending without either.
    pub async fn next(&mut self) -> Events {
        let Self { response, listening, .. } = self;
        let answer = async {
            match response {
                Some(response) => response.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            events = answer => {
                if self.response.as_ref().is_some_and(Response::is_over) {
                    self.response = None;
                }
                events
            }
            heard = listening.next() => self.recognized(heard).unwrap_or_else(|error| {
                vec![event("error", error.to_json())]
            }),
        }
    }

    /// Whether an answer runs, or begins with a final transcript that is due.
    pub fn is_answering(&self) -> bool {
        self.response.is_some() || self.utterance.wants_answer() && self.listening.is_finishing()
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
    pub fn receive_sound(&mut self, sound: &[u8]) -> Events {
        let detected = self.listening.receive(sound);
        self.detected(detected)
    }

    /// Speech that may be starting restores the conversation, 64 ms before it is certain.
    fn detected(&mut self, detected: impl IntoIterator<Item = SpeechEvent>) -> Events {
        let mut events = Vec::new();
        let suspects = self.listening.suspects_speech();
        // The conversation of an answer is hot, and a prewarm would wait for its end.
        let restores = suspects && !self.suspects && self.response.is_none();
        if let Some(conversation) = self.conversation.as_ref().filter(|_| restores) {
            self.speech.prewarm(conversation, &self.options);
        }
        self.suspects = suspects;
        for detected in detected {
            let events_of = match detected {
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
            "input_audio_buffer.append" => {
                let audio = BASE64.decode(fields.required_string("audio")?).map_err(|error| {
                    ApiError::field("audio", format!("`audio` is not base64: {error}"))
                })?;
                let detected = self.listening.append(&audio);
                Ok(self.detected(detected))
            }
            "input_audio_buffer.commit" => {
                let stopped = self.listening.commit();
                let mut events = vec![event("input_audio_buffer.committed", json!({}))];
                events.extend(self.detected(stopped));
                Ok(events)
            }
            "input_audio_buffer.clear" => {
                if self.listening.clear() {
                    self.forget_words();
                }
                Ok(vec![event("input_audio_buffer.cleared", json!({}))])
            }
            "input_audio_buffer.speech_started" => self.started(),
            "input_audio_buffer.speech_stopped" => self.stopped(),
            "conversation.item.input_audio_transcription.delta" => self.partial(&fields),
            "conversation.item.input_audio_transcription.completed" => self.complete(&fields),
            "response.create" => {
                let options = Value::Object(fields.map("response")?.cloned().unwrap_or_default());
                if self.listening.is_finishing() {
                    // The answer begins with the final transcript, in a moment.
                    self.utterance.awaiting = Some(options);
                    return Ok(Vec::new());
                }
                self.respond(options).map(|()| Vec::new())
            }
            "response.cancel" => {
                self.utterance.cancel_request();
                Ok(self.interrupt())
            }
            other => {
                let message = format!("events of type `{}` are not known", other.escape_debug());
                Err(ApiError::field("type", message).code("unknown_event"))
            }
        }
    }

    /// `conversation` names the conversation, whose KV is restored at once. Fields that [`SoundSettings`]
    /// reads are about sound; the others are those of its requests.
    fn update(&mut self, fields: &Fields<'_>) -> Result<Events, ApiError> {
        let mut options = fields.map("session")?.cloned().unwrap_or_default();
        let mut sound = self.sound.clone();
        take_sound(&mut options, &mut sound);
        let settings = SoundSettings::of(&sound)?;
        let changed = self.options_with(&options, &sound)?;
        if settings.output != Output::Text && !self.speech.can_speak() {
            return Err(no_voice());
        }
        let mut events = Vec::new();
        if let Some(name) = options.remove("conversation") {
            let name = name.as_str().unwrap_or_default();
            let id = conversation_id(name, "session.conversation")?;
            if self.conversation.as_ref() != Some(&id) {
                events = self.leave();
                self.conversation = Some(id);
            }
        }
        self.options = changed;
        let recognizer = self.speech.stream_recognizer();
        let is_new = recognizer.is_some() && self.listening.recognizer().is_none();
        if self.hearing != settings.hearing || is_new {
            self.hearing = settings.hearing;
            let Hearing { rate, detects } = self.hearing;
            let listening = Listening::new(recognizer, rate, detects);
            self.listening = listening.behind(&self.listening);
        }
        (self.sound, self.output) = (sound, settings.output);
        if let Some(conversation) = &self.conversation {
            self.speech.prewarm(conversation, &self.options);
        }
        events.push(event("session.updated", json!({"session": self.body()})));
        Ok(events)
    }

    /// The session's options with these, a bounded number of bytes together with its sound.
    fn options_with(&self, more: &Map<String, Value>, sound: &Value) -> Result<Value, ApiError> {
        let mut options = self.options.clone();
        for (name, value) in more.iter().filter(|(name, _)| *name != "conversation") {
            options[name] = value.clone();
        }
        if options.to_string().len() + sound.to_string().len() > MAX_MESSAGE_BYTES {
            let message = format!(
                "the fields of `session` are more than {MAX_MESSAGE_BYTES} bytes, those before included: send less, \
                 or open another socket"
            );
            return Err(ApiError::field("session", message).code("session_too_large"));
        }
        Ok(options)
    }

    fn started(&mut self) -> Result<Events, ApiError> {
        let conversation = self.conversation()?;
        let interrupted = self.interrupt();
        self.utterance = Utterance::default();
        self.speech.start(&conversation, &self.options)?;
        self.speech.own(&conversation, &self.id);
        Ok(interrupted)
    }

    /// The transcript so far, or the final one.
    fn said(&self, text: String, is_final: bool) -> Result<(), ApiError> {
        let conversation = self.conversation()?;
        self.speech.transcript(&conversation, text, is_final, &self.options)?;
        self.speech.own(&conversation, &self.id);
        Ok(())
    }

    /// Returns a phrase to play, if the session asks for phrases.
    fn stopped(&mut self) -> Result<Events, ApiError> {
        let conversation = self.conversation()?;
        self.speech.speech_stopped(&conversation);
        self.utterance.has_stopped = true;
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
        self.conversation()?;
        match fields.string("transcript")? {
            Some(whole) => self.utterance.transcript = whole.to_owned(),
            None => {
                let delta = fields.required_string("delta")?;
                if self.utterance.transcript.len() + delta.len() > MAX_MESSAGE_BYTES {
                    let message = format!(
                        "the transcript has more than {MAX_MESSAGE_BYTES} bytes: end it, or replace it by `transcript`"
                    );
                    return Err(ApiError::field("delta", message).code("transcript_too_long"));
                }
                self.utterance.transcript.push_str(delta);
            }
        }
        self.said(self.utterance.transcript.clone(), false)?;
        Ok(Vec::new())
    }

    fn complete(&mut self, fields: &Fields<'_>) -> Result<Events, ApiError> {
        self.conversation()?;
        let text = fields.required_string("transcript")?.to_owned();
        self.utterance.transcript.clear();
        self.utterance.is_complete = !text.trim().is_empty(); // A cough has no words.
        self.said(text, true)?;
        self.respond_when_due().map(|()| Vec::new())
    }

    /// What the recogniser has understood.
    fn recognized(&mut self, heard: RecognizerEvent) -> Result<Events, ApiError> {
        const KIND: &str = "conversation.item.input_audio_transcription";
        match heard {
            RecognizerEvent::Partial(text) => {
                self.conversation()?;
                self.utterance.transcript.clone_from(&text);
                self.said(text.clone(), false)?;
                Ok(vec![event(&format!("{KIND}.delta"), json!({"transcript": text}))])
            }
            RecognizerEvent::Final(text) => {
                self.conversation()?;
                self.utterance.is_complete = !text.is_empty();
                // A recogniser may end by itself before an utterance. Then it leaves what other clients have said.
                let is_spoken = self.utterance.wants_answer() || self.listening.is_in_speech();
                if is_spoken || self.utterance.is_complete {
                    self.said(text.clone(), true)?;
                }
                let mut events =
                    vec![event(&format!("{KIND}.completed"), json!({"transcript": text}))];
                let begun = match self.utterance.awaiting.take() {
                    Some(options) => self.respond(options), // Without words it fails, and says so.
                    None => self.respond_when_due(),
                };
                events.extend(begun.err().map(|error| event("error", error.to_json())));
                Ok(events)
            }
            RecognizerEvent::Failed(error) => {
                self.utterance.awaiting = None;
                tracing::warn!(%error, "the streaming recogniser failed");
                let message =
                    format!("what was said could not be transcribed: {error}{STREAM_REMEDY}");
                Err(ApiError::new(ErrorKind::Busy, message).code("recognizer"))
            }
        }
    }

    fn respond_when_due(&mut self) -> Result<(), ApiError> {
        match self.utterance.take_due() {
            Some(options) => self.respond(options),
            None => Ok(()),
        }
    }

    fn respond(&mut self, options: Value) -> Result<(), ApiError> {
        if self.response.is_some() {
            let message = "an answer is under way: cancel it with `response.cancel`";
            return Err(ApiError::new(ErrorKind::Invalid, message).code("response_active"));
        }
        self.utterance.begin_answer();
        let (speech, conversation) = (self.speech.clone(), self.conversation()?);
        let beginning = async move { speech.end(&conversation, &options).await };
        let speaking = match &self.output {
            Output::Text => None,
            Output::Sound(voice) => self.speech.speak(voice.clone()),
        };
        self.response = Some(Response::new(Box::pin(beginning), speaking));
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
        for (name, value) in self.sound.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        body["id"] = self.id.as_str().into();
        body["object"] = "realtime.session".into();
        body["model"] = self.speech.chat().model_name().into();
        body["conversation"] = json!(self.conversation);
        body
    }

    /// Ends speech in the current conversation: its words are no message of the next one.
    fn leave(&mut self) -> Events {
        let interrupted = self.interrupt();
        self.listening.reset();
        self.forget_words();
        self.conversation = None;
        interrupted
    }

    /// Drops the words of the utterance in progress, and their prefill.
    fn forget_words(&mut self) {
        self.utterance = Utterance::default();
        if let Some(conversation) = &self.conversation {
            self.speech.cancel_of(conversation, &self.id);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.response = None;
        self.forget_words();
    }
}
