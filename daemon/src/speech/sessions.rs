//! The utterances in progress, one session a conversation.
//!
//! - A task a session prefills speculatively. It sees the latest target only.
//! - Closing a session leaves a running prefill to the turn that closes it, and no new one begins.
//!   Cancelling a session cancels its prefill.
//! - A session that is never closed is dropped [`MAX_AGE`] after its last event, or when more than
//!   [`MAX_SESSIONS`] are open.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hob_prewarm::{Speculation, Utterance, UtteranceEvent};
use hob_slots::{ConversationId, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::watch;

use crate::chat::request::ResolvedRequest;

const MAX_SESSIONS: usize = 64;
const MAX_AGE: Duration = Duration::from_secs(10 * 60);

/// What a session's task does next.
#[derive(Clone, Debug)]
pub enum Target {
    Prefill(Arc<ResolvedRequest>, Speculation),
    Cancel,
}

/// What the next turn will ask, except for the words.
#[derive(Clone, Debug)]
pub struct NextTurn {
    pub body: Value,
    /// Parsed from `body`.
    pub resolved: Arc<ResolvedRequest>,
}

#[derive(Debug)]
struct Session {
    utterance: Utterance,
    next_turn: NextTurn,
    target: watch::Sender<Target>,
    last_event_at: Timestamp,
    /// Speech has started, perhaps without words yet, and no final transcript has come.
    is_speaking: bool,
    /// The socket that its words come from; `None`: requests.
    owner: Option<String>,
}

#[derive(Debug, Default)]
pub struct SpeechSessions {
    open: Mutex<BTreeMap<ConversationId, Session>>,
}

impl SpeechSessions {
    /// Opens a session, or replaces what the next turn of an open one will ask. Returns the targets
    /// for the task of a new session.
    pub fn open(
        &self,
        id: &ConversationId,
        next_turn: NextTurn,
        now: Timestamp,
    ) -> Option<watch::Receiver<Target>> {
        let mut open = self.open_at(now);
        if let Some(session) = open.get_mut(id) {
            if session.next_turn.body != next_turn.body {
                session.utterance = Utterance::default();
                session.next_turn = next_turn;
            }
            return None;
        }
        while open.len() >= MAX_SESSIONS {
            let oldest = open.iter().min_by_key(|(_, session)| session.last_event_at);
            let Some(oldest) = oldest.map(|(id, _)| id.clone()) else { break };
            open.remove(&oldest);
        }
        let (target, targets) = watch::channel(Target::Cancel);
        let utterance = Utterance::default();
        let last_event_at = now;
        let (is_speaking, owner) = (false, None);
        let session = Session { utterance, next_turn, target, last_event_at, is_speaking, owner };
        open.insert(id.clone(), session);
        Some(targets)
    }

    pub fn is_open(&self, id: &ConversationId, now: Timestamp) -> bool {
        self.open_at(now).contains_key(id)
    }

    /// Returns the stable text after `event`; `None` when there is no such session. What is spoken comes from requests
    /// until a socket owns it.
    pub fn handle(
        &self,
        id: &ConversationId,
        event: UtteranceEvent,
        now: Timestamp,
    ) -> Option<String> {
        let mut open = self.lock();
        let session = open.get_mut(id)?;
        session.last_event_at = now;
        let is_typed = matches!(event, UtteranceEvent::Typed(_));
        if !is_typed {
            session.owner = None;
        }
        // Nothing is typed into spoken words: who types before the first of them takes the session over.
        session.is_speaking = !is_typed && !matches!(event, UtteranceEvent::Final(_));
        if let Some(speculation) = session.utterance.handle(event) {
            let resolved = session.next_turn.resolved.clone();
            session.target.send_replace(Target::Prefill(resolved, speculation));
        }
        Some(session.utterance.stable_text().to_owned())
    }

    /// Its words come from the socket `owner` from here on.
    pub fn own(&self, id: &ConversationId, owner: &str) {
        if let Some(session) = self.lock().get_mut(id) {
            session.owner = Some(owner.to_owned());
        }
    }

    /// The socket that its words come from; `None`: requests, or there is no such session.
    pub fn owner(&self, id: &ConversationId) -> Option<String> {
        let open = self.lock();
        open.get(id)?.owner.clone()
    }

    /// The body of the next turn, and the words of it.
    pub fn next_turn(
        &self,
        id: &ConversationId,
        now: Timestamp,
    ) -> Option<(Value, Option<String>)> {
        let open = self.open_at(now);
        let session = open.get(id)?;
        Some((session.next_turn.body.clone(), session.utterance.text().map(str::to_owned)))
    }

    /// Whether words of the next turn were spoken, and not yet sent.
    pub fn has_spoken_words(&self, id: &ConversationId, now: Timestamp) -> bool {
        self.open_at(now).get(id).is_some_and(|session| session.utterance.text().is_some())
    }

    /// The prefill of `speculation` has ended, successfully or not.
    pub fn settled(&self, id: &ConversationId, speculation: &Speculation) {
        if let Some(session) = self.lock().get_mut(id) {
            session.utterance.settled(speculation);
        }
    }

    /// Runs `begin` unless the session is closed, and blocks closing meanwhile.
    pub fn while_open<T>(&self, id: &ConversationId, begin: impl FnOnce() -> T) -> Option<T> {
        let open = self.lock();
        open.contains_key(id).then(begin)
    }

    /// Runs `begin` while no session is open, and blocks opening meanwhile.
    pub fn unless_open<T>(
        &self,
        id: &ConversationId,
        now: Timestamp,
        begin: impl FnOnce() -> T,
    ) -> Option<T> {
        let open = self.open_at(now);
        (!open.contains_key(id)).then(begin)
    }

    /// A turn begins and takes over the running prefill.
    pub fn close(&self, id: &ConversationId) {
        self.lock().remove(id);
    }

    /// The user of `owner` stopped speaking and no turn follows: cancels the running prefill. Returns false, and does
    /// nothing, where the words come from another client. `owner`: a socket; `None`: requests.
    pub fn cancel_of(&self, id: &ConversationId, owner: Option<&str>) -> bool {
        self.cancel_unless(id, |session| session.owner.as_deref() != owner)
    }

    /// The user stopped typing and no turn follows: cancels the running prefill, unless another client speaks.
    pub fn cancel_typed(&self, id: &ConversationId) {
        self.cancel_unless(id, |it| {
            it.is_speaking || it.utterance.text().is_some() || it.owner.is_some()
        });
    }

    fn cancel_unless(
        &self,
        id: &ConversationId,
        is_of_another: impl FnOnce(&Session) -> bool,
    ) -> bool {
        let mut open = self.lock();
        if open.get(id).is_some_and(is_of_another) {
            return false;
        }
        if let Some(session) = open.remove(id) {
            session.target.send_replace(Target::Cancel);
        }
        true
    }

    /// Drops the sessions without an event for [`MAX_AGE`].
    fn open_at(&self, now: Timestamp) -> MutexGuard<'_, BTreeMap<ConversationId, Session>> {
        let mut open = self.lock();
        open.retain(|_, session| {
            session.last_event_at = session.last_event_at.min(now); // The clock may step back.
            session.last_event_at.age(now) < MAX_AGE
        });
        open
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ConversationId, Session>> {
        self.open.lock()
    }
}
