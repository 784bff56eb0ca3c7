//! The icon in the tray: show, keep running, quit.
//!
//! - On Linux libayatana-appindicator draws it. Without that library there is no tray, and closing the
//!   window ends the app.
//! - The check mark of "keep running" follows the settings, also when the page changes them.

use std::panic::{self, AssertUnwindSafe};

use tauri::menu::{CheckMenuItem, Menu, MenuItem};
use tauri::tray::TrayIconBuilder;
use tauri::{AppHandle, Manager, Wry};

use super::settings::{Close, SettingsFile};
use super::strings::Strings;
use super::{ending, window};

/// Opens the tray; `false` when the system has none.
pub fn open(app: &AppHandle, strings: &Strings) -> bool {
    // The first call loads the library, and panics when it is missing.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let built = panic::catch_unwind(AssertUnwindSafe(|| build(app, strings)));
    panic::set_hook(hook);
    match built {
        Ok(Ok(keep_running)) => {
            follow_settings(app, keep_running);
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

/// Returns the item "keep running".
fn build(app: &AppHandle, strings: &Strings) -> tauri::Result<CheckMenuItem<Wry>> {
    let keeps = app.state::<SettingsFile>().read().close == Close::Tray;
    let show = MenuItem::with_id(app, "show", &strings.show, true, None::<&str>)?;
    let keep_running =
        CheckMenuItem::with_id(app, "keep", &strings.keep_running, true, keeps, None::<&str>)?;
    let quit = MenuItem::with_id(app, "quit", &strings.quit, true, None::<&str>)?;
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
    Ok(keep_running)
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
        file.notify(); // Choosing the item has flipped its check mark.
    }
}

fn follow_settings(app: &AppHandle, keep_running: CheckMenuItem<Wry>) {
    let mut settings = app.state::<SettingsFile>().subscribe();
    tauri::async_runtime::spawn(async move {
        while settings.changed().await.is_ok() {
            let closes_to_tray = settings.borrow_and_update().close == Close::Tray;
            let _ = keep_running.set_checked(closes_to_tray);
        }
    });
}
