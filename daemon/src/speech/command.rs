//! The command that synthesises speech.
//!
//! - `{voice}` and `{text}` are replaced within arguments; the text is also its input.

use std::time::Duration;

use hob_prewarm::phrase::VoiceName;

use super::program::{self, Bounds, ProgramError};

/// A large neural voice loads for seconds before it speaks. A minute and a half of the usual 22 kHz
/// is more than enough; phrases take two seconds.
const BOUNDS: Bounds = Bounds { longest: Duration::from_secs(30), most_bytes: 4 << 20 };

/// A command with its arguments, of which there is at least the program.
#[derive(Clone, Debug)]
pub struct VoiceCommand {
    program: String,
    arguments: Vec<String>,
}

impl VoiceCommand {
    /// The command of these words; `None` when there are none.
    pub fn of(words: &[String]) -> Option<Self> {
        let (program, arguments) = words.split_first()?;
        Some(Self { program: program.clone(), arguments: arguments.to_vec() })
    }

    /// The program.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Its arguments, with their placeholders.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// What it writes when `voice` says `text`.
    ///
    /// # Errors
    /// When it cannot be run, fails, or exceeds its bounds.
    pub async fn run(&self, voice: &VoiceName, text: &str) -> Result<Vec<u8>, ProgramError> {
        // A voice has no braces, so nothing that was put in is replaced again.
        let filled = self
            .arguments
            .iter()
            .map(|argument| argument.replace("{voice}", voice.as_str()).replace("{text}", text));
        program::run(&self.program, filled, format!("{text}\n").as_bytes(), BOUNDS).await
    }
}
