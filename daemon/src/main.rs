//! hobd: serves a language model over HTTP, and saves its KV cache to memory and disk.

use std::io::{self, IsTerminal, Write};
use std::net::TcpListener;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use hob_config::{DaemonFlags, Resolved, Settings, Sources, UserDirs};
use hob_daemon::clock::{MOVED_CLOCK_VARIABLE, ProcessTime};
use hob_daemon::crashes::Crashes;
use hob_daemon::startup::supervise;
use hob_daemon::startup::{self, Ending, Listen, ModelSwitch, StartedBy, StopSignal};
use hob_models::published::Published;

/// For tasks that still run after all KV is saved, before a restart.
const MAX_TASK_TIME: Duration = Duration::from_secs(5);

/// How long such tasks may run before the end of the process, which ends them anyway.
const MAX_LAST_TASK_TIME: Duration = Duration::from_secs(1);

/// A supervisor passes on a signal that the child may have got itself: systemd signals both.
const SAME_SIGNAL: Duration = Duration::from_secs(2);

/// The end of `--help`. 70 is [`startup::EXIT_CRASHED`].
const EXIT_CODES: &str = "\
Exit codes:
  0    ended by a signal
  1    cannot start, or a setting is wrong
  2    the command line has a flag that hobd does not know
  70   served and cannot go on, or has not saved everything within ten seconds
  130  ended by a second signal";

/// Serve a language model over HTTP, and save its KV cache to memory and disk
#[derive(Parser)]
#[command(name = "hobd", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Args {
    #[command(flatten)]
    flags: DaemonFlags,
    /// Print a curl and a `hob chat` command to paste, even without a terminal
    #[arg(long)]
    hints: bool,
    /// Run as a child process that is started again when it crashes or when its engine hangs
    #[arg(long)]
    supervise: bool,
    /// For the child of --supervise: the crashes before
    #[arg(long, hide = true, conflicts_with = "supervise")]
    supervised: Option<u32>,
    /// For the child of --supervise: the reason of the latest crash
    #[arg(long, hide = true, requires = "supervised")]
    last_crash: Option<String>,
}

fn main() -> ExitCode {
    if let Some(code) = hob_daemon::children::run() {
        return code;
    }
    startup::bound_arenas();
    let args = Args::parse();
    let mut has_served = false;
    match run(args, &mut has_served) {
        Ok(code) => code,
        Err(error) => {
            // An error: its file is full, or its reader has gone. The exit code stays.
            writeln!(io::stderr(), "hobd: {}", chain_of(&error)).ok();
            if has_served { code(startup::EXIT_CRASHED) } else { ExitCode::FAILURE }
        }
    }
}

fn code(code: i32) -> ExitCode {
    u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// The error and its causes on one line, without causes that a message quotes already.
fn chain_of(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        text if text.contains(&cause) => text.to_owned(),
        text => format!("{text}: {cause}"),
    })
}

