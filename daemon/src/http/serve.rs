//! The socket: accepts connections, bounds what they cost, and ends them in an orderly way.
//!
//! - Headers are bounded in size and time; so is the number of connections.
//! - A request whose client goes away is dropped, and with it the turn that it waits for.
//! - After `stop`, nothing new is accepted; what runs has `GRACE` to end, then it is dropped.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

const HEADER_TIME: Duration = Duration::from_secs(30);
const HEADER_BYTES: usize = 64 << 10;
const HEADERS: usize = 100;
const CONNECTIONS: usize = 512;
const GRACE: Duration = Duration::from_secs(5);

/// Serves until `stop` is ready, and returns when the last connection is gone.
pub async fn serve(listener: TcpListener, router: Router, stop: impl Future<Output = ()>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let (ending, _) = watch::channel(());
    let mut connections = JoinSet::new();
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = accept(&listener, &room) => accepted,
            Some(_) = connections.join_next() => continue, // Forgets those that ended.
        };
        let Some((stream, permit)) = accepted else { continue };
        let service = TowerToHyperService::new(router.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIME)
            .max_buf_size(HEADER_BYTES)
            .max_headers(HEADERS)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades(); // To WebSockets.
        let mut ends = ending.subscribe();
        connections.spawn(async move {
            let _permit = permit;
            let mut connection = pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                _ = ends.changed() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "connection ended early");
            }
        });
    }
    drop(listener);
    ending.send_replace(());
    let all_end = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, all_end).await.is_err() {
        tracing::info!(connections = connections.len(), "dropping connections that are still busy");
    }
    connections.shutdown().await;
}

/// `None` when a connection failed before it began.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let permit = room.clone().acquire_owned().await.expect("the semaphore is never closed");
    match listener.accept().await {
        Ok((stream, _)) => {
            let _ = stream.set_nodelay(true); // Tokens are small and should not wait.
            Some((stream, permit))
        }
        Err(error) => {
            // Out of file descriptors, most likely: give others time to end.
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}
