//! The conversations in which somebody speaks: what was heard, and who makes it hot.
//!
//! - One task a room computes ahead; it is told the latest wish only, and older ones are forgotten.
//! - A room that is closed leaves a running computation alone, because the turn that closes it takes
//!   that over; nothing new is begun. A room that falls silent breaks it off.
//! - Rooms that nobody closes leave after [`FORGOTTEN`], or when there are more than [`MOST`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hob_prewarm::{Ahead, Heard, Listening};
use hob_slots::{ConversationId, Timestamp};
use serde_json::Value;
use tokio::sync::watch;

use super::chat::ResolvedRequest;

const MOST: usize = 64;
const FORGOTTEN: Duration = Duration::from_secs(10 * 60);

/// What a room's task should do.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// Make this hot.
    Hot(Arc<ResolvedRequest>, Ahead),
    /// Break off.
    Silence,
}

/// What the turn that comes will ask for, beside the words.
#[derive(Clone, Debug)]
pub(super) struct NextTurn {
    /// The body that it is read from.
    pub body: Value,
    /// The same, checked.
    pub asked: Arc<ResolvedRequest>,
}

#[derive(Debug)]
struct Room {
    listening: Listening,
    coming: NextTurn,
    wishes: watch::Sender<Target>,
    heard_at: Timestamp,
}

/// All rooms.
#[derive(Debug, Default)]
pub(super) struct SpeechSessions {
    open: Mutex<BTreeMap<ConversationId, Room>>,
}

impl SpeechSessions {
    /// Opens the room unless it is open. `coming` replaces what the turn would ask for. What is
    /// returned is where a new room's task hears its wishes.
    pub fn open(
        &self,
        id: &ConversationId,
        coming: NextTurn,
        now: Timestamp,
    ) -> Option<watch::Receiver<Target>> {
        let mut rooms = self.lock();
        if let Some(room) = rooms.get_mut(id) {
            if room.coming.body != coming.body {
                room.listening = Listening::default();
                room.coming = coming;
            }
            return None;
        }
        rooms.retain(|_, room| room.heard_at.age(now) < FORGOTTEN);
        while rooms.len() >= MOST {
            let oldest = rooms.iter().min_by_key(|(_, room)| room.heard_at);
            let Some(oldest) = oldest.map(|(id, _)| id.clone()) else { break };
            rooms.remove(&oldest);
        }
        let (wishes, heard) = watch::channel(Target::Silence);
        let listening = Listening::default();
        rooms.insert(id.clone(), Room { listening, coming, wishes, heard_at: now });
        Some(heard)
    }

    /// Whether the room is open.
    pub fn is_open(&self, id: &ConversationId) -> bool {
        self.lock().contains_key(id)
    }

    /// Takes note of `heard`; returns the words that are certain now, `None` when there is no such
    /// room.
    pub fn hear(&self, id: &ConversationId, heard: Heard, now: Timestamp) -> Option<String> {
        let mut rooms = self.lock();
        let room = rooms.get_mut(id)?;
        room.heard_at = now;
        if let Some(ahead) = room.listening.hear(heard) {
            let wish = Target::Hot(room.coming.asked.clone(), ahead);
            room.wishes.send_replace(wish);
        }
        Some(room.listening.certain().to_owned())
    }

    /// What the coming turn asks for, and what was said.
    pub fn said(&self, id: &ConversationId) -> Option<(Value, Option<String>)> {
        let rooms = self.lock();
        let room = rooms.get(id)?;
        Some((room.coming.body.clone(), room.listening.said().map(str::to_owned)))
    }

    /// The task has made `ahead` hot, or cannot.
    pub fn settled(&self, id: &ConversationId, ahead: &Ahead) {
        if let Some(room) = self.lock().get_mut(id) {
            room.listening.settled(ahead);
        }
    }

    /// Begins something while the room is open; it cannot be closed meanwhile. `None`: it is not.
    pub fn while_open<T>(&self, id: &ConversationId, begin: impl FnOnce() -> T) -> Option<T> {
        let rooms = self.lock();
        rooms.contains_key(id).then(begin)
    }

    /// A turn begins: what is being computed is left to it.
    pub fn close(&self, id: &ConversationId) {
        self.lock().remove(id);
    }

    /// Nobody speaks any longer, and no turn will come.
    pub fn silence(&self, id: &ConversationId) {
        if let Some(room) = self.lock().remove(id) {
            room.wishes.send_replace(Target::Silence);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ConversationId, Room>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