fn run(args: Args, has_served: &mut bool) -> Result<ExitCode> {
    let resolved = resolve(args.flags.clone())?;
    // A program that waits for the ready file has its own output.
    let is_interactive = io::stderr().is_terminal() && resolved.settings.ready_file.is_none();
    let hints = args.hints || is_interactive;
    let filter = startup::log_filter(&resolved.settings.log)?;
    // A line that cannot be written is dropped. The default reports it by `eprintln!`, which panics for the same
    // reason: a log on a full disk, or a reader that has ended, would end the thread that logs.
    let log = tracing_subscriber::fmt().with_env_filter(filter).log_internal_errors(false);
    log.with_writer(io::stderr).init();
    if args.supervise {
        let arguments = std::env::args_os().skip(1).filter(|argument| argument != "--supervise");
        let address = resolved.settings.listen;
        return supervise::run(address, &arguments.collect::<Vec<_>>()).map(code);
    }
    // The first child of a supervisor has the command line that the user has just typed.
    let is_restart = args.supervised.is_some_and(|crashes| crashes > 0);
    let started_by = if is_restart { StartedBy::Hob } else { StartedBy::User };
    let mut model_switch = ModelSwitch::new(resolved, started_by).with_time(process_time());
    if let Some(published) = published_by_test()? {
        model_switch = model_switch.with_fetchable(published);
    }
    let socket = inherited_socket(&args, &mut model_switch)?;
    let same_signal = if socket.is_some() { SAME_SIGNAL } else { Duration::ZERO };
    let stop = StopSignal::install(same_signal)?;
    let mut listen = Listen::Configured;
    loop {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .worker_threads(2) // Sockets need little; the cores are for the model.
            .build()
            .context("cannot start the threads that serve sockets")?;
        let began = Instant::now();
        let at = socket.as_ref().map_or(listen, Listen::Inherited);
        let ended = runtime.block_on(startup::run(&mut model_switch, &at, hints, &stop));
        // Drops all tasks and their handles before the next daemon starts.
        let ends = stop.is_requested()
            || matches!(ended, Ok(Ending::Stopped | Ending::Unsaved(_) | Ending::Hung(_)));
        let patience = if ends { MAX_LAST_TASK_TIME } else { MAX_TASK_TIME };
        startup::end(runtime, patience);
        *has_served |= ended.is_ok();
        if stop.is_requested() {
            let is_saved = !matches!(ended, Ok(Ending::Unsaved(_)));
            return Ok(if is_saved { ExitCode::SUCCESS } else { code(startup::EXIT_CRASHED) });
        }
        match ended {
            Ok(Ending::Stopped | Ending::Unsaved(_)) => return Ok(ExitCode::SUCCESS),
            Ok(Ending::ModelReplaced(same)) => listen = Listen::At(same),
            Ok(Ending::Switched(same, changes)) => {
                listen = Listen::At(same);
                model_switch.switch(changes);
            }
            Ok(Ending::Crashed(same, death, chosen)) => {
                listen = Listen::At(same);
                let pause = model_switch.crashed(death.to_string(), began.elapsed(), chosen);
                tracing::info!(pause_secs = pause.as_secs(), "starting the engine again");
                if stop.wait(pause) {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            Ok(Ending::Hung(death)) => {
                return Err(anyhow!(
                    "{death}, and its thread does not end: start hobd again, or let --supervise do it"
                ));
            }
            Err(error) => model_switch.go_back(error)?,
        }
    }
}

/// The socket of a supervisor. `None`: this process listens itself.
fn inherited_socket(args: &Args, model_switch: &mut ModelSwitch) -> Result<Option<TcpListener>> {
    if let Some(count) = args.supervised {
        supervise::end_with_parent();
        model_switch.inherit(Crashes::before(count, args.last_crash.clone()));
        return supervise::inherited_socket().map(Some);
    }
    Ok(None)
}

/// The environment is read here and in [`process_time`] only.
fn resolve(flags: DaemonFlags) -> Result<Resolved> {
    if let Some(directory) = std::env::var_os("HOB_TEST_FAULTS") {
        hob_runtime::fault::inject_from(directory.into());
    }
    let free_bytes = std::env::var("HOB_TEST_FREE_BYTES").ok();
    if let Some(bytes) = free_bytes.and_then(|bytes| bytes.parse().ok()) {
        hob_slots::store::files::assume_free_bytes(bytes);
    }
    let memory_bytes = std::env::var("HOB_TEST_MEMORY_BYTES").ok();
    if let Some(bytes) = memory_bytes.and_then(|bytes| bytes.parse().ok()) {
        hob_models::memory::assume_available_bytes(bytes);
    }
    let unsaved_bytes = std::env::var("HOB_TEST_UNSAVED_BYTES").ok();
    if let Some(bytes) = unsaved_bytes.and_then(|bytes| bytes.parse().ok()) {
        hob_config::settings::assume_unsaved_budget_bytes(bytes);
    }
    if std::env::var_os("HOB_TEST_IGNORE_TIME").is_some() {
        hob_runtime::ignore_time();
    }
    if std::env::var_os("HOB_TEST_FETCH_SHARED").is_some() {
        hob_daemon::shared::admission::always_fetch();
    }
    let user_dirs = UserDirs::of_current_user()?;
    let sources = Sources::gather(user_dirs, std::env::vars_os(), flags.0)?;
    Ok(Settings::resolve(&sources)?)
}

/// What a test serves in place of the published model.
fn published_by_test() -> Result<Option<&'static Published>> {
    let Some(file) = std::env::var_os("HOB_TEST_PUBLISHED") else { return Ok(None) };
    let text = std::fs::read_to_string(&file).context("HOB_TEST_PUBLISHED cannot be read")?;
    Published::of_json(&text).map(Some).context("HOB_TEST_PUBLISHED has no published model")
}

/// The system's clocks, unless a test moves them.
fn process_time() -> ProcessTime {
    std::env::var_os(MOVED_CLOCK_VARIABLE)
        .map_or_else(ProcessTime::system, |file| ProcessTime::moved_by(file.into()))
}
