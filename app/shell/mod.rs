//! The shell around the page: it opens the daemon in this process, carries the page's requests to it,
//! and is a good citizen of the desktop.
//!
//! Reading order: [`args`] and [`graphics`] (before anything starts), [`backend`] (the daemon, here or
//! elsewhere), [`requests`] (what the page asks), [`state`] (what it is told), [`settings`], [`window`]
//! and [`tray`], [`ending`] (nothing is lost), [`smoke`] (the app tries itself).
//!
//! - The page calls the commands of `app/capabilities` and nothing else; it never sees the token.
//! - The window does not wait for the model: the daemon opens in a thread of its own.
//! - However the app is asked to end, everything worth keeping is saved first.

mod args;
mod backend;
mod downloads;
mod ending;
mod graphics;
mod links;
mod notices;
mod requests;
mod settings;
mod smoke;
mod state;
mod tray;
mod window;
mod words;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use hob_config::Resolved;
use hob_daemon::startup;
use tauri::{App, AppHandle, Manager, RunEvent};
use tauri_plugin_window_state::StateFlags;

use args::Args;
use backend::Backend;
use ending::Ending;
use requests::Requests;
use settings::SettingsFile;
use words::Words;

/// The app, from its arguments to its end.
pub fn start() -> ExitCode {
    let begun = Instant::now();
    let args = Args::parse();
    if let Err(error) = graphics::prepare() {
        eprintln!("hob-desktop: {error:#}");
    }
    match run(args, begun) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("hob-desktop: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args, begun: Instant) -> Result<ExitCode> {
    let scratch = args.scratch()?;
    let resolved = args.resolve(scratch.as_ref().map(|it| it.path()))?;
    let filter = startup::log_filter(&resolved.settings.log)?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let app = build(&args, resolved, begun).context("cannot start the app")?;
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

fn build(args: &Args, resolved: Resolved, begun: Instant) -> Result<App> {
    let words = Words::of_user();
    let settings = SettingsFile::in_dir(&resolved.settings.data_dir);
    let instance = args::instance(&resolved);
    let (hidden, smoke) = (args.hidden, args.smoke_test);
    let app = tauri::Builder::default()
        .plugin(
            tauri_plugin_single_instance::Builder::new()
                .callback(|app, _, _| window::show(app))
                .dbus_id(instance)
                .build(),
        )
        // A window that was hidden at the end is shown at the next start.
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
            notices::notify,
            ending::quit,
        ])
        .setup(move |app| {
            app.manage(settings);
            app.manage(Requests::default());
            app.manage(Ending::default());
            app.manage(Backend::start(resolved));
            let has_tray = tray::open(app.handle(), &words);
            app.manage(words);
            window::open(app.handle(), hidden && has_tray, begun)?;
            end_on_signals(app.handle());
            if smoke {
                smoke::start(app.handle().clone(), begun);
            }
            Ok(())
        })
        .build(tauri::generate_context!())?;
    Ok(app)
}

/// What the system asks is as good as the menu.
fn end_on_signals(app: &AppHandle) {
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        match startup::stop_signal() {
            Ok(stop) => {
                stop.await;
                ending::begin(&app, 0);
            }
            Err(error) => tracing::warn!(%error, "signals end the app at once"),
        }
    });
}
