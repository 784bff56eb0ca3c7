//! Prefills the prompt that a chat would be answered from, and generates nothing.
//!
//! - It records no text, no timeline and no use of the saved KV.
//! - What it computes of a conversation's stored text is saved; of other text nothing is.
//! - Without a question at the end, it prefills everything before the question.
//! - Of the prewarms that wait for a conversation's answer without a client, the newest alone stays: each takes a
//!   place that a message could have.

use std::collections::BTreeMap;

use hob_slots::ConversationId;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::Chat;
use super::answer::Answer;
use super::identity::{Identity, Session};
use crate::error::ApiError;
use crate::wire::fields::wrong_type;

/// The prewarms without a client that wait for an answer of their conversation.
#[derive(Debug, Default)]
pub(super) struct WaitingPrewarms {
    newest: Mutex<BTreeMap<ConversationId, oneshot::Sender<()>>>,
}

impl WaitingPrewarms {
    /// Replaces the one that waits in the conversation. The new one waits until it drops the receiver, which is ready
    /// once another replaces it.
    fn replace(&self, id: ConversationId) -> oneshot::Receiver<()> {
        let (waiting, replaced) = oneshot::channel();
        let mut newest = self.newest.lock();
        newest.retain(|_, waiting| !waiting.is_closed());
        newest.insert(id, waiting);
        replaced
    }
}

impl Chat {
    /// Begins to prefill the prompt of a chat body. Without `messages` it is the history of the
    /// conversation.
    ///
    /// # Errors
    /// As for [`Chat::answer`].
    pub async fn prewarm(&self, body: &Value, session: &Session) -> Result<Answer, ApiError> {
        let (_, answer) = self.answer(&without_answer(body)?, session).await?;
        Ok(answer)
    }

    /// [`Self::prewarm`] without a client that waits for the end. While an answer of the conversation runs it
    /// returns at once, and begins after it, unless another one replaces it.
    ///
    /// # Errors
    /// When the request is invalid; without a running answer also as for [`Chat::answer`].
    pub async fn prewarm_unattended(
        &self,
        body: &Value,
        session: &Session,
    ) -> Result<(), ApiError> {
        let body = without_answer(body)?;
        let Some(id) = self.answering(&body, session)? else {
            let (_, answer) = self.answer(&body, session).await?;
            tokio::spawn(compute(answer));
            return Ok(());
        };
        let replaced = self.shared.waiting_prewarms.replace(id);
        let (chat, session) = (self.clone(), session.clone());
        tokio::spawn(async move {
            let begun = tokio::select! {
                begun = chat.answer(&body, &session) => begun,
                _ = replaced => return,
            };
            match begun {
                Ok((_, answer)) => compute(answer).await,
                Err(error) => tracing::debug!(%error, "a prewarm did not begin"),
            }
        });
        Ok(())
    }

    /// The conversation that is being answered, and whose end a prewarm would wait for.
    fn answering(
        &self,
        body: &Value,
        session: &Session,
    ) -> Result<Option<ConversationId>, ApiError> {
        let request = self.resolve(body)?.request;
        let identity = Identity::of(body, session)?;
        let waits = |id: &&ConversationId| request.append && self.shared.locks.is_taken(id);
        Ok(identity.named().filter(waits).cloned())
    }
}

async fn compute(mut answer: Answer) {
    if let Err(error) = answer.collect().await {
        tracing::debug!(%error, "prewarm failed");
    }
}

/// The body of a chat that generates nothing.
fn without_answer(body: &Value) -> Result<Value, ApiError> {
    let mut body = without_question(body)?;
    body["max_tokens"] = 0.into();
    body["n"] = 1.into();
    Ok(body)
}

/// A chat body whose question may be missing: without `messages` it appends to the conversation.
/// `profile` is short for `hob.profile`.
///
/// # Errors
/// When the body is not an object.
pub fn without_question(body: &Value) -> Result<Value, ApiError> {
    let mut body = match body {
        Value::Null => json!({}),
        Value::Object(_) => body.clone(),
        other => return Err(wrong_type("body", "an object", other)),
    };
    if body.get("hob").is_none_or(Value::is_null) {
        body["hob"] = json!({});
    }
    let profile = body.as_object_mut().and_then(|body| body.shift_remove("profile"));
    if let (Some(profile), Some(hob)) = (profile, body["hob"].as_object_mut()) {
        hob.entry("profile").or_insert(profile);
    }
    if body.get("messages").is_none_or(Value::is_null) {
        body["messages"] = json!([]);
    }
    if body["messages"].as_array().is_none_or(Vec::is_empty)
        && let Some(hob) = body["hob"].as_object_mut()
    {
        hob.insert("append".to_owned(), true.into());
    }
    Ok(body)
}
