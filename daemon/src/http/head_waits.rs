//! Which connections wait for the head of a request, and which of them closes to make room for another client's.
//!
//! - A connection waits from its start, and from the end of each answer, until a head is complete.
//! - The one that has waited longest closes first. One that became a WebSocket does not wait.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::StatusCode;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The waits of all connections. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct HeadWaits {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    waits: Mutex<Waits>,
    begun: Notify,
}

#[derive(Debug, Default)]
struct Waits {
    next: u64,
    /// What closes each connection, by the number of its wait: the longest first.
    closers: BTreeMap<u64, Arc<Notify>>,
}

impl HeadWaits {
    /// Closes the connection that has waited longest, once there is one. Cancel safe.
    pub async fn close_longest(&self) {
        loop {
            let longest = self.shared.waits.lock().closers.pop_first();
            if let Some((_, closer)) = longest {
                closer.notify_one();
                return;
            }
            self.shared.begun.notified().await;
        }
    }
}

/// One connection. Dropping it ends its wait.
#[derive(Debug)]
pub struct HeadWait {
    all: HeadWaits,
    closer: Arc<Notify>,
    /// Number of its wait, while it waits.
    number: Mutex<Option<u64>>,
}

impl HeadWait {
    /// A connection begins and waits.
    pub fn new(all: &HeadWaits) -> Arc<Self> {
        let wait = Self { all: all.clone(), closer: Arc::default(), number: Mutex::new(None) };
        wait.begin();
        Arc::new(wait)
    }

    /// Returns when the connection is to close.
    pub async fn closed(&self) {
        self.closer.notified().await;
    }

    /// A head is complete.
    pub fn end(&self) {
        let number = self.number.lock().take();
        if let Some(number) = number {
            self.all.shared.waits.lock().closers.remove(&number);
        }
    }

    /// The connection waits again once the answer is sent.
    pub fn after(self: Arc<Self>, answer: Response) -> Response {
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            return answer;
        }
        answer.map(|body| Body::new(Sending { body, wait: self }))
    }

    fn begin(&self) {
        let mut waits = self.all.shared.waits.lock();
        let number = waits.next;
        waits.next += 1;
        waits.closers.insert(number, self.closer.clone());
        drop(waits);
        *self.number.lock() = Some(number);
        self.all.shared.begun.notify_one();
    }
}

impl Drop for HeadWait {
    fn drop(&mut self) {
        self.end();
    }
}

/// The body of an answer, until it is sent.
struct Sending {
    body: Body,
    wait: Arc<HeadWait>,
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.wait.begin();
    }
}

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    /// Whether the connection is to close.
    async fn is_closed(wait: &HeadWait) -> bool {
        timeout(Duration::ZERO, wait.closed()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_has_waited_longest_closes_and_one_that_has_a_request_stays() {
        let all = HeadWaits::default();
        let [busy, first, second] = [(); 3].map(|()| HeadWait::new(&all));
        busy.end();
        all.close_longest().await;
        assert!(is_closed(&first).await && !is_closed(&second).await && !is_closed(&busy).await);
        drop(second);
        let waiting = timeout(SOON, all.close_longest()).await;
        assert!(waiting.is_err(), "a connection that is gone makes no room");

        let answer = busy.clone().after(Response::new(Body::from("answered")));
        assert!(timeout(SOON, all.close_longest()).await.is_err(), "its answer is being sent");
        drop(answer);
        all.close_longest().await;
        assert!(is_closed(&busy).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_web_socket_does_not_wait() {
        let all = HeadWaits::default();
        let upgraded = HeadWait::new(&all);
        upgraded.end();
        let answer = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
        drop(upgraded.clone().after(answer.body(Body::empty()).unwrap()));
        assert!(timeout(SOON, all.close_longest()).await.is_err());
    }
}
