//! Downloads a file of known size with curl, which knows the user's proxies and certificates.
//!
//! - A partial file grows only at its end; the caller checks the content.
//! - Continues by itself after a broken connection, as long as it gets further; gives up after [`MAX_FAILURES`]
//!   attempts in a row that do not. A server that cannot send the rest of a file begins anew.
//! - curl writes into a pipe, so it ends with the process that started it.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use url::Url;

use crate::error::FetchError;

const MAX_FAILURES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// Between two reports of the progress, and the longest time until a download is cancelled.
pub(crate) const REPORT_INTERVAL: Duration = Duration::from_millis(50);

/// curl's status where the server cannot send the rest of a file.
const NO_RANGES: i32 = 33;

/// Gets the bytes that are there; breaks to cancel.
pub type OnBytes<'a> = dyn FnMut(u64) -> ControlFlow<()> + 'a;

/// Downloads into `part`, after the bytes that it already has. `shows_bar`: on standard error.
///
/// # Errors
/// Without curl, when the connection breaks off too often, and when `on_bytes` cancels it.
pub fn download(
    url: &Url,
    part: &Path,
    total_bytes: u64,
    certificates: Option<&Path>,
    shows_bar: bool,
    on_bytes: &mut OnBytes<'_>,
) -> Result<(), FetchError> {
    let (mut failures, mut most_bytes) = (0, 0);
    while failures < MAX_FAILURES {
        let before = size_of(part);
        if before == total_bytes {
            return Ok(());
        }
        if before > total_bytes {
            remove(part)?;
        } else {
            most_bytes = most_bytes.max(before);
        }
        let mut command = curl(certificates);
        command.args(["--speed-limit", "1", "--speed-time", "30", "--no-buffer"]);
        command.args(if shows_bar {
            &["--progress-bar"][..]
        } else {
            &["--silent", "--show-error"]
        });
        command.arg("--continue-at").arg(size_of(part).to_string()).arg(url.as_str());
        if append(command, part, on_bytes)? == Some(NO_RANGES) {
            remove(part)?;
        }
        let size = size_of(part);
        let is_further = (most_bytes + 1..=total_bytes).contains(&size);
        failures = if is_further { 0 } else { failures + 1 };
        if size != total_bytes {
            pause(size, on_bytes)?;
        }
    }
    Err(FetchError::Interrupted { done_bytes: size_of(part), total_bytes })
}

/// Appends the command's output to `part`. Returns its exit status; `None`: by a signal.
fn append(
    mut command: Command,
    part: &Path,
    on_bytes: &mut OnBytes<'_>,
) -> Result<Option<i32>, FetchError> {
    let file = File::options().create(true).append(true).open(part);
    let mut file = file.map_err(FetchError::file("write", part))?;
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(FetchError::NoCurl)?;
    let mut output = child.stdout.take().expect("it is piped");
    let done = AtomicU64::new(size_of(part));
    let copied = thread::scope(|scope| {
        let copying = scope.spawn(|| copy(&mut output, &mut file, &done));
        while !copying.is_finished() {
            if on_bytes(done.load(Ordering::Relaxed)).is_break() {
                end(&mut child);
                let _ = copying.join(); // What has arrived stays.
                return Err(FetchError::Cancelled);
            }
            thread::park_timeout(REPORT_INTERVAL);
        }
        let copied = copying.join().expect("copying does not panic");
        copied.map_err(FetchError::file("write", part))
    });
    if copied.is_err() {
        end(&mut child);
    }
    copied?;
    Ok(child.wait().map_err(FetchError::NoCurl)?.code())
}

fn copy(from: &mut impl Read, to: &mut impl Write, done: &AtomicU64) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                to.write_all(&buffer[..read])?;
                done.fetch_add(read as u64, Ordering::Relaxed);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn end(child: &mut Child) {
    // An error: it has ended already.
    let _ = child.kill();
    let _ = child.wait();
}

fn pause(done: u64, on_bytes: &mut OnBytes<'_>) -> Result<(), FetchError> {
    let until = Instant::now() + PAUSE;
    while Instant::now() < until {
        if on_bytes(done).is_break() {
            return Err(FetchError::Cancelled);
        }
        thread::sleep(REPORT_INTERVAL);
    }
    Ok(())
}

/// curl, following redirects, with an error for each status that is not a success.
pub(crate) fn curl(certificates: Option<&Path>) -> Command {
    let mut command = Command::new("curl");
    command.args(["--fail", "--location", "--connect-timeout", "20"]);
    if let Some(file) = certificates {
        command.arg("--cacert").arg(file);
    }
    command
}

/// 0 where there is no file.
fn size_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |facts| facts.len())
}

fn remove(path: &Path) -> Result<(), FetchError> {
    if path.exists() {
        fs::remove_file(path).map_err(FetchError::file("remove", path))?;
    }
    Ok(())
}
