//! Runs a program that was set: bytes in, bytes out.
//!
//! - No shell between. It gets its time and may write so much; beyond either it is ended, and so it
//!   is when the future is dropped.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

/// Enough of its complaint to be understood.
const MOST_COMPLAINT: u64 = 4 << 10;

/// What a program may take.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Time at most.
    pub longest: Duration,
    /// Bytes of output at most.
    pub most_bytes: u64,
}

/// Why there is no output.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
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
    #[error("`{program}` did not end within {} s", longest.as_secs())]
    Slow {
        /// The program.
        program: String,
        /// How long it might have taken.
        longest: Duration,
    },
    /// It writes too much.
    #[error("`{program}` wrote more than {most_bytes} bytes")]
    TooMuch {
        /// The program.
        program: String,
        /// How much it might have written.
        most_bytes: u64,
    },
}

/// What the program writes when it reads `input`, which it need not read.
///
/// # Errors
/// When it cannot be run, fails, or exceeds its bounds.
pub async fn run(
    program: &str,
    arguments: impl IntoIterator<Item = String>,
    input: &[u8],
    bounds: Bounds,
) -> Result<Vec<u8>, ProgramError> {
    let Bounds { longest, most_bytes } = bounds;
    tokio::time::timeout(longest, run_unbounded(program, arguments, input, most_bytes))
        .await
        .unwrap_or_else(|_| Err(ProgramError::Slow { program: program.to_owned(), longest }))
}

async fn run_unbounded(
    name: &str,
    arguments: impl IntoIterator<Item = String>,
    input: &[u8],
    most_bytes: u64,
) -> Result<Vec<u8>, ProgramError> {
    let program = || name.to_owned();
    let failed = |source| ProgramError::Run { program: program(), source };
    let mut child = Command::new(name)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let tell = async {
        let mut stdin = stdin.expect("it is piped");
        // A command that takes everything as an argument need not read it.
        let _ = stdin.write_all(input).await;
    };
    let hear = read(stdout.expect("it is piped"), most_bytes + 1);
    let complain = async {
        let mut stderr = stderr.expect("it is piped");
        let complaint = read(&mut stderr, MOST_COMPLAINT).await;
        // It would wait for us otherwise.
        let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
        complaint
    };
    let ((), output, complaint) = tokio::join!(tell, hear, complain);
    let (output, complaint) = (output.map_err(failed)?, complaint.map_err(failed)?);
    if output.len() as u64 > most_bytes {
        return Err(ProgramError::TooMuch { program: program(), most_bytes });
    }
    let status = child.wait().await.map_err(failed)?;
    match status.success() {
        true => Ok(output),
        false => {
            let complaint = String::from_utf8_lossy(&complaint).trim().to_owned();
            Err(ProgramError::Failed { program: program(), status, complaint })
        }
    }
}

async fn read(from: impl AsyncRead + Unpin, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most).read_to_end(&mut bytes).await?;
    Ok(bytes)
}
