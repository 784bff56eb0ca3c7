//! Downloads a file of known size with curl, which knows the user's proxies and certificates.
//!
//! - A partial file grows only at its end; the caller checks the content.
//! - Continues by itself after a broken connection, as long as each attempt adds bytes; gives up
//!   after [`MAX_FAILURES`] attempts in a row that add none.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use url::Url;

use crate::error::FetchError;

const MAX_FAILURES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// curl's status where the server cannot send the rest of a file.
const NO_RANGES: i32 = 33;

/// Downloads into `part`, after the bytes that it already has. `shows_bar`: on standard error.
///
/// # Errors
/// Without curl, and when the connection breaks off too often.
pub fn download(
    url: &Url,
    part: &Path,
    total_bytes: u64,
    certificates: Option<&Path>,
    shows_bar: bool,
) -> Result<(), FetchError> {
    let mut failures = 0;
    while failures < MAX_FAILURES {
        let before = size_of(part);
        if before == total_bytes {
            return Ok(());
        }
        if before > total_bytes {
            remove(part)?;
        }
        let mut command = curl(certificates);
        command.args(["--speed-limit", "1", "--speed-time", "30"]);
        command.args(if shows_bar {
            &["--progress-bar"][..]
        } else {
            &["--silent", "--show-error"]
        });
        command.args(["--continue-at", "-", "--output"]).arg(part).arg(url.as_str());
        let status = command.status().map_err(FetchError::NoCurl)?;
        if status.code() == Some(NO_RANGES) {
            remove(part)?;
        }
        failures = if size_of(part) > before { 0 } else { failures + 1 };
        if size_of(part) != total_bytes {
            thread::sleep(PAUSE);
        }
    }
    Err(FetchError::Interrupted { done_bytes: size_of(part), total_bytes })
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
