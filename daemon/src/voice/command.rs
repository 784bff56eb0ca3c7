//! Runs the command that synthesises speech.
//!
//! - No shell: `{voice}` and `{text}` are replaced within arguments; the text is also its input.
//! - It gets [`LONGEST`] and may write [`MOST_BYTES`]; beyond either it is ended, and so it is when
//!   the future is dropped.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use hob_prewarm::phrase::VoiceName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

/// A large neural voice loads for seconds before it speaks.
const LONGEST: Duration = Duration::from_secs(30);

/// A minute and a half of the usual 22 kHz; phrases take two seconds.
const MOST_BYTES: u64 = 4 << 20;

/// Enough of its complaint to be understood.
const MOST_COMPLAINT: u64 = 4 << 10;

/// Why there is no sound.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It cannot be run.
    #[error("cannot run `{program}`: {source}")]
    Run {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It failed by its own account.
    #[error("`{program}` failed ({status}): {complaint}")]
    Failed {
        /// The program.
        program: String,
        /// What it ended with.
        status: std::process::ExitStatus,
        /// What it said.
        complaint: String,
    },
    /// It takes too long.
    #[error("`{program}` did not end within {} s", LONGEST.as_secs())]
    Slow {
        /// The program.
        program: String,
    },
    /// It writes too much.
    #[error("`{program}` wrote more than {MOST_BYTES} bytes for one phrase")]
    TooMuch {
        /// The program.
        program: String,
    },
}

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
    pub async fn run(&self, voice: &VoiceName, text: &str) -> Result<Vec<u8>, CommandError> {
        tokio::time::timeout(LONGEST, self.run_unbounded(voice, text))
            .await
            .unwrap_or_else(|_| Err(CommandError::Slow { program: self.program.clone() }))
    }

    async fn run_unbounded(&self, voice: &VoiceName, text: &str) -> Result<Vec<u8>, CommandError> {
        let program = || self.program.clone();
        let failed = |source| CommandError::Run { program: program(), source };
        // A voice has no braces, so nothing that was put in is replaced again.
        let filled = self
            .arguments
            .iter()
            .map(|argument| argument.replace("{voice}", voice.as_str()).replace("{text}", text));
        let mut child = Command::new(&self.program)
            .args(filled)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let text = format!("{text}\n");
        let tell = async {
            let mut stdin = stdin.expect("it is piped");
            // A command that takes the text as an argument need not read it.
            let _ = stdin.write_all(text.as_bytes()).await;
        };
        let hear = read(stdout.expect("it is piped"), MOST_BYTES + 1);
        let complain = async {
            let mut stderr = stderr.expect("it is piped");
            let complaint = read(&mut stderr, MOST_COMPLAINT).await;
            // It would wait for us otherwise.
            let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
            complaint
        };
        let ((), sound, complaint) = tokio::join!(tell, hear, complain);
        let (sound, complaint) = (sound.map_err(failed)?, complaint.map_err(failed)?);
        if sound.len() as u64 > MOST_BYTES {
            return Err(CommandError::TooMuch { program: program() });
        }
        let status = child.wait().await.map_err(failed)?;
        match status.success() {
            true => Ok(sound),
            false => {
                let complaint = String::from_utf8_lossy(&complaint).trim().to_owned();
                Err(CommandError::Failed { program: program(), status, complaint })
            }
        }
    }
}

async fn read(from: impl AsyncRead + Unpin, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most).read_to_end(&mut bytes).await?;
    Ok(bytes)
}
