//! hob-desktop: the daemon in a window.

mod shell;

use std::process::ExitCode;

fn main() -> ExitCode {
    shell::start()
}
