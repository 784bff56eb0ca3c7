//! Ends the app: hides the window at once, and the process ends when the daemon has saved everything.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tauri::{AppHandle, Manager};

use super::backend::Backend;
use super::settings::SettingsFile;
use super::window;

/// Whether the app is ending.
#[derive(Default)]
pub struct Ending(AtomicBool);

/// Ends the app with exit code `code`.
pub fn begin(app: &AppHandle, code: i32) {
    if app.state::<Ending>().0.swap(true, Ordering::AcqRel) {
        return;
    }
    window::hide(app);
    let app = app.clone();
    let save = move || {
        // The app started again while this process saves must open its own window.
        tauri_plugin_single_instance::destroy(&app);
        app.state::<Backend>().stop();
        app.exit(code);
    };
    thread::Builder::new()
        .name("hob-ending".to_owned())
        .spawn(save)
        .expect("the system can start a thread");
}

/// Closing the window hides it or ends the app, as the settings say.
pub fn on_window_close(app: &AppHandle) {
    if app.state::<SettingsFile>().closes_to_tray() {
        window::hide(app);
    } else {
        begin(app, 0);
    }
}

/// The page's command.
#[tauri::command]
pub fn quit(app: AppHandle) {
    begin(&app, 0);
}
