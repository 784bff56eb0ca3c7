//! Tracks the conversations in which the user is speaking, so that no filler interrupts them.
//!
//! - Pure: takes `now`.
//! - A client that disconnects during an utterance blocks fillers for 2 minutes, and not longer when
//!   the clock steps back.

use std::collections::BTreeMap;
use std::time::Duration;

use hob_slots::{ConversationId, Timestamp};

/// Longer than any utterance without a pause.
const MAX_UTTERANCE: Duration = Duration::from_secs(120);

/// Above this the oldest entry is dropped.
const MAX_SPEAKERS: usize = 256;

/// The start of each utterance that is in progress.
#[derive(Debug, Default)]
pub struct ActiveSpeakers {
    speaking: BTreeMap<ConversationId, Timestamp>,
}

impl ActiveSpeakers {
    /// The user begins or continues to speak.
    pub fn started(&mut self, conversation: &ConversationId, now: Timestamp) {
        self.speaking.retain(|_, since| speaks(*since, now));
        self.speaking.insert(conversation.clone(), now);
        if self.speaking.len() > MAX_SPEAKERS {
            let oldest = self.speaking.iter().min_by_key(|(_, since)| **since);
            let oldest = oldest.map(|(id, _)| id.clone()).expect("there are speakers");
            self.speaking.remove(&oldest);
        }
    }

    pub fn stopped(&mut self, conversation: &ConversationId) {
        self.speaking.remove(conversation);
    }

    /// Whether the user is silent in the conversation; without one: in all conversations.
    pub fn is_quiet(&self, conversation: Option<&ConversationId>, now: Timestamp) -> bool {
        match conversation {
            Some(id) => !self.speaking.get(id).is_some_and(|&since| speaks(since, now)),
            None => !self.speaking.values().any(|&since| speaks(since, now)),
        }
    }
}

fn speaks(since: Timestamp, now: Timestamp) -> bool {
    since <= now && since.age(now) < MAX_UTTERANCE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_quiet_unless_its_user_speaks() {
        let (mut active_speakers, kitchen, attic) =
            (ActiveSpeakers::default(), id("kitchen"), id("attic"));
        active_speakers.started(&kitchen, at(0));
        assert!(!active_speakers.is_quiet(Some(&kitchen), at(1)));
        assert!(active_speakers.is_quiet(Some(&attic), at(1)));
        assert!(
            !active_speakers.is_quiet(None, at(1)),
            "without a conversation, all of them count"
        );
        active_speakers.stopped(&kitchen);
        assert!(active_speakers.is_quiet(None, at(1)));
    }

    #[test]
    fn a_disconnected_client_blocks_fillers_for_two_minutes() {
        let (mut active_speakers, kitchen) = (ActiveSpeakers::default(), id("kitchen"));
        active_speakers.started(&kitchen, at(0));
        assert!(!active_speakers.is_quiet(None, at(119)));
        assert!(active_speakers.is_quiet(None, at(120)));
        active_speakers.started(&kitchen, at(200));
        assert!(!active_speakers.is_quiet(None, at(201)));
        assert!(active_speakers.is_quiet(None, at(0)), "the clock has stepped back");
    }

    #[test]
    fn speakers_are_bounded() {
        let mut active_speakers = ActiveSpeakers::default();
        for index in 0..2 * MAX_SPEAKERS as u64 {
            active_speakers.started(&id(&format!("room {index}")), Timestamp(index));
        }
        assert_eq!(active_speakers.speaking.len(), MAX_SPEAKERS);
    }

    fn id(name: &str) -> ConversationId {
        ConversationId::new(name).unwrap()
    }

    fn at(secs: u64) -> Timestamp {
        Timestamp(secs * 1_000)
    }
}
