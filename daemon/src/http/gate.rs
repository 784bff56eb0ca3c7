//! The requests to a daemon whose model still loads.
//!
//! - The routes of `texts` answer at once. All other requests wait until the daemon is open, as requests
//!   wait for the weights after an unload.

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tokio::sync::watch;

use super::texts;
use crate::error::{ApiError, ErrorKind};

#[derive(Clone)]
struct Gate {
    texts: Router,
    /// `None` until the daemon is open.
    all_routes: watch::Receiver<Option<Router>>,
}

/// A router for the socket, and the sender of the router that has all routes.
pub fn gate(texts: Router) -> (Router, watch::Sender<Option<Router>>) {
    let (sender, all_routes) = watch::channel(None);
    (Router::new().fallback(pass).with_state(Gate { texts, all_routes }), sender)
}

async fn pass(State(gate): State<Gate>, request: Request) -> Response {
    let Gate { texts, mut all_routes } = gate;
    if all_routes.borrow().is_none() && texts::answers(request.method(), request.uri()) {
        return answer(texts, request).await;
    }
    let router = all_routes.wait_for(Option::is_some).await.ok().and_then(|router| router.clone());
    match router {
        Some(router) => answer(router, request).await,
        None => {
            let message = "the daemon stopped before its model was loaded: try again";
            ApiError::new(ErrorKind::Busy, message).code("stopping").into_response()
        }
    }
}

async fn answer(router: Router, request: Request) -> Response {
    match TowerToHyperService::new(router).call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
