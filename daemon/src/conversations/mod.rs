//! Saved conversations: their text, where their KV is, the trash, export and import.
//!
//! Reading order: [`transcript`] (the database), this file (the handle), `location` (where the KV is),
//! [`readiness`] (what the next answer costs), [`pdf_texts`] (of files in requests), `deletion`, [`trash`]
//! (deletion after an hour), [`search_index`] (deleted words leave it), [`export`] (conversations as files), [`sharing`]
//! (with other daemons), `shareable` (what they may read).
//!
//! - Messages that a user deletes are gone for good after an hour, and with them all KV of their
//!   conversation.
//! - Deleting a conversation deletes its text and its KV, wherever that is. The deletion has
//!   answered when both are durably gone, and no turn that began before it brings them back.

mod deletion;
pub mod export;
pub mod foreign;
mod location;
pub mod pdf_texts;
pub mod readiness;
pub mod search_index;
mod shareable;
pub mod sharing;
pub mod transcript;
pub mod trash;

use hob_runtime::Engine;
use hob_slots::{ConversationId, Timestamp};

use crate::clock::Clock;
use crate::error::{ApiError, ErrorKind};
use crate::learned::Learned;
use crate::storage::Storage;
use crate::uncancelled::uncancelled;
use crate::warm::events::WarmEvents;
use crate::wire::message::Message;
pub use location::KvLocation;
use pdf_texts::PdfTexts;
use sharing::Sharing;
use transcript::{
    Change, ConversationText, Fork, Hit, Listing, Moved, Pending, RecentTurn, SavedExplanation,
    SearchQuery, Snippet, Summary, Transcript, TranscriptError, TurnTicket,
};

#[derive(Clone)]
pub struct Conversations {
    pub engine: Engine,
    pub transcript: Transcript,
    pub storage: Storage,
    pub learned: Learned,
    pub events: WarmEvents,
    pub clock: Clock,
    pub pdf_texts: PdfTexts,
    /// With other daemons.
    pub sharing: Option<Sharing>,
}

/// A conversation of a list, and where its KV is.
pub struct Listed {
    pub summary: Summary,
    /// Of a message that a search has found.
    pub snippet: Option<Snippet>,
    pub location: KvLocation,
}

/// Why a conversation last computed tokens again.
pub enum LastExplanation {
    UnknownConversation,
    /// It computed no token again.
    Never,
    Saved(SavedExplanation),
}

impl Conversations {
    /// The latest first.
    ///
    /// # Errors
    /// When the database cannot be read, or the engine has stopped.
    pub async fn list(&self, listing: Listing) -> Result<Vec<Listed>, ApiError> {
        let list = self.transcript.list(listing).done().await?;
        self.located(list.into_iter().map(|summary| Hit { summary, snippet: None }).collect()).await
    }

    /// The conversations of [`Self::list`] that match.
    ///
    /// # Errors
    /// When the database cannot be read, or the engine has stopped.
    pub async fn search(
        &self,
        query: SearchQuery,
        listing: Listing,
    ) -> Result<Vec<Listed>, ApiError> {
        self.located(self.transcript.search(query, listing).done().await?).await
    }

    async fn located(&self, hits: Vec<Hit>) -> Result<Vec<Listed>, ApiError> {
        let locations = self.locations(hits.iter().map(|hit| &hit.summary)).await?;
        let located = |Hit { summary, snippet }: Hit| {
            let location = locations.get(&summary.id);
            Listed { summary, snippet, location }
        };
        Ok(hits.into_iter().map(located).collect())
    }

    /// One conversation with all its branches; `None` if the id is unknown.
    ///
    /// # Errors
    /// When the database cannot be read, or the engine has stopped.
    pub async fn get(
        &self,
        id: &ConversationId,
    ) -> Result<Option<(ConversationText, KvLocation)>, ApiError> {
        let Some(text) = self.text(id).await? else { return Ok(None) };
        let location = self.locations([&text.summary]).await?.get(id.as_str());
        Ok(Some((text, location)))
    }

