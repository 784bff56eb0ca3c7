//! Computes ahead of somebody who is still speaking, and begins the turn when they have ended.
//!
//! - Hearing only queues work: it waits for nothing.
//! - What is computed ahead is what the turn will ask for, by the same code. When it fails the turn
//!   computes more, and nothing else: it is counted and forgotten.
//! - While an answer of the conversation still runs, the next one's history is not known: the wait
//!   for it delays nobody.

use std::sync::Arc;

use hob_prewarm::{Ahead, Heard};
use hob_runtime::turn::Turn;
use hob_slots::ConversationId;
use serde_json::Value;

use super::ahead::{self, Extent, prompt};
use super::answering::Answering;
use super::chat::ResolvedRequest;
use super::identity::Identity;
use super::prewarm::without_a_turn;
use super::rooms::NextTurn;
use super::working_ahead::compute_ahead;
use super::{Service, compute};
use crate::error::{ApiError, ErrorKind};
use crate::wire::chat::ChatRequest;
use crate::wire::fields::wrong_type;
use crate::wire::message::{Message, Role};

impl Service {
    /// Somebody begins to speak: makes everything before their words hot. What was heard before is
    /// void. `options`: what the turn's request will have beside the words; an empty one leaves them
    /// as they are.
    pub fn speech_start(&self, id: &ConversationId, options: &Value) -> Result<(), ApiError> {
        self.listen(id, options)?;
        self.engine().load(); // Weights that are away come while we find out what was said before.
        self.someone_speaks(id);
        self.inner.rooms.hear(id, Heard::SpeechStarted, self.now());
        Ok(())
    }

    /// What the recogniser of speech has understood so far, or, when it `is_final`, altogether.
    /// Returns the words of it that are certain.
    pub fn transcript(
        &self,
        id: &ConversationId,
        text: String,
        is_final: bool,
    ) -> Result<String, ApiError> {
        self.listen(id, &Value::Null)?;
        if is_final {
            self.nobody_speaks(id);
        }
        let heard = if is_final { Heard::Final(text) } else { Heard::Partial(text) };
        Ok(self.inner.rooms.hear(id, heard, self.now()).unwrap_or_default())
    }

    /// They have ended: begins to answer what was said. `options` replace those of the start.
    pub async fn speech_end(
        &self,
        id: &ConversationId,
        options: &Value,
    ) -> Result<(ChatRequest, Answering), ApiError> {
        let nothing = || {
            let message = "nothing was heard in this conversation: send a transcript first";
            ApiError::new(ErrorKind::Invalid, message).code("nothing_heard")
        };
        self.nobody_speaks(id);
        let (before, said) = self.inner.rooms.said(id).ok_or_else(nothing)?;
        let said = said.ok_or_else(nothing)?;
        let mut body = coming_body(id, &merged(before, options)?)?;
        if let Some(messages) = body["messages"].as_array_mut() {
            messages.push(Message::plain(Role::User, &said).to_json());
        }
        self.chat(&body, None).await
    }

    /// Nobody speaks any longer, and no turn will come of it.
    pub fn speech_dropped(&self, id: &ConversationId) {
        self.nobody_speaks(id);
        self.inner.rooms.silence(id);
    }

    fn listen(&self, id: &ConversationId, options: &Value) -> Result<(), ApiError> {
        let says_nothing = options.as_object().map_or(options.is_null(), serde_json::Map::is_empty);
        if says_nothing && self.inner.rooms.is_open(id) {
            return Ok(());
        }
        let body = coming_body(id, options)?;
        let asked = Arc::new(self.asked(&body)?);
        if let Some(wishes) = self.inner.rooms.open(id, NextTurn { body, asked }, self.now()) {
            tokio::spawn(compute_ahead(self.clone(), id.clone(), wishes));
        }
        Ok(())
    }

    /// Puts into the queue what should be hot; `None` when the room has been closed meanwhile.
    pub(super) async fn begin_ahead(
        &self,
        id: &ConversationId,
        asked: &ResolvedRequest,
        ahead: &Ahead,
    ) -> Result<Option<Turn>, ApiError> {
        let identity = Identity::Named(id.clone());
        let mut asked = asked.clone();
        let extent = match ahead {
            Ahead::Words(words) => Extent::Before(words.clone()),
            Ahead::Turn(text) => {
                asked.request.messages.push(Message::plain(Role::User, text));
                Extent::Whole
            }
        };
        let continuation = self.continuation(&asked.request, &identity, &extent).await?;
        let known = self.known(&identity).await?;
        let service = self.clone();
        let tokens = compute(move || {
            let messages = continuation.map(|continuation| continuation.history);
            let messages = messages.as_ref().unwrap_or(&asked.request.messages);
            prompt(&service, &asked, messages, &extent, &known).map(|prompt| prompt.tokens)
        });
        let turn = ahead::turn(id.clone(), tokens.await?);
        // A turn that has begun must not be followed by what was meant to come before it.
        let submitted = self.inner.rooms.while_open(id, || self.engine().submit(turn));
        Ok(submitted.transpose()?)
    }
}

/// The body of the chat that will come, without the words.
fn coming_body(id: &ConversationId, options: &Value) -> Result<Value, ApiError> {
    let mut body = without_a_turn(options)?;
    body["conversation"] = id.as_str().into();
    Ok(body)
}

/// `options` replace those fields of `body` that they name.
fn merged(mut body: Value, options: &Value) -> Result<Value, ApiError> {
    let options = match options {
        Value::Null => return Ok(body),
        Value::Object(options) => options,
        other => return Err(wrong_type("body", "an object", other)),
    };
    for (name, value) in options {
        body[name] = value.clone();
    }
    Ok(body)
}
