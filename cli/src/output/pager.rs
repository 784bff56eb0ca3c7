//! Shows long texts through the user's pager.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use signal_hook::consts::SIGINT;
use signal_hook::flag;

/// The options of `less` where the user has set none, as Git gives them: it shows colours as such, and ends at once
/// behind a text that fits.
const LESS: &str = "export LESS=\"${LESS-FRX}\"";

/// Runs `command` by a shell and gives it the text; `false` where it cannot be run. From then on, Ctrl-C does not end
/// `hob`: the pager gets the key too, and would share the keyboard with the shell.
pub fn show(command: &str, text: &str) -> bool {
    let _ = flag::register(SIGINT, Arc::default()); // An error: Ctrl-C ends `hob`.
    let mut pager = Command::new("sh");
    pager.arg("-c").arg(format!("{LESS}; {command}")).stdin(Stdio::piped());
    let Ok(mut child) = pager.spawn() else { return false };
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(text.as_bytes()); // An error: the pager has ended.
    }
    // A shell that finds no such command ends with 127.
    child.wait().is_ok_and(|status| status.code() != Some(127))
}
