//! Executes this program again, in the place of this process.

use std::env;
use std::process::Command;

use anyhow::{Context, Error, Result};

/// The flag by which a process knows that [`restart`] has started it.
pub const RESTARTED: &str = "--restarted";

/// This program with its arguments.
pub fn command() -> Result<Command> {
    let this = env::current_exe().context("cannot find this program again")?;
    let mut command = Command::new(this);
    let mut arguments = env::args_os();
    let name = arguments.next();
    if let Some(name) = name {
        std::os::unix::process::CommandExt::arg0(&mut command, name);
    }
    command.args(arguments);
    Ok(command)
}

/// Ends all threads of this process, also those that hang, and runs the program anew. Returns why it
/// could not.
pub fn restart() -> Error {
    use std::os::unix::process::CommandExt;
    match command() {
        Ok(mut command) => {
            if !env::args_os().any(|argument| argument == RESTARTED) {
                command.arg(RESTARTED);
            }
            Error::new(command.exec()).context("cannot start this program again")
        }
        Err(error) => error,
    }
}
