//! What is said while the model thinks, and never over the user's voice.

use std::sync::{MutexGuard, PoisonError};

use base64::Engine as _;
use hob_prewarm::phrase::VoiceName;
use hob_slots::ConversationId;
use serde_json::{Value, json};

use super::Service;
use crate::error::ApiError;
use crate::voice::filler::Filled;
use crate::voice::quiet::Quiet;

impl Service {
    /// Someone begins to speak in the conversation, or goes on: nothing is said until they end.
    pub fn someone_speaks(&self, conversation: &ConversationId) {
        self.quiet().started(conversation, self.now());
    }

    /// Nobody speaks in the conversation any longer.
    pub fn nobody_speaks(&self, conversation: &ConversationId) {
        self.quiet().stopped(conversation);
    }

    /// A phrase to play now, in this voice or the usual one. `None` while someone speaks in the
    /// conversation (without one: anywhere), and when none is at hand.
    ///
    /// # Errors
    /// When `voice` is no name of a voice.
    pub fn filler(
        &self,
        voice: Option<&str>,
        conversation: Option<&ConversationId>,
    ) -> Result<Option<Filled>, ApiError> {
        let voice = voice.map(str::parse::<VoiceName>).transpose();
        let voice = voice.map_err(|error| ApiError::field("voice", error.to_string()))?;
        let Some(filler) = &self.inner.filler else { return Ok(None) };
        // Held until the phrase is chosen: who begins to speak meanwhile is not spoken over.
        let quiet = self.quiet();
        match quiet.is_quiet(conversation, self.now()) {
            true => Ok(filler.say(voice.as_ref())),
            false => Ok(None),
        }
    }

    fn quiet(&self) -> MutexGuard<'_, Quiet> {
        self.inner.quiet.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The event that pushes a phrase to a client: its sound is a WAV in base64.
pub fn filler_event(filled: &Filled) -> Value {
    json!({
        "type": "hob.filler",
        "voice": filled.voice.as_str(),
        "text": filled.text,
        "format": "wav",
        "audio": base64::engine::general_purpose::STANDARD.encode(&filled.wav),
    })
}