    /// The text of one conversation, taken over where another daemon alone has it; `None` if the id is unknown.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn text(&self, id: &ConversationId) -> Result<Option<ConversationText>, ApiError> {
        let text = self.transcript.get(id).done().await?;
        if let (None, Some(sharing)) = (&text, &self.sharing) {
            sharing.catch_up_text(id).await;
            return Ok(self.transcript.get(id).done().await?);
        }
        Ok(text)
    }

    /// # Errors
    /// When the database cannot be read.
    pub async fn explanation(&self, id: &ConversationId) -> Result<LastExplanation, ApiError> {
        if let Some(explanation) = self.transcript.explanation(id).done().await? {
            return Ok(LastExplanation::Saved(explanation));
        }
        let fingerprint = self.engine.fingerprint();
        let is_known = self.transcript.exists(id).done().await?
            || !self.transcript.tokens(id, fingerprint).done().await?.is_empty();
        Ok(if is_known { LastExplanation::Never } else { LastExplanation::UnknownConversation })
    }

    /// The latest answers over all conversations.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn recent_turns(&self, max_turns: usize) -> Result<Vec<RecentTurn>, ApiError> {
        Ok(self.transcript.recent(max_turns).done().await?)
    }

    /// Changes title, pin, trash or head; `false` if the id is unknown.
    ///
    /// # Errors
    /// When the new head is no message of the conversation, or the database cannot be written.
    pub async fn change(&self, id: &ConversationId, change: Change) -> Result<bool, ApiError> {
        if change.trashed == Some(true) && self.transcript.is_private(id) {
            let message = "a private conversation has no trash: delete it";
            return Err(ApiError::field("trashed", message));
        }
        let changes_text = change.changes_text();
        let (conversations, id) = (self.clone(), id.clone());
        let changed = uncancelled(async move {
            if changes_text {
                conversations.catch_up_text(&id).await; // What is published has the newest messages.
            }
            let now = conversations.now();
            let changed = conversations.transcript.change(&id, change, now).done().await;
            if changes_text && matches!(changed, Ok(true)) {
                conversations.republish(&id);
            }
            changed
        });
        changed.await.map_err(|error| error.in_field("head"))
    }

    /// # Errors
    /// When the conversation is being answered, or the database cannot be read.
    pub async fn check_idle(&self, id: &ConversationId) -> Result<(), ApiError> {
        let is_idle = self.transcript.is_idle(id).done().await?;
        if is_idle { Ok(()) } else { Err(TranscriptError::Answering.into()) }
    }

    /// Stores messages behind the last one, with no answer. Returns their ids. Hold the conversation's lock; `ticket`:
    /// from before it.
    ///
    /// # Errors
    /// When the conversation is being answered or deleted, or the database cannot be written.
    pub async fn add_messages(
        &self,
        id: &ConversationId,
        messages: Vec<Message>,
        ticket: TurnTicket,
    ) -> Result<Vec<i64>, ApiError> {
        let transcript = self.transcript.of_turn(Some(ticket));
        self.published(id, || transcript.add_messages(id, messages, self.now())).await
    }

    /// Gives a message another text, as a sibling. Returns its id.
    ///
    /// # Errors
    /// When there is no such message, or the conversation is being answered.
    pub async fn edit_message(
        &self,
        id: &ConversationId,
        message: i64,
        text: String,
    ) -> Result<i64, ApiError> {
        self.published(id, || self.transcript.edit_message(id, message, text, self.now())).await
    }

    /// Pins a message, or takes its pin away: from the next turn on.
    ///
    /// # Errors
    /// When there is no such message, or the conversation is being answered.
    pub async fn pin_message(
        &self,
        id: &ConversationId,
        message: i64,
        pinned: bool,
    ) -> Result<(), ApiError> {
        self.published(id, || self.transcript.pin_message(id, message, pinned)).await
    }

    /// Deletes a message and what follows it. [`Self::restore_message`] brings them back within an
    /// hour.
    ///
    /// # Errors
    /// When there is no such message, or the conversation is being answered.
    pub async fn delete_message(
        &self,
        id: &ConversationId,
        message: i64,
    ) -> Result<Moved, ApiError> {
        self.published(id, || self.transcript.delete_message(id, message, self.now())).await
    }

    /// # Errors
    /// When the message was not deleted, or is deleted for good.
    pub async fn restore_message(
        &self,
        id: &ConversationId,
        message: i64,
    ) -> Result<Moved, ApiError> {
        self.published(id, || self.transcript.restore_message(id, message)).await
    }

    /// Copies the beginning of a conversation. The copy finds its KV by the same tokens.
    ///
    /// # Errors
    /// When there is no such message, or the conversation is private.
    pub async fn fork(&self, fork: Fork) -> Result<ConversationId, ApiError> {
        if self.transcript.is_private(&fork.from) {
            let message = "a copy of a private conversation would be on disk";
            return Err(ApiError::new(ErrorKind::Invalid, message).code("private"));
        }
        let conversations = self.clone();
        let copied = uncancelled(async move {
            let copied = conversations.transcript.fork(fork, conversations.now()).done().await;
            if let Ok(copy) = &copied {
                conversations.republish(copy);
            }
            copied
        });
        copied.await.map_err(of_message)
    }

    /// Reads what another daemon has added to the conversation.
    async fn catch_up_text(&self, id: &ConversationId) {
        if let Some(sharing) = &self.sharing {
            sharing.catch_up_text(id).await;
        }
    }

    /// Queues a change of messages and waits for it, behind what another daemon has added: what is published would
    /// otherwise have an older head, or give deleted messages back. The shared tier has it also where the client
    /// disconnects during the wait, because what is published is read behind the change.
    async fn published<T>(
        &self,
        id: &ConversationId,
        change: impl FnOnce() -> Pending<T>,
    ) -> Result<T, ApiError> {
        self.catch_up_text(id).await;
        let mut change = change();
        self.republish(id);
        change.done().await.map_err(of_message)
    }

    /// Lets the shared tier have the text as it is now.
    pub fn republish(&self, id: &ConversationId) {
        if let Some(sharing) = &self.sharing {
            sharing.changed(id);
        }
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }
}

/// The error of a change of one message.
fn of_message(error: TranscriptError) -> ApiError {
    match error {
        TranscriptError::NoSuchMessage { .. } => {
            ApiError::not_found(error.to_string()).code("message_not_found")
        }
        error => error.into(),
    }
}
