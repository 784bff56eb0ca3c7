//! hobd: keeps a language model's context warm and answers over HTTP.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use hob_config::{DaemonFlags, Resolved, Settings, Sources, UserDirs};
use hob_daemon::startup::{self, Ending, ModelSwitch};

/// For what still runs when everything is saved.
const LONGEST_END: Duration = Duration::from_secs(5);

/// Keep a language model's context warm, and answer over HTTP
#[derive(Parser)]
#[command(name = "hobd", version, max_term_width = 100)]
struct Args {
    #[command(flatten)]
    flags: DaemonFlags,
    /// Print a curl line and a `hob chat` line to paste, even where nobody seems to be watching
    #[arg(long)]
    hints: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hobd: {}", told(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes on one line; what a message has quoted already is not said again.
fn told(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| match told.as_str() {
        "" => cause,
        told if told.contains(&cause) => told.to_owned(),
        told => format!("{told}: {cause}"),
    })
}

fn run(args: Args) -> Result<()> {
    let resolved = resolve(args.flags)?;
    // Whoever waits for the ready file tells people in its own way.
    let watched = std::io::stderr().is_terminal() && resolved.settings.ready_file.is_none();
    let hints = args.hints || watched;
    let filter = startup::log_filter(&resolved.settings.log)?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let mut at = None;
    let mut model_switch = ModelSwitch::new(resolved);
    loop {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .worker_threads(2) // Sockets need little; the cores are for the model.
            .build()
            .context("cannot start the threads that serve sockets")?;
        let ended = runtime.block_on(startup::run(&mut model_switch, at, hints));
        // With its tasks go their handles: nothing of this daemon is left when the next one starts.
        runtime.shutdown_timeout(LONGEST_END);
        match ended {
            Ok(Ending::Stopped) => return Ok(()),
            Ok(Ending::ModelReplaced(address)) => at = Some(address),
            Ok(Ending::Switched(address, model)) => {
                at = Some(address);
                model_switch.switch(model);
            }
            Err(error) => model_switch.go_back(error)?,
        }
    }
}

/// The one place that reads the environment.
fn resolve(flags: DaemonFlags) -> Result<Resolved> {
    let user_dirs = UserDirs::of_current_user()?;
    let sources = Sources::gather(user_dirs, std::env::vars_os(), flags.0)?;
    Ok(Settings::resolve(&sources)?)
}
