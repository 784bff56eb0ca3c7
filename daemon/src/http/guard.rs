//! Checks hosts, origins and the token of every request.
//!
//! - Host: must match exactly, so that a foreign site cannot reach the daemon by DNS rebinding.
//! - Origin: the daemon's own page and configured origins, with `*` all of them; others get 403. A CORS
//!   header names only the origin that asked.
//! - Token: for every route except `/health` and the files of the page. `X-Api-Key` may carry it, as
//!   Anthropic's clients send it. With the setting `allow_without_token`, the routes of Ollama's server need none, to
//!   programs of this machine: a request that comes from a web page, or that a proxy passes on, needs it all the same.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::page;
use super::paths::is_of_ollamas_server;
use crate::auth::AccessToken;
use crate::error::{ApiError, ErrorKind};

const API_KEY: &str = "x-api-key";
/// The configured origin that stands for all.
const ANY: &str = "*";
/// The one that stands for those of this machine.
const THIS_MACHINE: &str = "localhost";

#[derive(Debug)]
pub struct Guard {
    hosts: Vec<String>,
    origins: Vec<String>,
    token: AccessToken,
    opens_ollama: bool,
}

/// The address that a connection comes from, an extension of its requests.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// An extension of a request that was let in without the token.
#[derive(Clone, Copy, Debug)]
pub struct WithoutToken;

impl Guard {
    /// For a daemon at `address`. `hosts` and `origins` are accepted in addition to the loopback
    /// names.
    pub fn new(
        address: SocketAddr,
        hosts: &[String],
        origins: &[String],
        token: AccessToken,
    ) -> Self {
        let mut names = ["127.0.0.1", "localhost", "[::1]"].map(str::to_owned).to_vec();
        names.push(bare(address)); // The announcement names it.
        names.extend(hosts.iter().map(|host| host.to_ascii_lowercase()));
        let with_port = names.iter().map(|name| format!("{name}:{}", address.port()));
        let hosts = with_port.chain(names.iter().cloned()).collect();
        let origins = origins.iter().map(|origin| as_sent(origin)).collect();
        Self { hosts, origins, token, opens_ollama: false }
    }

    /// With `opens`, the routes of Ollama's server need no token.
    #[must_use]
    pub fn with_ollama_open(mut self, opens: bool) -> Self {
        self.opens_ollama = opens;
        self
    }

    /// Whether a request needs no token. Its host and origin are checked.
    fn lets_in(&self, request: &Request) -> bool {
        let headers = request.headers();
        let peer = request.extensions().get::<Peer>();
        // An allowed origin is a page nevertheless, and `*` allows all of them.
        let is_of_page = headers.contains_key(header::ORIGIN)
            || text(headers, "sec-fetch-site").is_some_and(|site| site != "none");
        let is_passed_on = PROXY_HEADERS.iter().any(|name| headers.contains_key(*name));
        self.opens_ollama
            && is_of_ollamas_server(request.uri().path())
            && peer.is_some_and(|peer| peer.0.ip().to_canonical().is_loopback())
            && !is_of_page
            && !is_passed_on
    }

