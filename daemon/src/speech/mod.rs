//! Speech: prefills a conversation while the user still speaks or types, and begins the turn when
//! they stop speaking.
//!
//! Reading order: this file (the events of an utterance), [`sessions`] (utterances in progress),
//! `speculate` (the task that prefills), [`typing`] (the same for typed words), [`vad`] (sound
//! to speech events), [`dictation`] (sound to partial transcripts), [`utterances`] (its sound over
//! HTTP), [`voice`] (phrases, spoken answers, transcription) with [`filler`], [`phrase_cache`],
//! [`synthesis`], `sentences`, [`recognizer`], [`command`], [`program`], [`sound`] and [`wav`].
//!
//! - Handling an event only queues work.
//! - While an answer of the conversation runs, the history of the next turn is incomplete: the task
//!   waits for it, and delays no request.

pub mod active_speakers;
pub mod command;
pub mod dictation;
pub mod filler;
pub mod phrase_cache;
pub mod program;
pub mod recognizer;
mod sentences;
pub mod sessions;
pub mod sound;
mod speculate;
pub mod synthesis;
pub mod typing;
pub mod utterances;
pub mod vad;
pub mod voice;
pub mod wav;

use std::sync::Arc;

use hob_prewarm::UtteranceEvent;
use hob_slots::{ConversationId, Timestamp};
use parking_lot::Mutex;
use serde_json::Value;

use crate::chat::Chat;
use crate::chat::answer::Answer;
use crate::chat::identity::Session;
use crate::chat::prewarm::without_question;
use crate::clock::Clock;
use crate::error::{ApiError, ErrorKind};
use crate::metrics::Metrics;
use crate::warm::events::WarmEvents;
use crate::wire::chat::ChatRequest;
use crate::wire::fields::wrong_type;
use crate::wire::message::{Message, Role};
use active_speakers::ActiveSpeakers;
use dictation::StreamRecognizer;
use filler::Filler;
use recognizer::Recognizer;
use sessions::{NextTurn, SpeechSessions};
use synthesis::Synthesizer;
use typing::TypeAhead;
use utterances::Utterances;

/// What [`Speech`] is made of.
pub struct Options {
    pub chat: Chat,
    /// Shared with `chat`, which closes a session when its turn begins.
    pub sessions: Arc<SpeechSessions>,
    pub clock: Clock,
    pub events: WarmEvents,
    pub metrics: Arc<Metrics>,
    /// `None`: no phrases.
    pub filler: Option<Arc<Filler>>,
    /// `None`: answers are not spoken.
    pub synthesizer: Option<Arc<Synthesizer>>,
    /// `None`: no transcription.
    pub recognizer: Option<Arc<Recognizer>>,
    /// `None`: no transcription while the user speaks.
    pub stream_recognizer: Option<Arc<StreamRecognizer>>,
    pub type_ahead: TypeAhead,
}

/// Handles speech. Clones share everything.
#[derive(Clone)]
pub struct Speech {
    shared: Arc<Shared>,
}

struct Shared {
    options: Options,
    active_speakers: Mutex<ActiveSpeakers>,
    utterances: Utterances,
}

impl Speech {
    pub fn new(options: Options) -> Self {
        let active_speakers = Mutex::default();
        let utterances = Utterances::default();
        Self { shared: Arc::new(Shared { options, active_speakers, utterances }) }
    }

    pub fn chat(&self) -> &Chat {
        &self.options().chat
    }

    /// The user begins to speak: prefills the prompt up to their words, and discards an earlier
    /// transcript. `options`: the fields of the next request beside the words; an empty object
    /// leaves them unchanged.
    ///
    /// # Errors
    /// When the options are invalid.
    pub fn start(&self, id: &ConversationId, options: &Value) -> Result<(), ApiError> {
        self.open_session(id, options)?;
        self.chat().engine().load(); // Unloaded weights load while the history is read.
        self.speech_started(id);
        self.options().sessions.handle(id, UtteranceEvent::SpeechStarted, self.now());
        Ok(())
    }

    /// The recogniser's transcript so far, or, when it `is_final`, the whole one. Returns the words
    /// that are stable. `options`: the fields of the next request beside the words, unless a start
    /// of speech has set them.
    ///
    /// # Errors
    /// When a new session cannot be opened.
    pub fn transcript(
        &self,
        id: &ConversationId,
        text: String,
        is_final: bool,
        options: &Value,
    ) -> Result<String, ApiError> {
        if !self.options().sessions.is_open(id, self.now()) {
            self.open_session(id, options)?;
        }
        if is_final {
            self.speech_stopped(id);
        }
        let event =
            if is_final { UtteranceEvent::Final(text) } else { UtteranceEvent::Partial(text) };
        Ok(self.options().sessions.handle(id, event, self.now()).unwrap_or_default())
    }

