//! Transcribes sound while it arrives, by a configured command.
//!
//! - The command reads 16 kHz mono PCM of 16 bits from its input. Whenever its transcript changes,
//!   it writes the whole transcript as one line. At the end of its input, its last line is final.
//! - One command an utterance. It is killed when its [`Dictation`] is dropped.
//! - The command may wait for its first sound without a limit: the speaker decides when that comes.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::program::{self, ProgramError};

/// After the end of the sound, the command has this long for its last line.
const FINISH_TIMEOUT: Duration = Duration::from_secs(30);

/// From the first sound to the last: a minute more than an utterance over HTTP may have.
const MAX_UTTERANCE: Duration = Duration::from_secs(11 * 60);

/// One line. Ten minutes of speech have less than 32 KiB of text, and a line repeats all of it: the
/// lines of an utterance together have no limit.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// Lines that wait for the session. The command waits when there are more.
const MAX_WAITING_LINES: usize = 64;

/// Pieces of sound that wait for the command while it loads its model. A client sends a piece each
/// 10 to 300 ms.
const MAX_WAITING_PIECES: usize = 4_096;

/// How the message of a [`RecognizerEvent::Failed`] ends.
pub const STREAM_REMEDY: &str = "; correct voice_recognizer_stream, or the program that it runs";

/// The command that transcribes.
#[derive(Clone, Debug)]
pub struct StreamRecognizer {
    program: String,
    arguments: Vec<String>,
}

/// What the command has understood.
#[derive(Debug)]
pub enum RecognizerEvent {
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
    heard: mpsc::Receiver<RecognizerEvent>,
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
        let (lines, heard) = mpsc::channel(MAX_WAITING_LINES);
        let program = self.program.clone();
        let task = tokio::spawn(async move {
            let last = match transcribe(&program, child, pieces, &lines).await {
                Ok(text) => RecognizerEvent::Final(text),
                Err(error) => RecognizerEvent::Failed(error),
            };
            lines.send(last).await.ok(); // An error: the dictation was dropped.
        });
        Ok(Dictation { sound: Some(sound), heard, task: task.abort_handle() })
    }
}

impl Dictation {
    /// Queues 16 kHz mono PCM. Sound that the command does not take in time is lost.
    pub fn receive(&self, pcm: &[u8]) {
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
    pub async fn next(&mut self) -> RecognizerEvent {
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
    lines: &mpsc::Sender<RecognizerEvent>,
) -> Result<String, ProgramError> {
    let failed = |source| ProgramError::Run { program: name.to_owned(), source };
    let timed_out = |timeout| ProgramError::Timeout { program: name.to_owned(), timeout };
    let mut stdin = child.stdin.take().expect("it is piped");
    let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
    let stderr = program::beginning_of(child.stderr.take().expect("it is piped"));
    let overdue = async {
        let first = pieces.recv().await;
        let feed = async {
            let mut next = first;
            while let Some(pcm) = next {
                if stdin.write_all(&pcm).await.is_err() {
                    break; // The command has ended; its status says why.
                }
                next = pieces.recv().await;
            }
        };
        if timeout(MAX_UTTERANCE, feed).await.is_err() {
            return MAX_UTTERANCE;
        }
        drop(stdin);
        sleep(FINISH_TIMEOUT).await;
        FINISH_TIMEOUT
    };
    let (last, stderr) = tokio::select! {
        both = async { tokio::join!(read_lines(stdout, lines), stderr) } => both,
        limit = overdue => return Err(timed_out(limit)),
    };
    let ended = timeout(FINISH_TIMEOUT, child.wait()).await;
    let status = ended.map_err(|_| timed_out(FINISH_TIMEOUT))?.map_err(failed)?;
    if status.success() {
        return last.map_err(failed);
    }
    Err(ProgramError::failed(name, status, &stderr.map_err(failed)?))
}

/// Sends each line that differs from the one before. Returns the last one.
async fn read_lines(
    mut stdout: impl AsyncBufRead + Unpin,
    lines: &mpsc::Sender<RecognizerEvent>,
) -> io::Result<String> {
    let mut last = String::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        if (&mut stdout).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await? == 0 {
            return Ok(last);
        }
        if line.len() as u64 == MAX_LINE_BYTES {
            return Err(io::Error::other(format!("a line has {MAX_LINE_BYTES} bytes or more")));
        }
        let words = String::from_utf8_lossy(&line);
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        if words != last {
            last = words;
            lines.send(RecognizerEvent::Partial(last.clone())).await.ok(); // An error: it was dropped.
        }
    }
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
        dictation.receive(&[1, 2, 3, 4]);
        assert!(
            matches!(dictation.next().await, RecognizerEvent::Partial(text) if text == "hello")
        );
        dictation.receive(&[5, 6]);
        dictation.finish();
        assert!(
            matches!(dictation.next().await, RecognizerEvent::Partial(text) if text == "hello there")
        );
        assert!(
            matches!(dictation.next().await, RecognizerEvent::Final(text) if text == "hello there")
        );
    }

    #[tokio::test]
    async fn silence_is_an_empty_transcript() {
        let mut dictation = recognizer("cat >/dev/null").start().unwrap();
        dictation.finish();
        assert!(matches!(dictation.next().await, RecognizerEvent::Final(text) if text.is_empty()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_pause_before_an_utterance_is_no_part_of_it() {
        let mut dictation = recognizer("cat >/dev/null; echo hello").start().unwrap();
        sleep(2 * MAX_UTTERANCE).await;
        tokio::time::resume();
        dictation.receive(&[1, 2]);
        dictation.finish();
        assert!(
            matches!(dictation.next().await, RecognizerEvent::Partial(text) if text == "hello")
        );
        assert!(matches!(dictation.next().await, RecognizerEvent::Final(text) if text == "hello"));
    }

    #[tokio::test]
    async fn the_lines_of_a_long_utterance_have_no_common_limit() {
        let script = "cat >/dev/null; line=$(head -c 60000 /dev/zero | tr '\\0' x); n=0; \
                      while [ $n -lt 30 ]; do n=$((n + 1)); echo \"$line $n\"; done";
        let mut dictation = recognizer(script).start().unwrap();
        dictation.finish();
        let last = loop {
            match dictation.next().await {
                RecognizerEvent::Partial(_) => {}
                RecognizerEvent::Final(text) => break text,
                RecognizerEvent::Failed(error) => panic!("{error}"),
            }
        };
        assert!(last.ends_with(" 30") && last.len() == 60_003, "{} bytes", last.len());
    }

    #[tokio::test]
    async fn a_failure_quotes_the_command_and_a_missing_one_is_named() {
        let mut dictation = recognizer("echo no model >&2; exit 3").start().unwrap();
        dictation.receive(&[0; 64]);
        let RecognizerEvent::Failed(error) = dictation.next().await else { panic!("it failed") };
        assert!(error.to_string().contains("no model"), "{error}");
        let missing = StreamRecognizer::of(&["/no/such/program".to_owned()]).unwrap();
        assert!(missing.start().unwrap_err().to_string().contains("/no/such/program"));
    }
}
