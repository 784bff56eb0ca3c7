//! The desktop shell around the page: opens the daemon in this process, sends it the page's requests, and
//! integrates with the desktop (tray, notifications, links, downloads).
//!
//! Reading order: [`args`] and [`graphics`] (before anything starts), [`phase`] and [`backend`] (the
//! daemon, in this process or another), [`requests`] and [`state`] (commands of the page), [`settings`],
//! [`window`], [`ending`], [`tray`], [`smoke`] (the self-test).
//!
//! - The page calls the commands of `app/capabilities` and nothing else; it never sees the token.
//! - The window does not wait for the model: the daemon opens on its own thread.
//! - The daemon saves everything before the app ends, whether the page, the tray, the window or a signal
//!   ends it.

mod args;
mod backend;
mod downloads;
mod ending;
mod folders;
mod graphics;
mod links;
mod notices;
mod phase;
mod program;
mod requests;
mod settings;
mod smoke;
mod state;
mod strings;
mod tray;
mod window;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use hob_config::Resolved;
use hob_daemon::startup;
use tauri::{App, AppHandle, Manager, RunEvent};
use tauri_plugin_window_state::StateFlags;

use args::Args;
use backend::Backend;
use ending::Ending;
use folders::ModelsFolder;
use requests::Requests;
use settings::SettingsFile;
use strings::Strings;

/// Runs the app.
pub fn start() -> ExitCode {
    if let Some(code) = hob_daemon::children::run() {
        return code;
    }
    startup::bound_arenas();
    let started = Instant::now();
    let args = Args::parse();
    if let Err(error) = graphics::prepare() {
        eprintln!("hob-desktop: {error:#}");
    }
    match run(args, started) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("hob-desktop: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args, started: Instant) -> Result<ExitCode> {
    let scratch = args.scratch()?;
    let resolved = args.resolve(scratch.as_ref().map(|it| it.path()))?;
    let filter = startup::log_filter(&resolved.settings.log)?;
    // A line that cannot be written is dropped: the default reports it by `eprintln!`, which then panics.
    let log = tracing_subscriber::fmt().with_env_filter(filter).log_internal_errors(false);
    log.with_writer(std::io::stderr).init();
    let app = build(&args, resolved, started).context("cannot start the app")?;
    let code = app.run_return(|app, event| match event {
        RunEvent::ExitRequested { api, code: None, .. } => {
            api.prevent_exit();
            ending::begin(app, 0);
        }
        #[cfg(target_os = "macos")]
        RunEvent::Reopen { .. } => window::show(app),
        _ => {}
    });
    drop(scratch);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn build(args: &Args, resolved: Resolved, started: Instant) -> Result<App> {
    let strings = Strings::of_user();
    let settings = SettingsFile::in_dir(&resolved.settings.data_dir);
    let folder = ModelsFolder::in_dir(&resolved.settings.data_dir);
    let instance = args::instance(&resolved);
    let (hidden, smoke, started_by) = (args.hidden, args.smoke_test, args.started_by());
    let app = tauri::Builder::default()
        .plugin(
            tauri_plugin_single_instance::Builder::new()
                .callback(|app, _, _| window::show(app))
                .dbus_id(instance)
                .build(),
        )
        // Visibility is not restored: a window hidden at the end shows at the next start.
        .plugin(
            tauri_plugin_window_state::Builder::default()
                .with_state_flags(StateFlags::all() - StateFlags::VISIBLE)
                .build(),
        )
        .plugin(tauri_plugin_opener::init())
        .plugin(tauri_plugin_notification::init())
        .plugin(tauri_plugin_autostart::Builder::new().arg("--hidden").build())
        .invoke_handler(tauri::generate_handler![
            requests::request,
            requests::cancel,
            state::app_state,
            settings::settings_get,
            settings::settings_set,
            links::open_link,
            folders::open_models_folder,
            notices::notify,
            ending::quit,
        ])
        .setup(move |app| {
            app.manage(settings);
            app.manage(folder);
            app.manage(Requests::default());
            app.manage(Ending::default());
            app.manage(Backend::start(resolved, started_by));
            let has_tray = tray::open(app.handle(), &strings);
            if has_tray {
                app.state::<SettingsFile>().set_has_tray();
            }
            app.manage(strings);
            let hidden = hidden && has_tray;
            window::open(app.handle(), hidden, started, ending::on_window_close)?;
            end_on_signals(app.handle());
            if smoke {
                smoke::start(app.handle().clone(), started);
            }
            Ok(())
        })
        .build(tauri::generate_context!())?;
    Ok(app)
}

/// Ends the app on SIGTERM, SIGINT and SIGHUP as the menu does.
fn end_on_signals(app: &AppHandle) {
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        match startup::StopSignal::install(Duration::ZERO) {
            Ok(stop) => {
                stop.requested().await;
                ending::begin(&app, 0);
            }
            Err(error) => tracing::warn!(%error, "signals end the app at once"),
        }
    });
}
