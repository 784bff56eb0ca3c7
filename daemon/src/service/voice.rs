//! What is said while the model thinks, and never over the user's voice; and what the user said.

use std::sync::{MutexGuard, PoisonError};

use base64::Engine as _;
use hob_prewarm::phrase::VoiceName;
use hob_slots::ConversationId;
use serde_json::{Value, json};

use super::Service;
use crate::error::{ApiError, ErrorKind};
use crate::voice::active_speakers::ActiveSpeakers;
use crate::voice::filler::Filled;
use crate::voice::recognizer::RecognizerError;

impl Service {
    /// Someone begins to speak in the conversation, or goes on: nothing is said until they end.
    pub fn someone_speaks(&self, conversation: &ConversationId) {
        self.active_speakers().started(conversation, self.now());
    }

    /// Nobody speaks in the conversation any longer.
    pub fn nobody_speaks(&self, conversation: &ConversationId) {
        self.active_speakers().stopped(conversation);
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
        let active_speakers = self.active_speakers();
        match active_speakers.is_quiet(conversation, self.now()) {
            true => Ok(filler.say(voice.as_ref())),
            false => Ok(None),
        }
    }

    /// Whether speech can be written down here.
    pub fn recognizes_speech(&self) -> bool {
        self.inner.recognizer.is_some()
    }

    /// What is said in a WAV; empty when nothing is.
    ///
    /// # Errors
    /// When there is no recogniser, when it fails, or when the WAV is none.
    pub async fn write_down(&self, wav: Vec<u8>) -> Result<String, ApiError> {
        let Some(recognizer) = &self.inner.recognizer else {
            let told = "no recogniser is set: set voice_recognizer in hob.toml to a command that \
                        reads a WAV and writes text, such as whisper-cli of whisper.cpp";
            return Err(ApiError::new(ErrorKind::NotImplemented, told).code("no_recognizer"));
        };
        recognizer.write_down(wav).await.map_err(|error| {
            let told = format!("what was said could not be written down: {error}");
            match error {
                RecognizerError::Sound(_) => {
                    ApiError::new(ErrorKind::Invalid, told).code("invalid_audio")
                }
                RecognizerError::Program(_) => {
                    tracing::warn!(%error, "the recogniser failed");
                    ApiError::internal(told).code("recognizer")
                }
            }
        })
    }

    fn active_speakers(&self) -> MutexGuard<'_, ActiveSpeakers> {
        self.inner.active_speakers.lock().unwrap_or_else(PoisonError::into_inner)
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
