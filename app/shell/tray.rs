//! The icon in the tray: show, keep running, quit.
//!
//! - On Linux a library draws it that may be missing. Without it there is no tray, and closing the
//!   window ends the app.

use std::panic::{self, AssertUnwindSafe};

use tauri::menu::{CheckMenuItem, Menu, MenuItem};
use tauri::tray::TrayIconBuilder;
use tauri::{AppHandle, Manager, Wry};

use super::settings::{Close, DesktopSettings, SettingsFile};
use super::words::Words;
use super::{ending, window};

/// The tray, if there is one.
pub struct Tray {
    keep_running: CheckMenuItem<Wry>,
}

/// Opens the tray. Says whether there is one now.
pub fn open(app: &AppHandle, words: &Words) -> bool {
    // The library is looked for when it is first called, and its absence is a panic.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let built = panic::catch_unwind(AssertUnwindSafe(|| build(app, words)));
    panic::set_hook(hook);
    match built {
        Ok(Ok(tray)) => {
            app.manage(tray);
            true
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "no tray: closing the window ends the app");
            false
        }
        Err(_) => {
            tracing::info!("no tray: install libayatana-appindicator3 to have one");
            false
        }
    }
}

fn build(app: &AppHandle, words: &Words) -> tauri::Result<Tray> {
    let keeps = app.state::<SettingsFile>().read().close == Close::Tray;
    let show = MenuItem::with_id(app, "show", &words.show, true, None::<&str>)?;
    let keep_running =
        CheckMenuItem::with_id(app, "keep", &words.keep_running, true, keeps, None::<&str>)?;
    let quit = MenuItem::with_id(app, "quit", &words.quit, true, None::<&str>)?;
    let menu = Menu::with_items(app, &[&show, &keep_running, &quit])?;
    let icon = app.default_window_icon().cloned().expect("the bundle has icons");
    TrayIconBuilder::with_id("hob")
        .icon(icon)
        .tooltip("Hob")
        .menu(&menu)
        .on_menu_event(|app, event| match event.id().as_ref() {
            "show" => window::show(app),
            "keep" => toggle(app),
            "quit" => ending::begin(app, 0),
            _ => {}
        })
        .build(app)?;
    Ok(Tray { keep_running })
}

fn toggle(app: &AppHandle) {
    let file = app.state::<SettingsFile>();
    let changed = file.change(|it| {
        it.close = match it.close {
            Close::Quit => Close::Tray,
            Close::Tray => Close::Quit,
        };
    });
    if let Err(error) = changed {
        tracing::warn!(%error, "the app's settings cannot be written");
    }
    show_settings(app, &file.read());
}

/// Shows in the menu what was set elsewhere.
pub fn show_settings(app: &AppHandle, settings: &DesktopSettings) {
    if let Some(tray) = app.try_state::<Tray>() {
        let _ = tray.keep_running.set_checked(settings.close == Close::Tray);
    }
}
