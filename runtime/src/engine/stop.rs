//! The engine's thread, and its end.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Engine;
use crate::command::Command;
use crate::heartbeat::Death;

/// How long [`Engine::shutdown`] waits for a thread that hangs.
const MAX_HANG_WAIT: Duration = Duration::from_secs(5);

/// How long [`Engine::shutdown`] waits for a thread that panicked: its writer saves what is queued.
const MAX_PANIC_WAIT: Duration = Duration::from_secs(60);

pub(super) struct EngineThread {
    handle: JoinHandle<()>,
    /// Disconnected once the thread has dropped everything.
    ended: mpsc::Receiver<()>,
}

impl EngineThread {
    pub fn spawn(run: impl FnOnce() + Send + 'static) -> Self {
        let (running, ended) = mpsc::channel();
        let body = move || {
            let _running: mpsc::Sender<()> = running;
            run();
        };
        let thread = std::thread::Builder::new().name("hob-engine".to_owned());
        let handle = thread.spawn(body).expect("the system can start a thread");
        Self { handle, ended }
    }
}

impl Engine {
    /// Cancels running turns, saves all KV, and waits until it is on disk. Blocks; afterwards every
    /// call returns an error. A micro-batch or a load that takes long is interrupted.
    ///
    /// Returns whether the thread has ended and has released the store: one that hangs has not.
    pub fn shutdown(&self) -> bool {
        self.inner.heartbeat.stop();
        self.inner.maintainer.stop();
        self.send(Command::Stop).ok(); // An error: it has stopped already.
        let mut thread = self.inner.thread.lock();
        let Some(EngineThread { ended, .. }) = thread.as_ref() else { return true };
        let death = self.inner.heartbeat.death();
        let mut dead_since = None;
        while ended.recv_timeout(MAX_HANG_WAIT / 10) == Err(mpsc::RecvTimeoutError::Timeout) {
            let max_wait = match *death.borrow() {
                None => {
                    dead_since = None;
                    continue;
                }
                Some(Death::Silent { .. }) => MAX_HANG_WAIT,
                Some(Death::Panicked) => MAX_PANIC_WAIT,
            };
            if dead_since.get_or_insert_with(Instant::now).elapsed() >= max_wait {
                return false;
            }
        }
        if let Some(EngineThread { handle, .. }) = thread.take() {
            handle.join().ok(); // A panic of the worker was reported by its hook.
        }
        true
    }
}
