//! The end: the window goes at once, the process when everything worth keeping is saved.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tauri::{AppHandle, Manager};

use super::backend::Backend;
use super::window;

/// Whether it has begun.
#[derive(Default)]
pub struct Ending(AtomicBool);

/// Ends the app. The status of the process is `code`.
pub fn begin(app: &AppHandle, code: i32) {
    if app.state::<Ending>().0.swap(true, Ordering::AcqRel) {
        return; // It is on its way.
    }
    window::hide(app);
    let app = app.clone();
    let save = move || {
        // Whoever starts the app while this one saves wants another, not a window that is going.
        tauri_plugin_single_instance::destroy(&app);
        app.state::<Backend>().stop();
        app.exit(code);
    };
    thread::Builder::new()
        .name("hob-ending".to_owned())
        .spawn(save)
        .expect("the system can start a thread");
}

/// What the page asks.
#[tauri::command]
pub fn quit(app: AppHandle) {
    begin(&app, 0);
}
