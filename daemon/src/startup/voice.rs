//! The voice, as it is set.
//!
//! - Without a command that can be run there is none, and everything else works as ever.

use std::env;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use hob_config::{Key, Origin, Resolved};

use crate::clock::Clock;
use crate::voice::command::VoiceCommand;
use crate::voice::filler::{Filler, Options};
use crate::voice::recognizer::Recognizer;

/// What says short phrases; `None` when nothing can, or nothing should.
///
/// # Errors
/// When the voice that is set has no name that a command could take.
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
                tracing::info!("no phrases are said: install {program}, or set voice_command");
            }
            origin => {
                let problem = "voice_command names a program that is not there: install it, or mend \
                               the setting";
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

/// What writes down what was said; `None` when nothing is set, or when it is not there.
pub fn recognizer(resolved: &Resolved) -> Option<Arc<Recognizer>> {
    let recognizer = Recognizer::of(&resolved.settings.voice_recognizer)?;
    let program = &resolved.settings.voice_recognizer[0];
    if is_installed(program) {
        return Some(Arc::new(recognizer));
    }
    let origin = resolved.origin(Key::VoiceRecognizer);
    let problem =
        "voice_recognizer names a program that is not there: install it, or mend the setting";
    tracing::warn!(program, %origin, "{problem}");
    None
}

/// Whether the system would find the program.
fn is_installed(program: &str) -> bool {
    let program = Path::new(program);
    if program.components().count() > 1 {
        return program.is_file();
    }
    let places = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&places).any(|place| place.join(program).is_file())
}
