//! Sends a request of the page to the daemon and its response back.
//!
//! - The shell sets host, token and origin; headers of the page by these names are dropped.
//! - Dropping a request cancels its work in the daemon, in this process or in another.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Context, Result, anyhow, bail};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use hob_daemon::auth::AccessToken;
use hob_daemon::http::texts;
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tauri::ipc::{Channel, InvokeResponseBody};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tower::ServiceExt;

use crate::shell::phase::Phase;

/// A request as the page sent it.
#[derive(Debug, Default)]
pub struct PageRequest {
    pub method: String,
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl PageRequest {
    /// Whether it reads transcripts or the list of them.
    fn reads_transcripts(&self) -> bool {
        let (method, uri) = (self.method.parse::<Method>(), self.path.parse::<Uri>());
        method.is_ok_and(|method| uri.is_ok_and(|uri| texts::answers(&method, &uri)))
    }
}

/// The connection to a daemon, with its token.
#[derive(Clone)]
pub struct Transport {
    route: Route,
    /// The daemon has not loaded its model yet.
    transcripts_only: bool,
    host: HeaderValue,
    token: HeaderValue,
    /// The daemon's runtime: requests end with the daemon.
    runtime: Handle,
}

#[derive(Clone)]
enum Route {
    InProcess(Router),
    Tcp(SocketAddr),
}

impl Transport {
    /// To the daemon in this process.
    pub fn in_process(
        router: Router,
        address: SocketAddr,
        token: &AccessToken,
        runtime: Handle,
    ) -> Self {
        Self::new(Route::InProcess(router), address, token, runtime)
    }

    /// To a daemon in another process.
    pub fn over_tcp(address: SocketAddr, token: &AccessToken, runtime: Handle) -> Self {
        Self::new(Route::Tcp(address), address, token, runtime)
    }

    fn new(route: Route, address: SocketAddr, token: &AccessToken, runtime: Handle) -> Self {
        let (host, token) = (host_of(address), bearer(token));
        Self { route, transcripts_only: false, host, token, runtime }
    }

    /// To a daemon that has opened its transcripts and not loaded its model yet.
    pub fn for_transcripts_only(self) -> Self {
        Self { transcripts_only: true, ..self }
    }

    fn accepts(&self, request: &PageRequest) -> bool {
        !self.transcripts_only || request.reads_transcripts()
    }

    /// Sends the request and streams the response into the channel.
    pub async fn send(&self, request: PageRequest, mut channel: ResponseChannel) {
        let this = self.clone();
        let work = self.runtime.spawn(async move {
            match this.respond(request, &mut channel).await {
                Ok(()) => channel.end(),
                Err(error) => channel.fail(&format!("{error:#}")),
            }
        });
        let mut work = AbortOnDrop(work);
        let _ = (&mut work.0).await; // An error: the daemon ended. The channel's drop says so.
    }

    async fn respond(&self, request: PageRequest, channel: &mut ResponseChannel) -> Result<()> {
        let request = self.http_request(request)?;
        match &self.route {
            Route::InProcess(router) => {
                let Ok(response) = router.clone().oneshot(request).await;
                let (head, body) = response.into_parts();
                channel.stream(head.status, &head.headers, body).await
            }
            Route::Tcp(address) => {
                let response = call(*address, request).await?;
                let (head, body) = response.into_parts();
                channel.stream(head.status, &head.headers, body).await
            }
        }
    }

