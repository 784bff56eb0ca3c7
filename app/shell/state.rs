//! `app_state`: the phase of the daemon, now and on every change.

use tauri::State;
use tauri::ipc::Channel;

use super::backend::Backend;
use super::phase::Phase;
use super::requests::Requests;

/// Returns the phase; `changes` receives every later one until the page is reloaded.
#[tauri::command]
pub fn app_state(
    backend: State<'_, Backend>,
    requests: State<'_, Requests>,
    changes: Channel<Phase>,
) -> Phase {
    let mut phases = backend.phases();
    let now = phases.borrow_and_update().clone();
    requests.listen(tauri::async_runtime::spawn(async move {
        while phases.changed().await.is_ok() {
            let phase = phases.borrow_and_update().clone();
            if changes.send(phase).is_err() {
                return; // The window is gone.
            }
        }
    }));
    now
}
