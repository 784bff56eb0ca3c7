//! Filler phrases while the model computes, spoken answers, and the transcription of speech.
//!
//! - No phrase is played while the user speaks.

use std::sync::Arc;

use base64::Engine as _;
use hob_prewarm::phrase::VoiceName;
use hob_slots::ConversationId;
use parking_lot::MutexGuard;
use serde_json::{Value, json};

use super::active_speakers::ActiveSpeakers;
use super::dictation::StreamRecognizer;
use super::filler::FillerPhrase;
use super::recognizer::RecognizerError;
use super::sound::Sound;
use super::synthesis::Speaking;
use super::{Speech, next_body};
use crate::chat::identity::Session;
use crate::error::{ApiError, ErrorKind};

/// OpenAI's voices. Its clients always name one, so the default voice speaks for all of them.
const OPENAI_VOICES: [&str; 13] = [
    "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage",
    "shimmer", "verse",
];

/// The voice that a client of OpenAI's API names; `None`: the default one.
pub fn named_voice(name: Option<&str>) -> Option<&str> {
    name.filter(|name| !OPENAI_VOICES.contains(name))
}

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

    /// Whether a voice command is configured and installed.
    pub fn can_speak(&self) -> bool {
        self.options().synthesizer.is_some()
    }

    /// Begins to speak an answer, in this voice or the default one. `None` without a voice command.
    pub fn speak(&self, voice: Option<VoiceName>) -> Option<Speaking> {
        Some(self.options().synthesizer.as_ref()?.speak(voice))
    }

    /// The sound of a text, in this voice or the default one. `None` when it has no words.
    ///
    /// # Errors
    /// When `voice` is not a valid name, no voice command is configured, or it fails.
    pub async fn synthesize(
        &self,
        voice: Option<&str>,
        text: &str,
    ) -> Result<Option<Sound>, ApiError> {
        let voice = voice.map(str::parse::<VoiceName>).transpose();
        let voice = voice.map_err(|error| ApiError::field("voice", error.to_string()))?;
        let synthesizer = self.options().synthesizer.as_ref().ok_or_else(no_voice)?;
        synthesizer.synthesize_all(voice.as_ref(), text).await.map_err(|error| {
            tracing::warn!(%error, "a text was not spoken");
            let message = format!(
                "the text could not be spoken: {error}; correct voice_command, or the program that it runs"
            );
            ApiError::new(ErrorKind::Busy, message).code("voice")
        })
    }

    /// The command that transcribes sound while it arrives.
    pub fn stream_recognizer(&self) -> Option<Arc<StreamRecognizer>> {
        self.options().stream_recognizer.clone()
    }

    /// Restores a conversation's KV before anybody speaks in it. `options`: of its next request.
    pub fn prewarm(&self, id: &ConversationId, options: &Value) {
        let Ok(body) = next_body(id, options) else { return }; // The next request says why.
        let chat = self.chat().clone();
        tokio::spawn(async move {
            if let Err(error) = chat.prewarm_unattended(&body, &Session::default()).await {
                tracing::debug!(%error, "the conversation was not prewarmed");
            }
        });
    }

    /// Whether a recogniser is configured.
    pub fn can_transcribe(&self) -> bool {
        self.options().recognizer.is_some()
    }

    /// The text that is spoken in a WAV; empty without speech.
    ///
    /// # Errors
    /// When no recogniser is configured, it fails, too many recordings wait for it, or the WAV is invalid.
    pub async fn transcribe(&self, wav: Vec<u8>) -> Result<String, ApiError> {
        let Some(recognizer) = &self.options().recognizer else {
            let message = "no recogniser is set and installed: set voice_recognizer in hob.toml to an \
                           installed command that reads a WAV and writes text, such as whisper-cli of \
                           whisper.cpp";
            return Err(ApiError::new(ErrorKind::NotImplemented, message).code("no_recognizer"));
        };
        recognizer.transcribe(wav).await.map_err(|error| {
            let message = format!("what was said could not be written down: {error}");
            match error {
                RecognizerError::Sound(_) => {
                    ApiError::new(ErrorKind::Invalid, message + "; send a WAV")
                        .code("invalid_audio")
                }
                RecognizerError::Full => {
                    ApiError::new(ErrorKind::Busy, message + "; send it later").code("queue_full")
                }
                RecognizerError::Program(_) => {
                    tracing::warn!(%error, "the recogniser failed");
                    let remedy = "; correct voice_recognizer, or the program that it runs";
                    ApiError::new(ErrorKind::Busy, message + remedy).code("recognizer")
                }
            }
        })
    }

    fn active_speakers(&self) -> MutexGuard<'_, ActiveSpeakers> {
        self.shared.active_speakers.lock()
    }
}

/// The answer to a request for sound where no command makes it.
pub fn no_voice() -> ApiError {
    let message = "nothing can be spoken: install espeak-ng, or set voice_command in hob.toml to a \
                   command that reads text and writes a WAV";
    ApiError::new(ErrorKind::NotImplemented, message).code("no_voice")
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
