//! The voice, the filler and the recognisers of the settings.
//!
//! - Without an installed command there is none; everything else works.

use std::env;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use hob_config::{Key, Origin, Resolved};

use crate::clock::Clock;
use crate::speech::command::VoiceCommand;
use crate::speech::dictation::StreamRecognizer;
use crate::speech::filler::{Filler, Options};
use crate::speech::recognizer::Recognizer;
use crate::speech::synthesis::Synthesizer;

/// `None`: no command is installed.
///
/// # Errors
/// When `voice_name` is invalid.
pub fn synthesizer(resolved: &Resolved) -> Result<Option<Synthesizer>> {
    let settings = &resolved.settings;
    let voice = settings.voice_name.parse();
    let voice = voice.with_context(|| format!("voice_name = {:?}", settings.voice_name))?;
    let Some(command) = VoiceCommand::of(&settings.voice_command) else { return Ok(None) };
    let program = command.program();
    if !is_installed(program) {
        match resolved.origin(Key::VoiceCommand) {
            Origin::Default => {
                tracing::info!("no voice: install {program}, or set voice_command");
            }
            origin => {
                let problem = "voice_command names a program that is not installed: install it, or \
                               correct the setting";
                tracing::warn!(program, %origin, "{problem}");
            }
        }
        return Ok(None);
    }
    Ok(Some(Synthesizer { command, voice }))
}

/// `None`: there is no voice, or no phrases are configured.
pub fn filler(
    resolved: &Resolved,
    synthesizer: Option<&Synthesizer>,
    clock: Clock,
) -> Option<Arc<Filler>> {
    let settings = &resolved.settings;
    let Synthesizer { command, voice } = synthesizer?.clone();
    if settings.voice_phrases.is_empty() {
        return None;
    }
    Some(Arc::new(Filler::new(Options {
        command,
        voice,
        phrases: settings.voice_phrases.clone(),
        budget_bytes: settings.voice_cache_bytes,
        data_dir: settings.data_dir.clone(),
        clock,
    })))
}

/// `None`: not configured, or not installed.
pub fn recognizer(resolved: &Resolved) -> Option<Arc<Recognizer>> {
    let words = &resolved.settings.voice_recognizer;
    let recognizer = Recognizer::of(words)?;
    is_usable(resolved, Key::VoiceRecognizer, words).then(|| Arc::new(recognizer))
}

/// `None`: not configured, or not installed.
pub fn stream_recognizer(resolved: &Resolved) -> Option<Arc<StreamRecognizer>> {
    let words = &resolved.settings.voice_recognizer_stream;
    let recognizer = StreamRecognizer::of(words)?;
    is_usable(resolved, Key::VoiceRecognizerStream, words).then(|| Arc::new(recognizer))
}

/// Whether the command is installed; logs a warning if it is not.
fn is_usable(resolved: &Resolved, key: Key, command: &[String]) -> bool {
    let installed = is_installed(&command[0]);
    if !installed {
        let (program, origin) = (&command[0], resolved.origin(key));
        let problem = "the command of this setting is not installed: install it, or correct the \
                       setting";
        tracing::warn!(setting = key.name(), program, %origin, "{problem}");
    }
    installed
}

/// Whether the program is a file, or in a directory of `PATH`.
fn is_installed(program: &str) -> bool {
    let program = Path::new(program);
    if program.components().count() > 1 {
        return program.is_file();
    }
    let places = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&places).any(|place| place.join(program).is_file())
}
