//! The configured command that synthesises speech.
//!
//! - `{voice}` and `{text}` are replaced in its arguments; the text is also its standard input.
//! - The text, which a model may have written, is never an option of the command.

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
        let filled = self.arguments.iter().map(|argument| {
            let filled = argument.replace("{voice}", voice.as_str()).replace("{text}", text);
            // A line of a list begins with a dash, as an option does.
            let is_option = filled.starts_with('-') && !argument.starts_with('-');
            if is_option { format!(" {filled}") } else { filled }
        });
        program::run(&self.program, filled, format!("{text}\n").as_bytes(), LIMITS).await
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_text_that_begins_with_a_dash_is_no_option() {
        let words =
            ["sh", "-c", "printf '<%s>' \"$@\"", "sh", "{text}", "-v{voice}", "--say={text}"];
        let command = VoiceCommand::of(&words.map(str::to_owned)).unwrap();
        let voice = "en".parse().unwrap();
        let written =
            async |text| String::from_utf8(command.run(&voice, text).await.unwrap()).unwrap();
        assert_eq!(
            written("-w/tmp/x is a file.").await,
            "< -w/tmp/x is a file.><-ven><--say=-w/tmp/x is a file.>"
        );
        assert_eq!(written("It is -5.").await, "<It is -5.><-ven><--say=It is -5.>");
    }
}
