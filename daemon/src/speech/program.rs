//! Runs a configured program: bytes in, bytes out, without a shell.
//!
//! - The program is killed at its time limit, at its output limit, and when the future is dropped.
//! - It is in a process group of its own: a terminal sends Ctrl-C to the whole group of hobd, whose running answers
//!   are spoken to their end.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// An error message quotes this much of standard error.
const MAX_STDERR_BYTES: u64 = 4 << 10;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub timeout: Duration,
    pub max_output_bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    #[error("cannot run `{program}`: {source}; install it, or correct the setting that names it")]
    Run { program: String, source: io::Error },
    #[error("`{program}` failed ({status}): {stderr}")]
    Failed { program: String, status: ExitStatus, stderr: String },
    #[error("`{program}` did not end within {} s: choose a faster command", timeout.as_secs())]
    Timeout { program: String, timeout: Duration },
    #[error("`{program}` wrote more than {max_bytes} bytes")]
    TooMuchOutput { program: String, max_bytes: u64 },
}

impl ProgramError {
    pub(super) fn failed(program: &str, status: ExitStatus, stderr: &[u8]) -> Self {
        let stderr = String::from_utf8_lossy(stderr).trim().to_owned();
        Self::Failed { program: program.to_owned(), status, stderr }
    }
}

/// Starts a program with piped streams; dropping the child kills it.
pub(super) fn spawn(
    name: &str,
    arguments: impl IntoIterator<Item = String>,
) -> Result<Child, ProgramError> {
    let child = Command::new(name)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    child.map_err(|source| ProgramError::Run { program: name.to_owned(), source })
}

/// Returns what the program writes to standard output. It need not read `input`.
pub async fn run(
    program: &str,
    arguments: impl IntoIterator<Item = String>,
    input: &[u8],
    limits: Limits,
) -> Result<Vec<u8>, ProgramError> {
    let Limits { timeout, max_output_bytes } = limits;
    tokio::time::timeout(timeout, run_without_timeout(program, arguments, input, max_output_bytes))
        .await
        .unwrap_or_else(|_| Err(ProgramError::Timeout { program: program.to_owned(), timeout }))
}

async fn run_without_timeout(
    name: &str,
    arguments: impl IntoIterator<Item = String>,
    input: &[u8],
    max_bytes: u64,
) -> Result<Vec<u8>, ProgramError> {
    let program = || name.to_owned();
    let failed = |source| ProgramError::Run { program: program(), source };
    let mut child = spawn(name, arguments)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write_input = async {
        let mut stdin = stdin.expect("it is piped");
        // An error: the program does not read its input.
        let _ = stdin.write_all(input).await;
    };
    let read_output = read(stdout.expect("it is piped"), max_bytes + 1);
    let read_stderr = beginning_of(stderr.expect("it is piped"));
    let ((), output, stderr) = tokio::join!(write_input, read_output, read_stderr);
    let (output, stderr) = (output.map_err(failed)?, stderr.map_err(failed)?);
    if output.len() as u64 > max_bytes {
        return Err(ProgramError::TooMuchOutput { program: program(), max_bytes });
    }
    let status = child.wait().await.map_err(failed)?;
    if status.success() {
        return Ok(output);
    }
    Err(ProgramError::failed(name, status, &stderr))
}

/// The beginning of standard error, once the program has ended.
pub(super) async fn beginning_of(mut pipe: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let beginning = read(&mut pipe, MAX_STDERR_BYTES).await;
    // A program blocks on a full pipe.
    let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    beginning
}

async fn read(from: impl AsyncRead + Unpin, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(max_bytes).read_to_end(&mut bytes).await?;
    Ok(bytes)
}