    fn http_request(&self, page: PageRequest) -> Result<Request<Body>> {
        if !page.path.starts_with('/') {
            bail!("a path begins with a slash");
        }
        let method = Method::from_bytes(page.method.as_bytes()).context("no such method")?;
        let uri: Uri = page.path.parse().context("no such path")?;
        let length = page.body.len();
        let mut request = Request::new(Body::from(page.body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        for (name, value) in &page.headers {
            let name: HeaderName = name.parse().context("no such header")?;
            if !is_reserved(&name) {
                headers.insert(name, HeaderValue::from_str(value).context("no such header")?);
            }
        }
        headers.insert(header::HOST, self.host.clone());
        headers.insert(header::AUTHORIZATION, self.token.clone());
        if length > 0 {
            headers.insert(header::CONTENT_LENGTH, length.into());
        }
        Ok(request)
    }
}

/// Cancels a task when the future that waits for it is dropped.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Headers that only the shell sets: it authenticates, and owns the connection.
fn is_reserved(name: &HeaderName) -> bool {
    const RESERVED: [HeaderName; 8] = [
        header::HOST,
        header::AUTHORIZATION,
        header::ORIGIN,
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        header::EXPECT,
    ];
    RESERVED.contains(name)
}

fn bearer(token: &AccessToken) -> HeaderValue {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.secret()))
        .unwrap_or(HeaderValue::from_static("Bearer"));
    value.set_sensitive(true);
    value
}

fn host_of(address: SocketAddr) -> HeaderValue {
    HeaderValue::from_str(&address.to_string()).expect("an address is a header's value")
}

/// The status of a `GET` without a token.
pub async fn status(address: SocketAddr, path: &str) -> Result<StatusCode> {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = path.parse()?;
    request.headers_mut().insert(header::HOST, host_of(address));
    Ok(call(address, request).await?.status())
}

/// One connection per request: dropping the response closes it, and the daemon cancels the work.
async fn call(
    address: SocketAddr,
    request: Request<Body>,
) -> Result<hyper::Response<hyper::body::Incoming>> {
    let gone = || anyhow!("the daemon at {address} does not answer");
    let stream = TcpStream::connect(address).await.with_context(gone)?;
    let _ = stream.set_nodelay(true);
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.with_context(gone)?;
    tokio::spawn(connection);
    sender.send_request(request).await.with_context(gone)
}

/// The page's channel for one response. It always receives `end` or `error` as the last message.
pub struct ResponseChannel {
    channel: Channel<InvokeResponseBody>,
    has_ended: bool,
}

impl ResponseChannel {
    pub fn new(channel: Channel<InvokeResponseBody>) -> Self {
        Self { channel, has_ended: false }
    }

    pub fn fail(mut self, why: &str) {
        self.last(json!({ "error": why }));
    }

    fn end(mut self) {
        self.last(json!({ "end": true }));
    }

    async fn stream<B>(
        &mut self,
        status: StatusCode,
        headers: &HeaderMap,
        mut body: B,
    ) -> Result<()>
    where
        B: hyper::body::Body<Data = bytes::Bytes> + Unpin,
        B::Error: std::error::Error + Send + Sync + 'static,
    {
        self.send(json!({ "status": status.as_u16(), "headers": text_headers(headers) }))?;
        while let Some(frame) = body.frame().await {
            let frame = frame.context("the answer broke off")?;
            if let Ok(data) = frame.into_data() {
                self.channel.send(InvokeResponseBody::Raw(data.into()))?;
            }
        }
        Ok(())
    }

    fn send(&self, message: serde_json::Value) -> Result<()> {
        Ok(self.channel.send(InvokeResponseBody::Json(message.to_string()))?)
    }

    fn last(&mut self, message: serde_json::Value) {
        self.has_ended = true;
        let _ = self.send(message); // An error: the window is gone.
    }
}

impl Drop for ResponseChannel {
    fn drop(&mut self) {
        if !self.has_ended {
            self.last(json!({ "error": "Hob stopped before the answer ended" }));
        }
    }
}

fn text_headers(headers: &HeaderMap) -> BTreeMap<&str, &str> {
    let texts =
        headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    texts.collect()
}

/// The transport, whenever a daemon runs.
pub struct TransportWatch {
    transports: watch::Receiver<Option<Transport>>,
    phases: watch::Receiver<Phase>,
}

impl TransportWatch {
    pub(super) fn new(
        transports: watch::Receiver<Option<Transport>>,
        phases: watch::Receiver<Phase>,
    ) -> Self {
        Self { transports, phases }
    }

    /// Waits while the daemon starts; returns the message of a failed start.
    pub async fn ready(mut self, request: &PageRequest) -> Result<Transport, String> {
        let ended = || "Hob has ended".to_owned();
        let failed = |phase: &Phase| matches!(phase, Phase::Failed { .. });
        let accepts = |transport: &Option<Transport>| {
            transport.as_ref().is_some_and(|transport| transport.accepts(request))
        };
        tokio::select! {
            transport = self.transports.wait_for(accepts) => {
                transport.map_err(|_| ended())?.clone().ok_or_else(ended)
            }
            phase = self.phases.wait_for(failed) => match &*phase.map_err(|_| ended())? {
                Phase::Failed { message, .. } => Err(message.clone()),
                _ => Err(ended()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_cannot_set_reserved_headers() {
        for name in ["Host", "Authorization", "origin", "Content-Length", "Upgrade"] {
            assert!(is_reserved(&name.parse().unwrap()), "{name}");
        }
        assert!(!is_reserved(&header::CONTENT_TYPE));
    }
}
