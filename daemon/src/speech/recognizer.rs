//! Writes down what was said, by a command that was set.
//!
//! - The command reads a WAV from its input and writes text to its output; nothing is kept of either.
//! - One runs at a time: it takes the processor that the model needs.

use std::time::Duration;

use tokio::sync::Semaphore;

use super::program::{self, Bounds, ProgramError};
use super::wav::{self, WavError};

/// A model for speech loads for seconds, and listens for as long as somebody spoke. Half an hour of
/// speech has fewer bytes than this.
const BOUNDS: Bounds = Bounds { longest: Duration::from_secs(120), most_bytes: 64 << 10 };

/// What stands around a line that is no words, such as `[BLANK_AUDIO]`.
const MARKS: [(char, char); 2] = [('[', ']'), ('(', ')')];

/// Why nothing was written down.
#[derive(Debug, thiserror::Error)]
pub enum RecognizerError {
    /// What came is no sound.
    #[error("{0}")]
    Sound(hound::Error),
    /// The command did not do it.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// A command that writes down what was said.
#[derive(Debug)]
pub struct Recognizer {
    program: String,
    arguments: Vec<String>,
    turns: Semaphore,
}

impl Recognizer {
    /// The command of these words; `None` when there are none.
    pub fn of(words: &[String]) -> Option<Self> {
        let (program, arguments) = words.split_first()?;
        let (program, arguments) = (program.clone(), arguments.to_vec());
        Some(Self { program, arguments, turns: Semaphore::new(1) })
    }

    /// What is said in `wav`; empty when nothing is.
    ///
    /// # Errors
    /// When it is no WAV, or when the command fails or exceeds its bounds.
    pub async fn write_down(&self, wav: Vec<u8>) -> Result<String, RecognizerError> {
        let checked = tokio::task::spawn_blocking(move || wav::checked(wav)).await;
        let wav = match checked.expect("a check of sound does not panic") {
            Ok(wav) => wav,
            Err(WavError::Silent) => return Ok(String::new()),
            Err(WavError::Damaged(error)) => return Err(RecognizerError::Sound(error)),
        };
        let _turn = self.turns.acquire().await.expect("the semaphore is never closed");
        let arguments = self.arguments.iter().cloned();
        let heard = program::run(&self.program, arguments, &wav, BOUNDS).await?;
        Ok(words(&String::from_utf8_lossy(&heard)))
    }
}

/// One line, without the marks that recognisers write where nobody speaks.
fn words(heard: &str) -> String {
    let is_mark = |line: &str| {
        MARKS.iter().any(|&(open, close)| line.starts_with(open) && line.ends_with(close))
    };
    let lines = heard.lines().map(str::trim).filter(|line| !line.is_empty() && !is_mark(line));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_one_and_marks_of_silence_are_no_words() {
        assert_eq!(words("\n What is my\n  locker code?\n\n"), "What is my locker code?");
        assert_eq!(words(" [BLANK_AUDIO]\n (wind)\n"), "");
        assert_eq!(words("Item [3] is (almost) done."), "Item [3] is (almost) done.");
    }
}
