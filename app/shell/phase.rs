//! The phase that the daemon is in, as the page receives it.

use std::net::SocketAddr;

use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// Requests wait.
    Starting {
        what: Activity,
        /// `None` when the progress of the activity is unknown.
        percent: Option<u8>,
    },
    /// The daemon runs in this process.
    Ready {
        #[serde(flatten)]
        daemon: DaemonInfo,
        /// Before, the app was attached to another daemon, which has ended.
        took_over: bool,
    },
    /// The daemon runs in another process, which owns the slots directory.
    Attached {
        #[serde(flatten)]
        daemon: DaemonInfo,
    },
    /// No daemon runs.
    Failed { message: String, remedy: Remedy },
}

/// What the daemon does while requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// Opening transcripts and slots.
    Opening,
    /// Hashing the model file, once per file.
    Reading,
    /// Loading the model.
    Loading,
    /// Another process owns the slots directory and does not answer yet.
    Waiting,
    /// Saving before the end or a restart.
    Saving,
}

/// What the user can do when no daemon runs. The page has the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// Fix the cause that the message names, and start again.
    Mend,
    /// End the program that owns the directory.
    Release,
}

/// A daemon that answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DaemonInfo {
    pub address: SocketAddr,
    pub pid: u32,
    /// The model's file.
    pub model: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_phase_is_one_flat_object() {
        let daemon = DaemonInfo {
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
            serde_json::to_value(Phase::Starting { what: Activity::Reading, percent: Some(4) })
                .unwrap(),
            json!({"phase": "starting", "what": "reading", "percent": 4})
        );
    }
}
