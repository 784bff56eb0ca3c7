//! Whether a request's text and KV may reach the disk.
//!
//! - A private request never touches the disk: `hob.private`, or `store: false` in a conversation.
//! - A private conversation stays private, whatever later requests say; its text is in the
//!   transcript's memory until it is deleted.
//! - A private request without a conversation leaves nothing at its end.
//! - `store: false` without a conversation has no text, and its KV stays in memory alone: clients send it with each
//!   request of a history, and mean that nothing is kept for the server's owner.

use hob_slots::{CacheKey, ConversationId};

use super::Chat;
use super::identity::Identity;
use crate::conversations::transcript::{PrivateRequest, TranscriptError};
use crate::error::{ApiError, ErrorKind};
use crate::wire::chat::ChatRequest;
use crate::wire::completion::CompletionRequest;

/// The hint of unstored requests that have no cache key.
const UNSTORED: &str = "unstored";

/// What a request says of where its text and its KV may be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PrivacyFields {
    /// `hob.private`
    pub private: bool,
    /// `store: false`
    pub unstored: bool,
    /// Its KV must not reach the disk; `None`: as recorded.
    pub in_memory: Option<bool>,
}

impl From<&ChatRequest> for PrivacyFields {
    fn from(request: &ChatRequest) -> Self {
        let ChatRequest { private, unstored, in_memory, .. } = *request;
        Self { private, unstored, in_memory }
    }
}

impl From<&CompletionRequest> for PrivacyFields {
    fn from(request: &CompletionRequest) -> Self {
        let CompletionRequest { private, unstored, in_memory, .. } = *request;
        Self { private, unstored, in_memory }
    }
}

/// What a request names, and whether it is private.
#[derive(Debug)]
pub(super) struct Scope {
    pub identity: Identity,
    pub is_private: bool,
    /// Held for a private conversation; drop it once the request's text is queued.
    private: Option<PrivateRequest>,
    /// Its KV must not reach the disk; `None`: as recorded.
    pub in_memory: Option<bool>,
}

impl Scope {
    /// Whether the KV must not reach the disk: then nothing is learned from the prompt, either.
    pub fn stays_in_memory(&self) -> bool {
        self.in_memory == Some(true)
    }

    /// The request's text is queued for the transcript.
    pub fn has_text(&self) {
        if let Some(private) = &self.private {
            private.has_text();
        }
    }

    /// The conversation or hint whose timeline is saved.
    pub fn recorded(&self) -> Option<ConversationId> {
        let is_recorded = |id: &&ConversationId| !id.is_hint() || !self.stays_in_memory();
        self.identity.pinned().filter(is_recorded).cloned()
    }
}

impl Chat {
    /// With `opens` a private request makes its conversation private; without, a conversation that is not private
    /// counts as absent.
    ///
    /// # Errors
    /// When the request is private and its conversation is on disk.
    pub(super) async fn scope(
        &self,
        identity: Identity,
        fields: PrivacyFields,
        opens: bool,
    ) -> Result<Scope, ApiError> {
        let asks_privacy = fields.private || fields.unstored && identity.named().is_some();
        let transcript = &self.shared.options.transcript;
        let mut private = identity.named().and_then(|id| transcript.enter_private(id));
        let identity = match identity {
            Identity::Named(id) if private.is_some() => Identity::Named(id),
            Identity::Named(id) if asks_privacy && opens => {
                private = Some(transcript.open_private(&id).await.map_err(refused)?);
                Identity::Named(id)
            }
            _ if asks_privacy => Identity::Ephemeral,
            Identity::Ephemeral if fields.unstored => {
                Identity::Hint(CacheKey::V5(UNSTORED.to_owned()).id())
            }
            identity => identity,
        };
        let is_private = private.is_some() || asks_privacy;
        let stays = is_private || fields.unstored;
        let in_memory = if stays { Some(true) } else { fields.in_memory };
        Ok(Scope { identity, is_private, private, in_memory })
    }
}

fn refused(error: TranscriptError) -> ApiError {
    match error {
        TranscriptError::OnDisk => {
            let message = "this conversation is stored on disk, and a private request must not \
                           add to it: use another `conversation`, or none";
            ApiError::new(ErrorKind::Invalid, message).param("conversation").code("not_private")
        }
        error => error.into(),
    }
}
