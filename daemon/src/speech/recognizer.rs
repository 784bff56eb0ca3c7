//! Transcribes speech by a configured command.
//!
//! - The command reads a WAV from standard input and writes text to standard output; neither is
//!   stored.
//! - One command runs at a time, because it uses the processor that the model needs. [`MAX_RECORDINGS`] bounds the
//!   recordings in memory, also those that wait for it.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::program::{self, Limits, ProgramError};
use super::wav::{self, WavError};

/// A speech model loads for seconds and runs about as long as the recording. The text of half an hour
/// has less than 64 KiB.
const LIMITS: Limits = Limits { timeout: Duration::from_secs(120), max_output_bytes: 64 << 10 };

/// The recording that is transcribed, and those that wait.
const MAX_RECORDINGS: usize = 8;

/// Recognisers put a line without words between them: `[BLANK_AUDIO]`.
const BRACKETS: [(char, char); 2] = [('[', ']'), ('(', ')')];

#[derive(Debug, thiserror::Error)]
pub enum RecognizerError {
    #[error("{0}")]
    Sound(hound::Error),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("{} recordings wait already", MAX_RECORDINGS - 1)]
    Full,
}

#[derive(Debug)]
pub struct Recognizer {
    program: String,
    arguments: Vec<String>,
    /// A permit for each recording in memory.
    recordings: Semaphore,
    running: Semaphore,
}

impl Recognizer {
    /// `None` if there are no words.
    pub fn of(words: &[String]) -> Option<Self> {
        let (program, arguments) = words.split_first()?;
        let (program, arguments) = (program.clone(), arguments.to_vec());
        let (recordings, running) = (Semaphore::new(MAX_RECORDINGS), Semaphore::new(1));
        Some(Self { program, arguments, recordings, running })
    }

    /// Returns the words in `wav`; silence has none.
    pub async fn transcribe(&self, wav: Vec<u8>) -> Result<String, RecognizerError> {
        let _recording = self.enter()?;
        let checked = tokio::task::spawn_blocking(move || wav::checked(wav)).await;
        let wav = match checked.expect("a check of sound does not panic") {
            Ok(wav) => wav,
            Err(WavError::Silent) => return Ok(String::new()),
            Err(WavError::Damaged(error)) => return Err(RecognizerError::Sound(error)),
        };
        let _running = self.running.acquire().await.expect("the semaphore is never closed");
        let arguments = self.arguments.iter().cloned();
        let output = program::run(&self.program, arguments, &wav, LIMITS).await?;
        Ok(words(&String::from_utf8_lossy(&output)))
    }

    fn enter(&self) -> Result<SemaphorePermit<'_>, RecognizerError> {
        self.recordings.try_acquire().map_err(|_| RecognizerError::Full)
    }
}

/// One line, without the bracketed lines.
fn words(output: &str) -> String {
    let is_bracketed = |line: &str| {
        BRACKETS.iter().any(|&(open, close)| line.starts_with(open) && line.ends_with(close))
    };
    let lines =
        output.lines().map(str::trim).filter(|line| !line.is_empty() && !is_bracketed(line));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_recording_more_than_may_wait_is_refused() {
        let recognizer = Recognizer::of(&["cat".to_owned()]).unwrap();
        let transcribed = || recognizer.transcribe(Vec::new());
        let waiting: Vec<_> = (0..MAX_RECORDINGS).map(|_| recognizer.enter().unwrap()).collect();
        assert!(matches!(transcribed().await, Err(RecognizerError::Full)));
        drop(waiting);
        for _ in 0..=MAX_RECORDINGS {
            let refused = transcribed().await;
            assert!(matches!(refused, Err(RecognizerError::Sound(_))), "{refused:?}");
        }
    }

    #[test]
    fn lines_become_one_and_bracketed_lines_are_dropped() {
        assert_eq!(words("\n What is my\n  locker code?\n\n"), "What is my locker code?");
        assert_eq!(words(" [BLANK_AUDIO]\n (wind)\n"), "");
        assert_eq!(words("Item [3] is (almost) done."), "Item [3] is (almost) done.");
    }
}
