//! hobd: keeps a language model's context warm and answers over HTTP.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use hob_config::{DaemonFlags, Resolved, Settings, Sources, UserDirs};
use hob_daemon::clock::{MOVED_CLOCK_VARIABLE, ProcessTime};
use hob_daemon::startup::{self, Ending, ModelSwitch};

/// For tasks that still run after all KV is saved.
const MAX_SHUTDOWN: Duration = Duration::from_secs(5);

/// Keep a language model's context warm, and answer over HTTP
#[derive(Parser)]
#[command(name = "hobd", version, max_term_width = 100)]
struct Args {
    #[command(flatten)]
    flags: DaemonFlags,
    /// Print a curl and a `hob chat` command to paste, even without a terminal
    #[arg(long)]
    hints: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hobd: {}", chain_of(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes on one line, without causes that a message quotes already.
fn chain_of(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        text if text.contains(&cause) => text.to_owned(),
        text => format!("{text}: {cause}"),
    })
}

fn run(args: Args) -> Result<()> {
    let resolved = resolve(args.flags)?;
    // A program that waits for the ready file has its own output.
    let is_interactive = std::io::stderr().is_terminal() && resolved.settings.ready_file.is_none();
    let hints = args.hints || is_interactive;
    let filter = startup::log_filter(&resolved.settings.log)?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let mut address = None;
    let mut model_switch = ModelSwitch::new(resolved).with_time(process_time());
    loop {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .worker_threads(2) // Sockets need little; the cores are for the model.
            .build()
            .context("cannot start the threads that serve sockets")?;
        let ended = runtime.block_on(startup::run(&mut model_switch, address, hints));
        // Drops all tasks and their handles before the next daemon starts.
        runtime.shutdown_timeout(MAX_SHUTDOWN);
        match ended {
            Ok(Ending::Stopped) => return Ok(()),
            Ok(Ending::ModelReplaced(same)) => address = Some(same),
            Ok(Ending::Switched(same, model)) => {
                address = Some(same);
                model_switch.switch(model);
            }
            Err(error) => model_switch.go_back(error)?,
        }
    }
}

/// The environment is read here and in [`process_time`] only.
fn resolve(flags: DaemonFlags) -> Result<Resolved> {
    let user_dirs = UserDirs::of_current_user()?;
    let sources = Sources::gather(user_dirs, std::env::vars_os(), flags.0)?;
    Ok(Settings::resolve(&sources)?)
}

/// The system's clocks, unless a test moves them.
fn process_time() -> ProcessTime {
    std::env::var_os(MOVED_CLOCK_VARIABLE)
        .map_or_else(ProcessTime::system, |file| ProcessTime::moved_by(file.into()))
}
