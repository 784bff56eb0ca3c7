//! What a prompt continues: one visit to the transcript's thread before it is rendered.
//!
//! - It reads the messages in front of an append, the timelines, the documents that the messages name
//!   and the conversation's sampling parameters. It writes nothing.
//! - An error names the field of the request that is wrong.

use super::Chat;
use super::identity::Identity;
use super::request::ResolvedRequest;
use super::reuse_guard::ReuseDecision;
use crate::blocking::compute;
use crate::conversations::transcript::{
    Append, Continuation, HistoryQuery, TranscriptError, TurnQuery, TurnStart, named_documents,
};
use crate::error::ApiError;
use crate::prompt::{Extent, Rendered};
use crate::wire::chat::ChatRequest;
use crate::wire::message::{Message, Role};

impl Chat {
    /// A prompt that a later turn will probably ask for, and which KV that turn uses.
    pub(crate) async fn probable_prompt(
        &self,
        resolved: ResolvedRequest,
        identity: &Identity,
        extent: Extent,
    ) -> Result<(Rendered, ReuseDecision), ApiError> {
        let start = self.begin_turn(&resolved, identity, &extent).await?;
        let (renderer, guard) = (self.shared.options.renderer.clone(), self.reuse_guard().clone());
        compute(move || {
            let is_part = start.continuation.as_ref().is_some_and(Continuation::is_part);
            let history = start.continuation.as_ref().map(|continuation| &continuation.history);
            let messages = history.unwrap_or(&resolved.request.messages);
            let parts = resolved.prompt_parts(messages, &start.documents);
            let prompt = renderer.prompt(&parts, &extent, &start.timelines)?;
            Ok((prompt, guard.decide(&resolved, is_part && resolved.reanchors())))
        })
        .await
    }

    /// Reads what the prompt continues: the history of an append, or of messages that go on past the context, and
    /// the timelines.
    pub(super) async fn begin_turn(
        &self,
        resolved: &ResolvedRequest,
        identity: &Identity,
        extent: &Extent,
    ) -> Result<TurnStart, ApiError> {
        let request = &resolved.request;
        let has_placeholder = request.append && matches!(extent, Extent::Before(_));
        let query = TurnQuery {
            fingerprint: self.engine().fingerprint(),
            timeline_of: identity.pinned().cloned(),
            history: history(resolved, identity, extent)?,
            documents: named_documents(&request.messages),
            is_private: self.is_private(request, identity),
            reads_speed: self.shared.speed.is_unknown(),
        };
        let start = self.shared.options.transcript.begin_turn(query).await;
        let mut start = start.map_err(|error| refused(request, error))?;
        self.shared.speed.recall(start.prefill_tokens_per_second);
        if let Some(continuation) = &mut start.continuation
            && has_placeholder
        {
            continuation.pop_new();
        }
        Ok(start)
    }
}

fn history(
    resolved: &ResolvedRequest,
    identity: &Identity,
    extent: &Extent,
) -> Result<HistoryQuery, ApiError> {
    let request = &resolved.request;
    if request.append {
        return Ok(HistoryQuery::Append(append(request, identity, extent)?));
    }
    Ok(match identity.named().cloned() {
        // The conversation goes on past the context: its prompt may leave out some of these.
        Some(conversation) if resolved.reanchors() => {
            HistoryQuery::Whole { conversation, messages: request.messages.clone() }
        }
        _ => HistoryQuery::Nothing,
    })
}

fn append(request: &ChatRequest, identity: &Identity, extent: &Extent) -> Result<Append, ApiError> {
    let id = identity.named().ok_or_else(|| {
        ApiError::field("hob.append", "`hob.append` needs a `conversation` to append to")
    })?;
    let mut new = request.messages.clone();
    if matches!(extent, Extent::Before(_)) {
        new.push(Message::plain(Role::User, "")); // Stands for the message that is not complete.
    }
    let (continues, instructions) = (request.continues, request.instructions.clone());
    Ok(Append { conversation: id.clone(), after: request.after, new, continues, instructions })
}

fn refused(request: &ChatRequest, error: TranscriptError) -> ApiError {
    match error {
        TranscriptError::NothingToAnswer if request.after.is_some() => {
            // Responses and chats name the place in different fields.
            let message = "there is nothing to answer there: send a message, or name one of the \
                           user or of a tool";
            ApiError::field("messages", message)
        }
        TranscriptError::NothingToAnswer => {
            let message = "this conversation has nothing to answer yet: send a message of the user";
            ApiError::field("messages", message)
        }
        TranscriptError::NothingToContinue => {
            let message = "there is no answer to go on with: name one in `hob.after` that no \
                           message follows, or let the conversation end with it";
            ApiError::field("hob.continue", message)
        }
        error => error.in_field("hob.after"),
    }
}
