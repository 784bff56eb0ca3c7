//! The text of a PDF, read in a child process.
//!
//! - Readers of PDFs fail on damaged and on hostile files in every way there is: by panics, endless
//!   loops, recursion and memory. So this program starts itself anew as a child that reads one file
//!   from standard input and has limits of time, processor time and memory. Whatever happens to the
//!   child is an error of the one request.
//! - Two children run at a time, so that many files at once have a bound of memory, and leave the model its processor.
//!   The time limit of a file begins when its child starts.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::Semaphore;

use super::refusal::{MAX_TEXT_BYTES, too_large, unreadable};
use crate::error::ApiError;
use crate::limits::{self, Limits};

/// The only argument of the child.
const CHILD_FLAG: &str = "--extract-pdf-text";

const MAX_TIME: Duration = Duration::from_secs(60);
const LIMITS: Limits = Limits { cpu_secs: Some(60), address_bytes: 2 << 30 };
const MAX_PAGES: usize = 2000;

const MAX_CHILDREN: usize = 2;
static CHILDREN: Semaphore = Semaphore::const_new(MAX_CHILDREN);

/// Exit code of a child whose PDF has more pages.
const TOO_MANY_PAGES: u8 = 3;

/// The text of the file.
///
/// # Errors
/// When the child cannot read it within its limits.
pub async fn text(bytes: Vec<u8>) -> Result<String, ApiError> {
    let _child = CHILDREN.acquire().await.expect("the semaphore is never closed");
    let failed = |error: std::io::Error| unreadable(format!("the PDF cannot be read: {error}"));
    let mut command = Command::from(limits::command().map_err(failed)?);
    command.arg(CHILD_FLAG).env_clear();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.kill_on_drop(true).spawn().map_err(failed)?;
    let (mut input, output) = (child.stdin.take(), child.stdout.take());
    let read = async {
        let write = async move {
            if let Some(input) = &mut input {
                input.write_all(&bytes).await.ok(); // A child that gives up says so by its status.
            }
            drop(input);
        };
        let mut text = Vec::new();
        let mut output = output.expect("it was piped").take(MAX_TEXT_BYTES as u64 + 1);
        let (read, ()) = tokio::join!(output.read_to_end(&mut text), write);
        read?;
        drop(output);
        Ok::<_, std::io::Error>((text, child.wait().await?))
    };
    let (text, status) = tokio::time::timeout(MAX_TIME, read)
        .await
        .map_err(|_| unreadable("the PDF was not read within a minute".to_owned()))?
        .map_err(failed)?;
    if text.len() > MAX_TEXT_BYTES {
        return Err(too_large()); // The child has ended because its pipe is closed.
    }
    if status.code() == Some(TOO_MANY_PAGES.into()) {
        let message = format!("the PDF has more than {MAX_PAGES} pages: split it");
        return Err(unreadable(message));
    }
    if !status.success() {
        return Err(unreadable("the PDF is damaged, encrypted or too large".to_owned()));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// In such a child: reads the PDF, writes its text, and returns the exit code. `None` in every other process. Must
/// be called before anything else of `main`.
pub fn child() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let is_child = arguments.next().as_deref() == Some(OsStr::new(CHILD_FLAG));
    is_child.then(|| extract().unwrap_or(ExitCode::FAILURE))
}

fn extract() -> Option<ExitCode> {
    LIMITS.apply_as_child();
    std::panic::set_hook(Box::new(|_| {}));
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).ok()?;
    // Counted first: to extract thousands of pages takes longer than a child may run.
    let pages = pdf_extract::Document::load_mem(&bytes).ok()?.get_pages().len();
    if pages > MAX_PAGES {
        return Some(ExitCode::from(TOO_MANY_PAGES));
    }
    let pages = pdf_extract::extract_text_from_mem_by_pages(&bytes).ok()?;
    std::io::stdout().lock().write_all(pages.join("\n\n").as_bytes()).ok()?;
    Some(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::time::timeout;

    use super::*;

    /// The tests' program is no reader of PDFs: its end is the error of the file.
    #[tokio::test(start_paused = true)]
    async fn a_file_waits_for_others_longer_than_its_own_time_limit() {
        let others = CHILDREN.acquire_many(2).await.unwrap();
        let mut reading = pin!(text(b"%PDF-1.4".to_vec()));
        assert!(timeout(2 * MAX_TIME, reading.as_mut()).await.is_err());
        drop(others);
        let read = timeout(2 * MAX_TIME, reading).await;
        assert!(read.expect("it is its turn").is_err());
    }
}