    /// The user stopped: begins to answer the transcript. `options` replace those of the start.
    ///
    /// # Errors
    /// When there is no transcript, or as for [`Chat::answer`]. The words stay if it may succeed later.
    pub async fn end(
        &self,
        id: &ConversationId,
        options: &Value,
    ) -> Result<(ChatRequest, Answer), ApiError> {
        let nothing_heard = || {
            let message = "nothing was heard in this conversation: send a transcript first";
            ApiError::new(ErrorKind::Invalid, message).code("nothing_heard")
        };
        self.speech_stopped(id);
        let owner = self.options().sessions.owner(id);
        let (next, words) =
            self.options().sessions.next_turn(id, self.now()).ok_or_else(nothing_heard)?;
        let words = words.ok_or_else(nothing_heard)?;
        let mut body = next_body(id, &merged(next.clone(), options)?)?;
        if let Some(messages) = body["messages"].as_array_mut() {
            messages.push(Message::plain(Role::User, &words).to_json());
        }
        let answer = self.chat().answer(&body, &Session::default()).await;
        if let Err(ApiError { kind: ErrorKind::Busy | ErrorKind::Upstream, .. }) = &answer {
            self.restore_words(id, &next, words, owner.as_deref());
        }
        answer
    }

    /// The user of a client without a socket stopped, and no turn follows. What is said over a socket goes on.
    pub fn cancel(&self, id: &ConversationId) {
        if self.options().sessions.cancel_of(id, None) {
            self.speech_stopped(id);
        }
    }

    /// The same request may succeed later, but its turn has closed the session. A later transcript
    /// replaces the words.
    fn restore_words(&self, id: &ConversationId, next: &Value, words: String, owner: Option<&str>) {
        let sessions = &self.options().sessions;
        if !sessions.is_open(id, self.now()) && self.open_session(id, next).is_ok() {
            sessions.handle(id, UtteranceEvent::Partial(words), self.now());
            if let Some(owner) = owner {
                sessions.own(id, owner);
            }
        }
    }

    /// What is said in the conversation comes from the socket `owner` from here on, until a request or another
    /// socket says something there.
    pub fn own(&self, id: &ConversationId, owner: &str) {
        self.options().sessions.own(id, owner);
    }

    /// The socket `owner` leaves the conversation and no turn follows. What another client says there goes on.
    pub fn cancel_of(&self, id: &ConversationId, owner: &str) {
        if self.options().sessions.cancel_of(id, Some(owner)) {
            self.speech_stopped(id);
        }
    }

    fn open_session(&self, id: &ConversationId, options: &Value) -> Result<(), ApiError> {
        let is_empty = options.as_object().map_or(options.is_null(), serde_json::Map::is_empty);
        let sessions = &self.options().sessions;
        if is_empty && sessions.is_open(id, self.now()) {
            return Ok(());
        }
        let body = next_body(id, options)?;
        let resolved = Arc::new(self.chat().resolve(&body)?);
        if let Some(targets) = sessions.open(id, NextTurn { body, resolved }, self.now()) {
            tokio::spawn(speculate::run(self.clone(), id.clone(), targets));
        }
        Ok(())
    }

    fn utterances(&self) -> &Utterances {
        &self.shared.utterances
    }

    fn options(&self) -> &Options {
        &self.shared.options
    }

    fn now(&self) -> Timestamp {
        (self.options().clock)()
    }
}

/// The body of the next chat, without the words.
fn next_body(id: &ConversationId, options: &Value) -> Result<Value, ApiError> {
    let mut body = without_question(options)?;
    body["conversation"] = id.as_str().into();
    Ok(body)
}

/// `options` replace the fields of `body` that they name, and those of its `hob`; `null` names none. `body`: as
/// of [`next_body`], so its profile is in `hob`.
fn merged(mut body: Value, options: &Value) -> Result<Value, ApiError> {
    let options = match options {
        Value::Null => return Ok(body),
        Value::Object(options) => options,
        other => return Err(wrong_type("body", "an object", other)),
    };
    if let Some(profile) = options.get("profile").filter(|profile| !profile.is_null()) {
        body["hob"]["profile"] = profile.clone();
    }
    let named = |(name, value): &(&String, &Value)| *name != "profile" && !value.is_null();
    for (name, value) in options.iter().filter(named) {
        if name == "hob"
            && let (Some(hob), Some(more)) = (body["hob"].as_object_mut(), value.as_object())
        {
            let more = more.iter().filter(|(_, value)| !value.is_null());
            hob.extend(more.map(|(name, value)| (name.clone(), value.clone())));
        } else {
            body[name] = value.clone();
        }
    }
    Ok(body)
}
