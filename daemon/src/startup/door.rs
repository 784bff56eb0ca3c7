//! The socket of a daemon, served from before its model is loaded until its end.

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::http::gate::gate;
use crate::http::serve::serve;

/// Dropping it closes the socket; requests that wait are refused.
#[derive(Debug)]
pub(super) struct Door {
    whole: watch::Sender<Option<Router>>,
    close: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Door {
    /// Answers with `texts`, and lets all other requests wait. Needs a tokio runtime.
    pub fn open(listener: TcpListener, texts: Router) -> Self {
        let (router, whole) = gate(texts);
        let (close, closed) = oneshot::channel();
        let closed = Box::pin(async { closed.await.unwrap_or(()) }); // An error: the door was dropped.
        Self { whole, close, serving: tokio::spawn(serve(listener, router, closed)) }
    }

    /// Answers with `whole` from now on, also the requests that wait.
    pub fn admit(&self, whole: Router) {
        self.whole.send_replace(Some(whole));
    }

    /// Gives running requests their grace, and closes all connections.
    pub async fn close(self) {
        let Self { whole, close, serving } = self;
        drop(close);
        serving.await.unwrap_or(()); // An error: its runtime has ended.
        drop(whole);
    }
}
