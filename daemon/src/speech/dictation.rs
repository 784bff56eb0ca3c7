//! Transcribes sound while it arrives, by a configured command.
//!
//! - The command reads 16 kHz mono PCM of 16 bits from its input. Whenever its transcript changes,
//!   it writes the whole transcript as one line. At the end of its input, its last line is final.
//! - One command an utterance. It is killed when its [`Dictation`] is dropped.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::program::{self, ProgramError};

/// After the end of the sound, the command has this long for its last line.
const FINISH_TIMEOUT: Duration = Duration::from_secs(30);

/// An utterance is a few seconds; this bounds a command that never ends.
const MAX_UTTERANCE: Duration = Duration::from_secs(10 * 60);

/// All lines of one utterance.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// Pieces of sound that wait for the command while it loads its model. A client sends a piece each
/// 10 to 300 ms.
const MAX_WAITING_PIECES: usize = 4_096;

/// The command that transcribes.
#[derive(Clone, Debug)]
pub struct StreamRecognizer {
    program: String,
    arguments: Vec<String>,
}

/// What the command has understood.
#[derive(Debug)]
pub enum Heard {
    /// The transcript so far; later words may change it.
    Partial(String),
    Final(String),
    Failed(ProgramError),
}

/// The transcription of one utterance.
#[derive(Debug)]
pub struct Dictation {
    /// `None` after the end of the sound.
    sound: Option<mpsc::Sender<Vec<u8>>>,
    heard: mpsc::UnboundedReceiver<Heard>,
    task: AbortHandle,
}

impl StreamRecognizer {
    /// `None` if there are no words.
    pub fn of(words: &[String]) -> Option<Self> {
        let (program, arguments) = words.split_first()?;
        Some(Self { program: program.clone(), arguments: arguments.to_vec() })
    }

    /// Starts the command, which loads its model while it waits for sound.
    ///
    /// # Errors
    /// When the program cannot be run.
    pub fn start(&self) -> Result<Dictation, ProgramError> {
        let child = program::spawn(&self.program, self.arguments.iter().cloned())?;
        let (sound, pieces) = mpsc::channel(MAX_WAITING_PIECES);
        let (lines, heard) = mpsc::unbounded_channel();
        let program = self.program.clone();
        let task = tokio::spawn(async move {
            let transcript = transcribe(&program, child, pieces, &lines);
            let last = match timeout(MAX_UTTERANCE, transcript).await {
                Ok(Ok(text)) => Heard::Final(text),
                Ok(Err(error)) => Heard::Failed(error),
                Err(_) => Heard::Failed(ProgramError::Timeout { program, timeout: MAX_UTTERANCE }),
            };
            lines.send(last).ok(); // An error: the dictation was dropped.
        });
        Ok(Dictation { sound: Some(sound), heard, task: task.abort_handle() })
    }
}

impl Dictation {
    /// Queues 16 kHz mono PCM. Sound that the command does not take in time is lost.
    pub fn hear(&self, pcm: &[u8]) {
        if let Some(sound) = &self.sound {
            sound.try_send(pcm.to_vec()).ok(); // An error: the command lags, or has ended.
        }
    }

    /// The sound ends: the command writes its final transcript.
    pub fn finish(&mut self) {
        self.sound = None;
    }

    pub fn is_finishing(&self) -> bool {
        self.sound.is_none()
    }

    /// The next line; pending after the last one. The wait may be cancelled and repeated.
    pub async fn next(&mut self) -> Heard {
        match self.heard.recv().await {
            Some(heard) => heard,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Dictation {
    fn drop(&mut self) {
        self.task.abort(); // Drops the child, which is killed.
    }
}

/// Returns the last line.
async fn transcribe(
    name: &str,
    mut child: Child,
    mut pieces: mpsc::Receiver<Vec<u8>>,
    lines: &mpsc::UnboundedSender<Heard>,
) -> Result<String, ProgramError> {
    let failed = |source| ProgramError::Run { program: name.to_owned(), source };
    let mut stdin = child.stdin.take().expect("it is piped");
    let stdout = child.stdout.take().expect("it is piped").take(MAX_OUTPUT_BYTES);
    let stderr = program::beginning_of(child.stderr.take().expect("it is piped"));
    let overdue = async {
        while let Some(pcm) = pieces.recv().await {
            if stdin.write_all(&pcm).await.is_err() {
                break; // The command has ended; its status says why.
            }
        }
        drop(stdin);
        sleep(FINISH_TIMEOUT).await;
    };
    let read_lines = async {
        let mut stdout = BufReader::new(stdout).lines();
        let mut last = String::new();
        while let Some(line) = stdout.next_line().await? {
            let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
            if line != last {
                last = line;
                lines.send(Heard::Partial(last.clone())).ok(); // An error: it was dropped.
            }
        }
        Ok(last)
    };
    let (last, stderr) = tokio::select! {
        both = async { tokio::join!(read_lines, stderr) } => both,
        () = overdue => {
            let (program, timeout) = (name.to_owned(), FINISH_TIMEOUT);
            return Err(ProgramError::Timeout { program, timeout });
        }
    };
    let status = child.wait().await.map_err(failed)?;
    if status.success() {
        return last.map_err(failed);
    }
    Err(ProgramError::failed(name, status, &stderr.map_err(failed)?))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn recognizer(script: &str) -> StreamRecognizer {
        StreamRecognizer::of(&["sh".to_owned(), "-c".to_owned(), script.to_owned()]).unwrap()
    }

    #[tokio::test]
    async fn lines_are_partial_until_the_sound_ends() {
        let script = "head -c 4 >/dev/null; echo hello; cat >/dev/null; echo ' hello  there '";
        let mut dictation = recognizer(script).start().unwrap();
        dictation.hear(&[1, 2, 3, 4]);
        assert!(matches!(dictation.next().await, Heard::Partial(text) if text == "hello"));
        dictation.hear(&[5, 6]);
        dictation.finish();
        assert!(matches!(dictation.next().await, Heard::Partial(text) if text == "hello there"));
        assert!(matches!(dictation.next().await, Heard::Final(text) if text == "hello there"));
    }

    #[tokio::test]
    async fn silence_is_an_empty_transcript() {
        let mut dictation = recognizer("cat >/dev/null").start().unwrap();
        dictation.finish();
        assert!(matches!(dictation.next().await, Heard::Final(text) if text.is_empty()));
    }

    #[tokio::test]
    async fn a_failure_quotes_the_command_and_a_missing_one_is_named() {
        let mut dictation = recognizer("echo no model >&2; exit 3").start().unwrap();
        dictation.hear(&[0; 64]);
        let Heard::Failed(error) = dictation.next().await else { panic!("it failed") };
        assert!(error.to_string().contains("no model"), "{error}");
        let missing = StreamRecognizer::of(&["/no/such/program".to_owned()]).unwrap();
        assert!(missing.start().unwrap_err().to_string().contains("/no/such/program"));
    }
}
