//! Filler phrases while the model computes, and the transcription of speech.
//!
//! - No phrase is played while the user speaks.

use base64::Engine as _;
use hob_prewarm::phrase::VoiceName;
use hob_slots::ConversationId;
use parking_lot::MutexGuard;
use serde_json::{Value, json};

use super::Speech;
use super::active_speakers::ActiveSpeakers;
use super::filler::FillerPhrase;
use super::recognizer::RecognizerError;
use crate::error::{ApiError, ErrorKind};

impl Speech {
    /// The user speaks in this conversation: no phrase is played until [`Self::speech_stopped`].
    pub fn speech_started(&self, conversation: &ConversationId) {
        self.active_speakers().started(conversation, self.now());
    }

    pub fn speech_stopped(&self, conversation: &ConversationId) {
        self.active_speakers().stopped(conversation);
    }

    /// A phrase to play now, in this voice or the default one. `None` while the user speaks in the
    /// conversation (without one: in any), and while no phrase is ready.
    ///
    /// # Errors
    /// When `voice` is not a valid name.
    pub fn filler(
        &self,
        voice: Option<&str>,
        conversation: Option<&ConversationId>,
    ) -> Result<Option<FillerPhrase>, ApiError> {
        let voice = voice.map(str::parse::<VoiceName>).transpose();
        let voice = voice.map_err(|error| ApiError::field("voice", error.to_string()))?;
        let Some(filler) = &self.options().filler else { return Ok(None) };
        // Locked until the phrase is chosen, so that speech cannot start in between.
        let active_speakers = self.active_speakers();
        if active_speakers.is_quiet(conversation, self.now()) {
            Ok(filler.next_phrase(voice.as_ref()))
        } else {
            Ok(None)
        }
    }

    /// Whether a recogniser is configured.
    pub fn can_transcribe(&self) -> bool {
        self.options().recognizer.is_some()
    }

    /// The text that is spoken in a WAV; empty without speech.
    ///
    /// # Errors
    /// When no recogniser is configured, it fails, or the WAV is invalid.
    pub async fn transcribe(&self, wav: Vec<u8>) -> Result<String, ApiError> {
        let Some(recognizer) = &self.options().recognizer else {
            let message = "no recogniser is set: set voice_recognizer in hob.toml to a command \
                           that reads a WAV and writes text, such as whisper-cli of whisper.cpp";
            return Err(ApiError::new(ErrorKind::NotImplemented, message).code("no_recognizer"));
        };
        recognizer.transcribe(wav).await.map_err(|error| {
            let message = format!("what was said could not be written down: {error}");
            match error {
                RecognizerError::Sound(_) => {
                    ApiError::new(ErrorKind::Invalid, message).code("invalid_audio")
                }
                RecognizerError::Program(_) => {
                    tracing::warn!(%error, "the recogniser failed");
                    ApiError::internal(message).code("recognizer")
                }
            }
        })
    }

    fn active_speakers(&self) -> MutexGuard<'_, ActiveSpeakers> {
        self.shared.active_speakers.lock()
    }
}

/// The event that sends a phrase to a client, as a WAV in base64.
pub fn filler_event(filled: &FillerPhrase) -> Value {
    json!({
        "type": "hob.filler",
        "voice": filled.voice.as_str(),
        "text": filled.text,
        "format": "wav",
        "audio": base64::engine::general_purpose::STANDARD.encode(&filled.wav),
    })
}
