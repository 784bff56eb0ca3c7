//! The HTTP server of a daemon: it serves saved texts while the model loads, and all routes afterwards.

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::http::gate::gate;
use crate::http::serve::serve;

/// Dropping it closes the socket, and refuses the requests that wait for the model.
#[derive(Debug)]
pub(super) struct HttpServer {
    all_routes: watch::Sender<Option<Router>>,
    close: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl HttpServer {
    /// Answers with `texts`; all other requests wait for [`Self::serve_all`]. Needs a tokio runtime.
    pub fn start(listener: TcpListener, texts: Router) -> Self {
        let (router, all_routes) = gate(texts);
        let (close, closed) = oneshot::channel();
        let closed = Box::pin(async { closed.await.unwrap_or(()) }); // An error: the server was dropped.
        Self { all_routes, close, serving: tokio::spawn(serve(listener, router, closed)) }
    }

    /// Answers with `all_routes` from now on, also the requests that wait.
    pub fn serve_all(&self, all_routes: Router) {
        self.all_routes.send_replace(Some(all_routes));
    }

    /// Accepts no connection any more, gives running requests five seconds, and closes the rest.
    pub async fn close(self) {
        let Self { all_routes, close, serving } = self;
        drop(close);
        serving.await.unwrap_or(()); // An error: its runtime has ended.
        drop(all_routes);
    }
}
