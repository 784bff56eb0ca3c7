//! Shows long texts through the user's pager.

use std::io::Write;
use std::process::{Command, Stdio};

/// Runs `command` by a shell and gives it the text; `false` where it cannot be run.
pub fn show(command: &str, text: &str) -> bool {
    let mut pager = Command::new("sh");
    pager.arg("-c").arg(command).stdin(Stdio::piped());
    let Ok(mut child) = pager.spawn() else { return false };
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(text.as_bytes()); // An error: the pager has ended.
    }
    // A shell that finds no such command ends with 127.
    child.wait().is_ok_and(|status| status.code() != Some(127))
}