    fn host<'h>(&self, headers: &'h HeaderMap, uri: &Uri) -> Result<&'h str, ApiError> {
        let refused = || {
            ApiError::new(
                ErrorKind::Forbidden,
                "this Host is not served here: use the address that hobd printed, \
                 or start it with --allow-host",
            )
            .code("host_not_allowed")
        };
        let host = text(headers, header::HOST.as_str()).ok_or_else(refused)?;
        let known = |host: &str| self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host));
        let same = uri.authority().is_none_or(|authority| known(authority.as_str()));
        if known(host) && same && headers.get_all(header::HOST).iter().count() == 1 {
            return Ok(host);
        }
        Err(refused())
    }

    /// The origin for CORS headers; `None` for the daemon's own page and without an origin.
    fn origin(&self, headers: &HeaderMap, host: &str) -> Result<Option<HeaderValue>, ApiError> {
        let Some(origin) = headers.get(header::ORIGIN) else { return Ok(None) };
        let text = origin.to_str().unwrap_or_default();
        let is_known = |known: &String| match known.as_str() {
            ANY => true,
            THIS_MACHINE => is_of_this_machine(text),
            known => known.eq_ignore_ascii_case(text),
        };
        if self.origins.iter().any(is_known) {
            return Ok(Some(origin.clone()));
        }
        if text.strip_prefix("http://").is_some_and(|own| own.eq_ignore_ascii_case(host)) {
            return Ok(None);
        }
        Err(ApiError::new(
            ErrorKind::Forbidden,
            "pages of this origin may not call hobd: start it with --allow-origin",
        )
        .code("origin_not_allowed"))
    }

    fn authorised(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let bearer = text(headers, header::AUTHORIZATION.as_str()).and_then(bearer);
        let offered = [bearer, text(headers, API_KEY), protocol_token(headers)];
        let mut offered = offered.into_iter().flatten().peekable();
        if offered.peek().is_none() {
            return Err(ApiError::new(
                ErrorKind::Unauthorized,
                "a token is required: send `Authorization: Bearer <token>` or `X-Api-Key: <token>` \
                 with what is in the token file",
            )
            .code("missing_token"));
        }
        // Clients that know two keys send both.
        if offered.any(|offered| self.token.matches(offered)) {
            return Ok(());
        }
        let message = "this is not the token of this daemon: send what is in the token file, whose \
                       path hobd prints when it starts";
        Err(ApiError::new(ErrorKind::Unauthorized, message).code("invalid_api_key"))
    }
}

/// The middleware of every route. Axum clones its state several times a request.
pub async fn guard(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    let headers = request.headers();
    let origin = match guard.host(headers, request.uri()) {
        Ok(host) => guard.origin(headers, host),
        Err(error) => Err(error),
    };
    let origin = match origin {
        Ok(origin) => origin,
        Err(error) => return error.into_response(),
    };
    let mut response = if is_preflight(&request) {
        preflight(origin.is_some().then_some(headers))
    } else if is_public(request.uri().path()) {
        next.run(request).await
    } else {
        match guard.authorised(headers) {
            Ok(()) => next.run(request).await,
            Err(_) if guard.lets_in(&request) => {
                request.extensions_mut().insert(WithoutToken);
                next.run(request).await
            }
            Err(error) => error.into_response(),
        }
    };
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        let exposed = HeaderValue::from_static("retry-after");
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
    }
    response
}

fn is_public(path: &str) -> bool {
    path == "/health" || page::is_page(path)
}

fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ORIGIN)
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// A browser's request before one with a token. `asked`: its headers, if its origin is configured.
fn preflight(asked: Option<&HeaderMap>) -> Response {
    let mut response = StatusCode::OK.into_response(); // Some clients take no other.
    if let Some(asked) = asked {
        let headers = response.headers_mut();
        for (name, value) in [
            (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, PATCH, DELETE"),
            (header::ACCESS_CONTROL_MAX_AGE, "600"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        // SDKs send headers of their own, such as `x-stainless-os`.
        let more = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS);
        let more = more.map(|more| [b", ", more.as_bytes()].concat()).unwrap_or_default();
        let allowed = HeaderValue::from_bytes(&[OWN_HEADERS.as_bytes(), &more].concat());
        let allowed = allowed.expect("both parts are header values");
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    }
    response
}

/// What proxies add to a request that comes from elsewhere.
const PROXY_HEADERS: [&str; 3] = ["forwarded", "x-forwarded-for", "x-real-ip"];

const OWN_HEADERS: &str = "authorization, content-type, x-api-key, x-session-id, x-evoke-session";

/// A configured origin as browsers send it: without a slash behind the host.
fn as_sent(origin: &str) -> String {
    if origin.ends_with("://") {
        origin.to_owned()
    } else {
        origin.trim_end_matches('/').to_owned()
    }
}

/// Whether a page comes from a server of this machine, at any port.
fn is_of_this_machine(origin: &str) -> bool {
    let host = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
    ["localhost", "127.0.0.1", "[::1]"].into_iter().any(|name| {
        let behind = host.and_then(|host| host.strip_prefix(name));
        behind.is_some_and(|port| port.is_empty() || port.starts_with(':'))
    })
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Pages cannot set headers of a WebSocket, only subprotocols: one of them carries the token.
fn protocol_token(headers: &HeaderMap) -> Option<&str> {
    let offered = text(headers, header::SEC_WEBSOCKET_PROTOCOL.as_str())?;
    offered.split(',').find_map(|protocol| protocol.trim().strip_prefix("hob-token."))
}

/// The address without its port, as in a Host header.
fn bare(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world() -> Guard {
        let (hosts, origins) = (["NAS.local".to_owned()], ["https://app.example/".to_owned()]);
        let token = AccessToken::new("0123456789abcdef");
        Guard::new("127.0.0.1:8642".parse().unwrap(), &hosts, &origins, token)
    }

    fn headers<const N: usize>(pairs: [(&'static str, &'static str); N]) -> HeaderMap {
        pairs.into_iter().map(|(n, v)| (n.parse().unwrap(), HeaderValue::from_static(v))).collect()
    }

    fn host(host: &'static str) -> bool {
        world().host(&headers([("host", host)]), &Uri::from_static("/")).is_ok()
    }

    #[test]
    fn only_exact_hosts_are_served() {
        for good in ["127.0.0.1", "127.0.0.1:8642", "localhost:8642", "[::1]:8642", "nas.local"] {
            assert!(host(good), "{good}");
        }
        for bad in ["evil.example", "127.0.0.1:9999", "localhost.evil.example", "127.0.0.1.", ""] {
            assert!(!host(bad), "{bad}");
        }
        assert!(world().host(&HeaderMap::new(), &Uri::from_static("/")).is_err());
        let absolute = Uri::from_static("http://evil.example/v1/models");
        assert!(world().host(&headers([("host", "localhost")]), &absolute).is_err());
    }

    #[test]
    fn a_daemon_is_reached_at_the_announced_address_wherever_it_listens() {
        for address in
            ["127.0.0.1:8642", "127.0.0.2:8642", "[::1]:8642", "0.0.0.0:8642", "[::]:8642"]
        {
            let guard = Guard::new(
                address.parse().unwrap(),
                &[],
                &[],
                AccessToken::new("0123456789abcdef"),
            );
            for host in [address, "localhost:8642"] {
                let headers = headers([("host", host)]);
                assert!(
                    guard.host(&headers, &Uri::from_static("/")).is_ok(),
                    "{host} at {address}"
                );
            }
        }
    }

    #[test]
    fn an_origin_is_ours_configured_or_refused() {
        let origin = |origin| world().origin(&headers([("origin", origin)]), "localhost:8642");
        assert_eq!(origin("http://localhost:8642"), Ok(None));
        assert_eq!(
            origin("https://app.example"),
            Ok(Some(HeaderValue::from_static("https://app.example")))
        );
        for foreign in
            ["null", "http://evil.example", "http://127.0.0.1:8642", "https://localhost:8642"]
        {
            assert!(origin(foreign).is_err(), "{foreign}");
        }
    }

    #[test]
    fn only_the_bearer_of_the_token_is_authorised() {
        let authorised = |value| world().authorised(&headers([("authorization", value)])).is_ok();
        assert!(authorised("Bearer 0123456789abcdef"));
        assert!(authorised("bearer 0123456789abcdef"));
        for wrong in
            ["Bearer 0123456789abcdeF", "Basic 0123456789abcdef", "0123456789abcdef", "Bearer "]
        {
            assert!(!authorised(wrong), "{wrong}");
        }
        assert!(world().authorised(&HeaderMap::new()).is_err());
        let with_key = |value| world().authorised(&headers([("x-api-key", value)])).is_ok();
        assert!(with_key("0123456789abcdef"));
        let wrong = world().authorised(&headers([("x-api-key", "0123456789abcdeF")])).unwrap_err();
        assert!(wrong.message.contains("token file"), "{wrong}");
        assert!(!with_key("0123456789abcdeF") && !with_key(""));
        let both = [("authorization", "Bearer other"), ("x-api-key", "0123456789abcdef")];
        assert!(world().authorised(&headers(both)).is_ok());
        let offered = |value| headers([("sec-websocket-protocol", value)]);
        let by_protocol = |value| world().authorised(&offered(value)).is_ok();
        assert!(by_protocol("realtime, hob-token.0123456789abcdef"));
        assert!(!by_protocol("realtime, hob-token.0123456789abcdee"));
    }
}
