//! `hob`: the command line of `hobd`, which also inspects saved KV without a daemon.
//!
//! - `main` alone reads the environment and the terminal; commands get a [`Context`].
//! - Results go to standard output, everything else to standard error. With `--json` standard
//!   output holds JSON and nothing else.
//! - Every failure has one line that names the remedy and an exit code from [`exit`].
//!
//! Reading order: [`args`], [`context`], [`commands`] (one file a subcommand); [`client`] talks to
//! the daemon; [`line`] reads what the user types, [`type_ahead`] sends it before Enter,
//! [`terminal_mode`] turns off the echo while an answer streams; [`signals`] handles Ctrl-C; [`output`]
//! formats figures and tables; [`atomic_file`] writes an export; [`confirm`] asks before a text is
//! deleted.

mod args;
mod atomic_file;
mod client;
mod commands;
mod confirm;
mod context;
mod exit;
mod failure;
mod line;
mod names;
mod output;
mod private;
mod progress;
mod signals;
mod sse;
mod terminal_mode;
mod type_ahead;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::SystemTime;

use clap::{CommandFactory, Parser};
use hob_config::{Settings, Sources, UserDirs};
use hob_models::Roots;

use crate::args::{Args, Command};
use crate::context::{Context, Terminal};
use crate::failure::Failure;

fn main() -> ExitCode {
    let args = Args::parse();
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of a pipe has closed it.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            // One line, whatever the names in it are.
            let failed = output::plain(&failure.to_string()).replace(['\n', '\t'], " ");
            output::warn(&format!("hob: {failed}"));
            ExitCode::from(failure.exit() as u8)
        }
    }
}

fn run(args: Args) -> Result<(), Failure> {
    let mut flags = args.settings.0;
    args.command.set_flags(&mut flags);
    // Commands without settings work also when the settings are wrong.
    match args.command {
        Command::Completions(command) => {
            return commands::completions::run(&command, Args::command());
        }
        Command::Man(command) => return commands::man::run(&command, Args::command()),
        Command::Settings(_) => return commands::settings::run(args.json),
        _ => {}
    }
    let free_bytes = std::env::var("HOB_TEST_FREE_BYTES").ok();
    if let Some(bytes) = free_bytes.and_then(|bytes| bytes.parse().ok()) {
        hob_slots::store::files::assume_free_bytes(bytes);
    }
    let memory_bytes = std::env::var("HOB_TEST_MEMORY_BYTES").ok();
    if let Some(bytes) = memory_bytes.and_then(|bytes| bytes.parse().ok()) {
        hob_models::memory::assume_available_bytes(bytes);
    }
    let sources = Sources::gather(UserDirs::of_current_user()?, std::env::vars_os(), flags)?;
    let resolved = Settings::resolve(&sources)?;
    let home = &resolved.user_dirs.home;
    let roots = Roots::from_env(|name| std::env::var_os(name), home, resolved.models_dirs());
    let mut context = Context {
        settings: resolved.settings.clone(),
        resolved,
        roots,
        json: args.json,
        now: SystemTime::now(),
        terminal: Terminal {
            input: io::stdin().is_terminal(),
            output: io::stdout().is_terminal(),
            error: io::stderr().is_terminal(),
            is_dumb: is_dumb(),
            colour: !is_dumb() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            size: size(),
        },
        out: Box::new(io::stdout()),
        pager: std::env::var("PAGER").unwrap_or_else(|_| "less -FRX".to_owned()),
    };
    commands::run(args.command, &mut context)
}

/// The terminal knows no control sequences: one of those in which the line editor reads whole lines.
fn is_dumb() -> bool {
    const DUMB: [&str; 3] = ["dumb", "cons25", "emacs"];
    std::env::var("TERM").is_ok_and(|term| DUMB.iter().any(|it| term.eq_ignore_ascii_case(it)))
}

/// Columns and rows of standard output, where it is a terminal.
fn size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (columns > 0 && rows > 0).then_some((columns, rows))
}
