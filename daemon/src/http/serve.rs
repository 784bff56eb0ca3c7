//! The socket: accepts connections, bounds their cost, and closes them.
//!
//! - The number of connections is bounded, WebSockets included, and so are size and time of headers. Beyond it, the
//!   connection that has waited longest for the head of a request makes room.
//! - A disconnect drops the request, which cancels its turn.
//! - After `stop` no connection is accepted; running requests, and answers over WebSockets, are dropped after `GRACE`.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router, middleware};
use futures_util::future::BoxFuture;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use super::guard::Peer;
use super::head_waits::{HeadWait, HeadWaits};
use super::{anthropic, drain, ollama, paths};

const MAX_HEADER_TIME: Duration = Duration::from_secs(30);
const MAX_HEADER_BYTES: usize = 64 << 10;
const MAX_HEADERS: usize = 100;
const MAX_CONNECTIONS: u32 = 512;
/// How long running answers may go on after a stop.
pub const GRACE: Duration = Duration::from_secs(5);
/// After it, for WebSockets to drop their answers.
const MAX_DROP_TIME: Duration = Duration::from_millis(500);

/// One of the [`MAX_CONNECTIONS`], an extension of a connection's requests. A WebSocket keeps it: HTTP's part of the
/// connection ends when the upgrade begins. A stop waits until all are dropped.
#[derive(Clone, Debug)]
pub struct ConnectionPermit {
    _permit: Arc<OwnedSemaphorePermit>,
    /// Changes at the stop; closed [`GRACE`] later.
    ending: watch::Receiver<()>,
}

impl ConnectionPermit {
    /// Ready once the server stops: what answers nothing ends now. The wait may be cancelled and repeated.
    pub async fn stopping(&mut self) {
        self.ending.changed().await.ok(); // An error: it has ended.
    }

    /// Ready once the time of running answers is over.
    pub async fn ended(mut self) {
        while self.ending.changed().await.is_ok() {}
    }
}

struct Connections {
    running: JoinSet<()>,
    room: Arc<Semaphore>,
    /// See [`ConnectionPermit`].
    ending: watch::Sender<()>,
}

/// Serves until `stop` is ready; returns when the last connection is closed.
#[inline(never)] // Each crate that waits for an `async fn` compiles it, and all that it waits for, once more.
pub fn serve(
    listener: TcpListener,
    router: Router,
    stop: BoxFuture<'static, ()>,
) -> BoxFuture<'static, ()> {
    Box::pin(serve_until(listener, router, stop))
}

async fn serve_until(listener: TcpListener, router: Router, mut stop: BoxFuture<'static, ()>) {
    // A layer runs before the routes of the router that is the fallback.
    let router = Router::new()
        .fallback_service(router)
        .layer(middleware::from_fn(ollama::errors::in_ollamas_form))
        .layer(middleware::from_fn(anthropic::errors::in_anthropics_form))
        .layer(middleware::map_request(paths::respell))
        .layer(middleware::from_fn(drain::drain));
    let mut connections = Connections {
        running: JoinSet::new(),
        room: Arc::new(Semaphore::new(MAX_CONNECTIONS as usize)),
        ending: watch::Sender::new(()),
    };
    accept_until(listener, &router, &mut stop, &mut connections).await;
    let Connections { mut running, room, ending } = connections;
    ending.send_replace(());
    let all_end = async {
        while running.join_next().await.is_some() {}
        all_closed(&room).await; // WebSockets too.
    };
    if tokio::time::timeout(GRACE, all_end).await.is_err() {
        let connections = MAX_CONNECTIONS as usize - room.available_permits();
        tracing::info!(connections, "dropping connections that are still busy");
    }
    running.shutdown().await;
    drop(ending);
    tokio::time::timeout(MAX_DROP_TIME, all_closed(&room)).await.ok(); // An error: one is still busy.
}

/// Waits until no connection has a permit.
async fn all_closed(room: &Semaphore) {
    drop(room.acquire_many(MAX_CONNECTIONS).await);
}

/// Accepts connections until `stop` is ready.
async fn accept_until(
    listener: TcpListener,
    router: &Router,
    stop: &mut BoxFuture<'static, ()>,
    connections: &mut Connections,
) {
    let Connections { running, room, ending } = connections;
    let room = &*room;
    let waits = HeadWaits::default();
    // Polled until it is ready: dropping it would close a connection that waits for room.
    let mut accepting = pin!(accept(&listener, room, &waits));
    loop {
        let accepted = tokio::select! {
            () = &mut *stop => return,
            accepted = accepting.as_mut() => accepted,
            Some(_) = running.join_next() => continue, // Removes ended connections.
        };
        accepting.set(accept(&listener, room, &waits));
        let Some((stream, peer, permit)) = accepted else { continue };
        let permit = ConnectionPermit { _permit: Arc::new(permit), ending: ending.subscribe() };
        let router = router.clone().layer(Extension(Peer(peer))).layer(Extension(permit));
        let wait = HeadWait::new(&waits);
        running.spawn(serve_connection(stream, router, wait, ending.subscribe()));
    }
}

/// Serves a connection until it closes, has to make room, or `ending` changes.
async fn serve_connection(
    stream: TcpStream,
    router: Router,
    wait: Arc<HeadWait>,
    mut ending: watch::Receiver<()>,
) {
    let service = TowerToHyperService::new(router);
    let of_requests = wait.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        of_requests.end();
        let (answer, wait) = (service.call(request), of_requests.clone());
        async move { answer.await.map(|answer| wait.after(answer)) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(MAX_HEADER_TIME)
        .max_buf_size(MAX_HEADER_BYTES)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades(); // To WebSockets.
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = wait.closed() => {
            tracing::debug!("connection makes room for another");
            return;
        }
        _ = ending.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended early");
    }
}

/// `None`: a connection failed before it was accepted.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
    waits: &HeadWaits,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    match listener.accept().await {
        Ok((stream, peer)) => {
            let _ = stream.set_nodelay(true); // Tokens are small packets.
            Some((stream, peer, permit(room, waits).await))
        }
        Err(error) => {
            // Probably out of file descriptors: wait for connections to close.
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

/// Waits for room; the connection that has waited longest for a head makes it.
async fn permit(room: &Arc<Semaphore>, waits: &HeadWaits) -> OwnedSemaphorePermit {
    let mut permit = pin!(room.clone().acquire_owned());
    let permit = tokio::select! {
        biased; // Where there is room, none closes.
        permit = permit.as_mut() => permit,
        () = waits.close_longest() => permit.as_mut().await,
    };
    permit.expect("the semaphore is never closed")
}
