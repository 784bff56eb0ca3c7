//! The configured command that synthesises speech.
//!
//! - `{voice}` and `{text}` are replaced in its arguments; the text is also its standard input.

use std::time::Duration;

use hob_prewarm::phrase::VoiceName;

use super::program::{self, Limits, ProgramError};

/// A large neural voice loads for seconds before it speaks. 4 MiB are 90 s at the usual 22 kHz;
/// phrases have about 2 s.
const LIMITS: Limits = Limits { timeout: Duration::from_secs(30), max_output_bytes: 4 << 20 };

#[derive(Clone, Debug)]
pub struct VoiceCommand {
    program: String,
    arguments: Vec<String>,
}

impl VoiceCommand {
    /// `None` if there are no words.
    pub fn of(words: &[String]) -> Option<Self> {
        let (program, arguments) = words.split_first()?;
        Some(Self { program: program.clone(), arguments: arguments.to_vec() })
    }

    pub fn program(&self) -> &str {
        &self.program
    }

    /// With placeholders.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// Returns the WAV that the command writes.
    pub async fn run(&self, voice: &VoiceName, text: &str) -> Result<Vec<u8>, ProgramError> {
        // The name of a voice has no braces: it brings in no placeholder.
        let filled = self
            .arguments
            .iter()
            .map(|argument| argument.replace("{voice}", voice.as_str()).replace("{text}", text));
        program::run(&self.program, filled, format!("{text}\n").as_bytes(), LIMITS).await
    }
}
