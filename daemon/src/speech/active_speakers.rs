//! Knows whether someone speaks, so that nothing is said over their voice.
//!
//! - Pure: takes `now`.
//! - A client that vanished while someone spoke keeps the house quiet for [`LONGEST`], no longer.

use std::collections::BTreeMap;
use std::time::Duration;

use hob_slots::{ConversationId, Timestamp};

/// Nobody speaks to a machine for longer without a pause.
const LONGEST: Duration = Duration::from_secs(120);

/// Speakers that are remembered; of more the oldest is forgotten.
const MOST_SPEAKERS: usize = 256;

/// Who speaks, and since when.
#[derive(Debug, Default)]
pub struct ActiveSpeakers {
    speaking: BTreeMap<ConversationId, Timestamp>,
}

impl ActiveSpeakers {
    /// Someone begins to speak in the conversation, or goes on.
    pub fn started(&mut self, conversation: &ConversationId, now: Timestamp) {
        self.speaking.retain(|_, since| since.age(now) < LONGEST);
        self.speaking.insert(conversation.clone(), now);
        if self.speaking.len() > MOST_SPEAKERS {
            let oldest = self.speaking.iter().min_by_key(|(_, since)| **since);
            let oldest = oldest.map(|(id, _)| id.clone()).expect("there are speakers");
            self.speaking.remove(&oldest);
        }
    }

    /// Nobody speaks in the conversation any longer.
    pub fn stopped(&mut self, conversation: &ConversationId) {
        self.speaking.remove(conversation);
    }

    /// Whether something may be said in the conversation; without one: anywhere.
    pub fn is_quiet(&self, conversation: Option<&ConversationId>, now: Timestamp) -> bool {
        let speaks = |since: &Timestamp| since.age(now) < LONGEST;
        match conversation {
            Some(id) => !self.speaking.get(id).is_some_and(speaks),
            None => !self.speaking.values().any(speaks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_quiet_where_nobody_speaks() {
        let (mut active_speakers, kitchen, attic) =
            (ActiveSpeakers::default(), id("kitchen"), id("attic"));
        active_speakers.started(&kitchen, at(0));
        assert!(!active_speakers.is_quiet(Some(&kitchen), at(1)));
        assert!(active_speakers.is_quiet(Some(&attic), at(1)));
        assert!(!active_speakers.is_quiet(None, at(1)), "who does not say where hears of everyone");
        active_speakers.stopped(&kitchen);
        assert!(active_speakers.is_quiet(None, at(1)));
    }

    #[test]
    fn a_client_that_vanished_does_not_silence_the_house_for_good() {
        let (mut active_speakers, kitchen) = (ActiveSpeakers::default(), id("kitchen"));
        active_speakers.started(&kitchen, at(0));
        assert!(!active_speakers.is_quiet(None, at(119)));
        assert!(active_speakers.is_quiet(None, at(120)));
        active_speakers.started(&kitchen, at(200));
        assert!(!active_speakers.is_quiet(None, at(201)));
    }

    #[test]
    fn speakers_are_bounded() {
        let mut active_speakers = ActiveSpeakers::default();
        for index in 0..2 * MOST_SPEAKERS as u64 {
            active_speakers.started(&id(&format!("room {index}")), Timestamp(index));
        }
        assert_eq!(active_speakers.speaking.len(), MOST_SPEAKERS);
    }

    fn id(name: &str) -> ConversationId {
        ConversationId::new(name).unwrap()
    }

    fn at(secs: u64) -> Timestamp {
        Timestamp(secs * 1_000)
    }
}
