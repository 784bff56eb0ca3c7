//! The filler and the recogniser of the settings.
//!
//! - Without an installed command there is none; everything else works.

use std::env;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use hob_config::{Key, Origin, Resolved};

use crate::clock::Clock;
use crate::speech::command::VoiceCommand;
use crate::speech::filler::{Filler, Options};
use crate::speech::recognizer::Recognizer;

/// `None`: no command is installed, or no phrases are configured.
///
/// # Errors
/// When `voice_name` is invalid.
pub fn filler(resolved: &Resolved, clock: Clock) -> Result<Option<Arc<Filler>>> {
    let settings = &resolved.settings;
    let voice = settings.voice_name.parse();
    let voice = voice.with_context(|| format!("voice_name = {:?}", settings.voice_name))?;
    let Some(command) = VoiceCommand::of(&settings.voice_command) else { return Ok(None) };
    if settings.voice_phrases.is_empty() {
        return Ok(None);
    }
    let program = command.program();
    if !is_installed(program) {
        match resolved.origin(Key::VoiceCommand) {
            Origin::Default => {
                tracing::info!("no filler phrases: install {program}, or set voice_command");
            }
            origin => {
                let problem = "voice_command names a program that is not installed: install it, or \
                               correct the setting";
                tracing::warn!(program, %origin, "{problem}");
            }
        }
        return Ok(None);
    }
    Ok(Some(Arc::new(Filler::new(Options {
        command,
        voice,
        phrases: settings.voice_phrases.clone(),
        budget_bytes: settings.voice_cache_bytes,
        data_dir: settings.data_dir.clone(),
        clock,
    }))))
}

/// `None`: not configured, or not installed.
pub fn recognizer(resolved: &Resolved) -> Option<Arc<Recognizer>> {
    let recognizer = Recognizer::of(&resolved.settings.voice_recognizer)?;
    let program = &resolved.settings.voice_recognizer[0];
    if is_installed(program) {
        return Some(Arc::new(recognizer));
    }
    let origin = resolved.origin(Key::VoiceRecognizer);
    let problem = "voice_recognizer names a program that is not installed: install it, or correct the setting";
    tracing::warn!(program, %origin, "{problem}");
    None
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
