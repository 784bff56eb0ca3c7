//! What the page is told of the daemon: which phase it is in, now and whenever that changes.

use std::net::SocketAddr;

use serde::Serialize;
use tauri::State;
use tauri::ipc::Channel;

use super::backend::Backend;
use super::requests::Requests;

/// How the daemon stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// Requests wait.
    Starting {
        /// For what.
        what: Doing,
        /// How much of it is done, when that is known.
        percent: Option<u8>,
    },
    /// It runs in this process.
    Ready {
        /// Who and where it is.
        #[serde(flatten)]
        daemon: Known,
        /// The app was attached to another one before, which went away.
        took_over: bool,
    },
    /// It runs in another process, which owns the directory of kept KV.
    Attached {
        /// Who and where it is.
        #[serde(flatten)]
        daemon: Known,
    },
    /// There is none.
    Failed {
        /// Why.
        message: String,
        /// What to do about it.
        remedy: Remedy,
    },
}

/// What requests wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// Opening what is kept.
    Opening,
    /// Reading the model's content for its name, once.
    Reading,
    /// Loading the model.
    Loading,
    /// Another process owns the directory, and does not answer yet.
    Waiting,
    /// Saving what is worth keeping.
    Saving,
}

/// What helps where there is no daemon. The page has the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// Mending what the message names, and starting again.
    Mend,
    /// Ending the program that owns the directory.
    Release,
}

/// A daemon that answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Known {
    /// Where.
    pub address: SocketAddr,
    /// Its process.
    pub pid: u32,
    /// Its model's file.
    pub model: String,
}

/// The phase now; `changes` hears every later one, until the page is loaded anew.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_phase_is_one_flat_object() {
        let daemon = Known {
            address: "127.0.0.1:8642".parse().unwrap(),
            pid: 7,
            model: "/m/tiny.gguf".to_owned(),
        };
        assert_eq!(
            serde_json::to_value(Phase::Ready { daemon: daemon.clone(), took_over: false })
                .unwrap(),
            json!({"phase": "ready", "address": "127.0.0.1:8642", "pid": 7, "model": "/m/tiny.gguf",
                "took_over": false})
        );
        assert_eq!(
            serde_json::to_value(Phase::Attached { daemon }).unwrap()["phase"],
            json!("attached")
        );
        assert_eq!(
            serde_json::to_value(Phase::Starting { what: Doing::Reading, percent: Some(4) })
                .unwrap(),
            json!({"phase": "starting", "what": "reading", "percent": 4})
        );
    }
}
