//! The processes of this program that are children of a daemon.

use std::process::ExitCode;

/// In such a child: does its work and returns the exit code. `None` in every other process. Must be called before
/// anything else of `main`.
pub fn run() -> Option<ExitCode> {
    let code = crate::documents::pdf::child().or_else(crate::prompt::rendering::child);
    #[cfg(feature = "llama")]
    let code = code.or_else(crate::startup::probe::child);
    code
}
