//! How a request of the page gets to the daemon, and its answer back.
//!
//! - Host, token and origin are the shell's: whatever the page says of them is left out.
//! - Dropping a request drops the work for it, wherever that is done.

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

use crate::shell::state::Phase;

/// A request, as the page has put it.
#[derive(Debug, Default)]
pub struct Ask {
    pub method: String,
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Ask {
    /// Whether it reads what was said, or the list of it.
    fn is_for_texts(&self) -> bool {
        let (method, uri) = (self.method.parse::<Method>(), self.path.parse::<Uri>());
        method.is_ok_and(|method| uri.is_ok_and(|uri| texts::answers(&method, &uri)))
    }
}

/// A way to a daemon.
#[derive(Clone)]
pub struct Carrier {
    way: Way,
    /// The daemon cannot do more yet.
    has_texts_alone: bool,
    host: HeaderValue,
    token: HeaderValue,
    /// The daemon's: what runs for it ends with it.
    runtime: Handle,
}

#[derive(Clone)]
enum Way {
    Here(Router),
    There(SocketAddr),
}

impl Carrier {
    /// To the daemon in this process.
    pub fn here(router: Router, address: SocketAddr, token: &AccessToken, runtime: Handle) -> Self {
        Self::by(Way::Here(router), address, token, runtime)
    }

    /// To another one.
    pub fn there(address: SocketAddr, token: &AccessToken, runtime: Handle) -> Self {
        Self::by(Way::There(address), address, token, runtime)
    }

    fn by(way: Way, address: SocketAddr, token: &AccessToken, runtime: Handle) -> Self {
        let (host, token) = (host_of(address), bearer(token));
        Self { way, has_texts_alone: false, host, token, runtime }
    }

    /// The same, for a daemon that knows what was said and nothing else yet.
    pub fn for_texts_alone(self) -> Self {
        Self { has_texts_alone: true, ..self }
    }

    fn takes(&self, ask: &Ask) -> bool {
        !self.has_texts_alone || ask.is_for_texts()
    }

    /// Asks, and hands the answer out as it comes.
    pub async fn carry(&self, ask: Ask, mut outlet: Outlet) {
        let this = self.clone();
        let work = self.runtime.spawn(async move {
            match this.answer(ask, &mut outlet).await {
                Ok(()) => outlet.end(),
                Err(error) => outlet.fail(&format!("{error:#}")),
            }
        });
        let mut work = Bound(work);
        let _ = (&mut work.0).await; // An error: the daemon ended. The outlet says so.
    }

    async fn answer(&self, ask: Ask, outlet: &mut Outlet) -> Result<()> {
        let request = self.request(ask)?;
        match &self.way {
            Way::Here(router) => {
                let Ok(response) = router.clone().oneshot(request).await;
                let (head, body) = response.into_parts();
                outlet.pour(head.status, &head.headers, body).await
            }
            Way::There(address) => {
                let response = call(*address, request).await?;
                let (head, body) = response.into_parts();
                outlet.pour(head.status, &head.headers, body).await
            }
        }
    }

    fn request(&self, ask: Ask) -> Result<Request<Body>> {
        if !ask.path.starts_with('/') {
            bail!("a path begins with a slash");
        }
        let method = Method::from_bytes(ask.method.as_bytes()).context("no such method")?;
        let uri: Uri = ask.path.parse().context("no such path")?;
        let length = ask.body.len();
        let mut request = Request::new(Body::from(ask.body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        for (name, value) in &ask.headers {
            let name: HeaderName = name.parse().context("no such header")?;
            if !is_ours(&name) {
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

/// A task that ends with whoever waits for it.
struct Bound(JoinHandle<()>);

impl Drop for Bound {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What the page may not say: it is the shell that speaks to the daemon, on a connection of its own.
fn is_ours(name: &HeaderName) -> bool {
    const OURS: [HeaderName; 8] = [
        header::HOST,
        header::AUTHORIZATION,
        header::ORIGIN,
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        header::EXPECT,
    ];
    OURS.contains(name)
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

/// What a daemon answers there, without a token.
pub async fn status(address: SocketAddr, path: &str) -> Result<StatusCode> {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = path.parse()?;
    request.headers_mut().insert(header::HOST, host_of(address));
    Ok(call(address, request).await?.status())
}

/// One connection for one request: when the answer is dropped, so is it, and the daemon knows.
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

/// Where an answer goes: the page's channel. It always hears an end.
pub struct Outlet {
    channel: Channel<InvokeResponseBody>,
    is_over: bool,
}

impl Outlet {
    pub fn new(channel: Channel<InvokeResponseBody>) -> Self {
        Self { channel, is_over: false }
    }

    /// Nothing comes any more, and this is why.
    pub fn fail(mut self, why: &str) {
        self.last(json!({ "error": why }));
    }

    fn end(mut self) {
        self.last(json!({ "end": true }));
    }

    async fn pour<B>(&mut self, status: StatusCode, headers: &HeaderMap, mut body: B) -> Result<()>
    where
        B: hyper::body::Body<Data = bytes::Bytes> + Unpin,
        B::Error: std::error::Error + Send + Sync + 'static,
    {
        self.send(json!({ "status": status.as_u16(), "headers": texts(headers) }))?;
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
        self.is_over = true;
        let _ = self.send(message); // An error: the window is gone.
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        if !self.is_over {
            self.last(json!({ "error": "Hob stopped in between" }));
        }
    }
}

fn texts(headers: &HeaderMap) -> BTreeMap<&str, &str> {
    let texts =
        headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    texts.collect()
}

/// The way to the daemon, whenever there is one.
pub struct Carriers {
    carriers: watch::Receiver<Option<Carrier>>,
    phases: watch::Receiver<Phase>,
}

impl Carriers {
    pub(super) fn new(
        carriers: watch::Receiver<Option<Carrier>>,
        phases: watch::Receiver<Phase>,
    ) -> Self {
        Self { carriers, phases }
    }

    /// Waits while it starts.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn ready(mut self, ask: &Ask) -> Result<Carrier, String> {
        let ended = || "Hob has ended".to_owned();
        let failed = |phase: &Phase| matches!(phase, Phase::Failed { .. });
        tokio::select! {
            carrier = self.carriers.wait_for(|it| it.as_ref().is_some_and(|it| it.takes(ask))) => {
                carrier.map_err(|_| ended())?.clone().ok_or_else(ended)
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
    fn the_page_does_not_say_who_it_is() {
        for name in ["Host", "Authorization", "origin", "Content-Length", "Upgrade"] {
            assert!(is_ours(&name.parse().unwrap()), "{name}");
        }
        assert!(!is_ours(&header::CONTENT_TYPE));
    }
}
