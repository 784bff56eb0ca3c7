//! HTTP to the engine, over the hyper that serves the API.
//!
//! - HTTP/1.1 alone; no redirect is followed and no proxy is asked. TLS with the certificates that the system
//!   trusts, which are read for an `https://` address only.
//! - An answer begins, and goes on, within the longest silence that the settings allow.
//! - A request that fails at once, because the engine has closed a kept connection, such as in a restart, is sent once
//!   more on another one.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use axum::body::Bytes;
use axum::http::{HeaderName, HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::time::timeout;

use super::error::UpstreamError;

const CONNECT: Duration = Duration::from_secs(10);

/// Within this time, a closed connection was closed before the request came. Later, the engine has failed in it.
const AT_ONCE: Duration = Duration::from_millis(500);

/// Maximum size of an answer that is no stream: vectors of 2,048 texts.
const MAX_ANSWER_BYTES: usize = 256 << 20;
const MAX_ERROR_BYTES: usize = 64 << 10;

pub type Headers = [(HeaderName, HeaderValue)];

/// Clones share everything.
#[derive(Clone)]
pub struct Web(Arc<Inner>);

struct Inner {
    client: AnyClient,
    url: String,
    bearer: Option<HeaderValue>,
    silence: Duration,
}

enum AnyClient {
    Plain(Client<HttpConnector, Full<Bytes>>),
    Tls(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

impl AnyClient {
    fn of(url: &str) -> anyhow::Result<Self> {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(CONNECT));
        tcp.set_nodelay(true);
        let builder = Client::builder(TokioExecutor::new());
        if url.starts_with("http://") {
            return Ok(Self::Plain(builder.build(tcp)));
        }
        tcp.enforce_http(false);
        let connector = HttpsConnectorBuilder::new().with_native_roots();
        let connector = connector.context(
            "cannot read the system's certificates, which an https upstream needs: install them \
             (ca-certificates)",
        )?;
        Ok(Self::Tls(builder.build(connector.https_only().enable_http1().wrap_connector(tcp))))
    }

    async fn request(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, legacy::Error> {
        match self {
            Self::Plain(client) => client.request(request).await,
            Self::Tls(client) => client.request(request).await,
        }
    }
}

impl Web {
    pub fn open(url: &str, token: Option<&str>, silence: Duration) -> anyhow::Result<Self> {
        let client = AnyClient::of(url)?;
        let parsed = token.map(|token| HeaderValue::from_str(&format!("Bearer {token}")));
        let value = parsed.transpose().context(
            "a header cannot carry the token of upstream_token_file: write it as one line of visible \
             ASCII",
        )?;
        let bearer = value.map(|mut bearer| {
            bearer.set_sensitive(true);
            bearer
        });
        Ok(Self(Arc::new(Inner { client, url: url.to_owned(), bearer, silence })))
    }

    pub fn url(&self) -> &str {
        &self.0.url
    }

    pub fn silence(&self) -> Duration {
        self.0.silence
    }

    /// The answer as a whole.
    pub async fn json(
        &self,
        method: Method,
        path: &str,
        headers: &Headers,
        body: Option<&Value>,
    ) -> Result<Value, UpstreamError> {
        let response = self.send(method, path, headers, body).await?;
        let whole = self.whole(response, MAX_ANSWER_BYTES).await?;
        serde_json::from_slice(&whole).map_err(|_| self.foreign("its answer is no JSON"))
    }

    /// An answer that is a stream of events; its head has arrived.
    pub async fn stream(
        &self,
        path: &str,
        headers: &Headers,
        body: &Value,
    ) -> Result<Incoming, UpstreamError> {
        let response = self.send(Method::POST, path, headers, Some(body)).await?;
        let kind = response.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.starts_with("text/event-stream") {
            Ok(response.into_body())
        } else {
            Err(self.foreign("it was asked for a stream and sent none"))
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &Headers,
        body: Option<&Value>,
    ) -> Result<Response<Incoming>, UpstreamError> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url()));
        if let Some(bearer) = &self.0.bearer {
            request = request.header(header::AUTHORIZATION, bearer);
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let body = body.map(ToString::to_string).unwrap_or_default();
        let request = request.body(Full::from(body));
        let request = request.map_err(|error| self.unreachable(&error))?;
        let began = Instant::now();
        let mut sent = self.try_send(request.clone()).await?;
        if sent.as_ref().is_err_and(|error| was_closed(error) && began.elapsed() < AT_ONCE) {
            sent = self.try_send(request).await?;
        }
        let response = sent.map_err(|error| {
            if error.is_connect() { self.unreachable(&error) } else { self.broken(&error) }
        })?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let retry_after = response.headers().get(header::RETRY_AFTER).cloned();
        let said = self.whole(response, MAX_ERROR_BYTES).await.unwrap_or_default();
        let error = UpstreamError::of_answer(self.url(), status, &String::from_utf8_lossy(&said));
        Err(error.with_retry_after(retry_after.as_ref().and_then(|value| value.to_str().ok())))
    }

    async fn try_send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Result<Response<Incoming>, legacy::Error>, UpstreamError> {
        let sent = timeout(self.silence(), self.0.client.request(request)).await;
        sent.map_err(|_| self.silent(self.silence()))
    }

    async fn whole(
        &self,
        response: Response<Incoming>,
        max_bytes: usize,
    ) -> Result<Bytes, UpstreamError> {
        let reading = Limited::new(response.into_body(), max_bytes).collect();
        let in_time = timeout(self.silence(), reading).await;
        let read = in_time.map_err(|_| self.silent(self.silence()))?;
        Ok(read.map_err(|error| self.broken(error.as_ref()))?.to_bytes())
    }

    pub fn unreachable(&self, error: &dyn Error) -> UpstreamError {
        UpstreamError::Unreachable { url: self.0.url.clone(), reason: cause_of(error) }
    }

    pub fn broken(&self, error: &dyn Error) -> UpstreamError {
        UpstreamError::Broken { url: self.0.url.clone(), reason: cause_of(error) }
    }

    pub fn silent(&self, silence: Duration) -> UpstreamError {
        UpstreamError::Silent { url: self.0.url.clone(), secs: silence.as_secs() }
    }

    pub fn foreign(&self, what: &str) -> UpstreamError {
        UpstreamError::Foreign { url: self.0.url.clone(), what: what.to_owned() }
    }
}

/// Whether the engine has closed the connection before it answered.
fn was_closed(error: &legacy::Error) -> bool {
    let closes = |cause: &(dyn Error + 'static)| {
        let by_http = cause.downcast_ref::<hyper::Error>();
        let by_system = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        by_http.is_some_and(|error| error.is_incomplete_message() || error.is_canceled())
            || by_system.is_some_and(|kind| {
                matches!(kind, io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
            })
    };
    let mut cause = error.source();
    while let Some(found) = cause {
        if closes(found) {
            return !error.is_connect();
        }
        cause = found.source();
    }
    false
}

/// The last cause, which says what happened.
fn cause_of(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
